"""Steer rules, by docs/steer.md: random lists and frames. Rules are tried one after the other."""
import os
import random
import re
import struct

import packet
from packet import (AH, ESP, FRAGMENT, GRE, ICMP, ICMP6, IPIP, L2TP, OPTIONS, SCTP, TCP, UDP, Fields, ethernet, fragment_header, mac,
                    options, tag, wire)
from replay import GAP, START, Gateway, replay

OWN, STATION = mac("02:00:00:00:00:01"), mac("02:00:00:00:00:99")
TOPOLOGY = '''version = 1

[[interface]]
name = "wan"
port = "null"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24", "2001:db8:1::1/64"]
steer = "edge"

[[interface]]
name = "v10"
parent = "wan"
vlan = 10
address = ["10.10.0.1/24", "2001:db8:10::1/64"]
steer = "edge"

[[interface]]
name = "v20"
parent = "wan"
vlan = { outer = 20, inner = 30 }
address = ["10.20.0.1/24", "2001:db8:20::1/64"]
steer = "edge"

[[interface]]
name = "dpi"
port = "null"
address = ["198.51.100.1/24", "2001:db8:2::1/64"]

[[interface]]
name = "up"
port = "null"
address = ["203.0.113.1/24", "2001:db8:3::1/64"]

[[route]]
prefix = "0.0.0.0/0"
via = { address = "203.0.113.254" }

[[route]]
prefix = "::/0"
via = { address = "2001:db8:3::fe" }
'''
HOPS = [("dpi", a, f"02:00:00:00:01:{n:02x}") for n, a in
        enumerate(("198.51.100.2", "198.51.100.3", "2001:db8:2::2", "2001:db8:2::3"))]
HOPS += [("up", a, f"02:00:00:00:02:{n:02x}") for n, a in enumerate(("203.0.113.254", "203.0.113.7", "2001:db8:3::fe", "2001:db8:3::7"))]
NEIGHBORS = "".join(f'\n[[neighbor]]\ninterface = "{i}"\naddress = "{a}"\nmac = "{m}"\n' for i, a, m in HOPS)
PREFIXES = {4: ("10.0.0.0/8", "10.1.0.0/30", "10.1.0.1", "10.1.0.1-10.1.0.2", "11.0.0.0/31"),
            6: ("2001:db8:a::/48", "2001:db8:a::/126", "2001:db8:a::1", "2001:db8:a::1-2001:db8:a::2", "2001:db8:b::/127")}
HOSTS = {4: ("10.1.0.0", "10.1.0.1", "10.1.0.2", "10.1.0.3", "11.0.0.0", "11.0.0.1", "11.0.0.2"),
         6: ("2001:db8:a::", "2001:db8:a::1", "2001:db8:a::2", "2001:db8:a::3", "2001:db8:b::", "2001:db8:b::1", "2001:db8:b::2")}
NAMES = {ICMP: "icmp", TCP: "tcp", UDP: "udp", GRE: "gre", ESP: "esp", AH: "ah", ICMP6: "icmp6", L2TP: "l2tp", SCTP: "sctp", IPIP: "ipv4"}
FLAGS = ("fin", "syn", "rst", "psh", "ack", "urg")
TAGS = {"wan": b"", "v10": tag(10), "v20": tag(20, 0x88a8) + tag(30)}
PORTS = (0, 1, 2, 80, 2123, 2152, 4500, 4789, 65535)
IDS = (0, 1, 2, 3, 255, 256)
MACS = (("mac-from", "02:00:00:00:00:99"), ("mac-from", "02:00:00:00:00:00/40"), ("mac-from", "02:00:00:00:00:98"), ("mac-to", "02:00:00:00:00:01"),
        ("mac-to", "02:00:00:00:00:98/47"))


def number(text):
    return int(wire.ipaddress.ip_address(text))


class Rule:
    """A rule: its text, and what it matches."""
    PROTOCOLS = (TCP, UDP, UDP, UDP, ICMP, ICMP6, ESP, ESP, AH, GRE, L2TP, L2TP, SCTP, IPIP)

    def __init__(self, rng):
        self.families, self.proto, self.ends = (4, 6), None, [None, None]
        self.ports, self.vlan, self.tests, self.then = [None, None], None, [], None
        what = self.what(rng)
        ends = [self.end(rng, n) for n in (0, 1)]
        rest = self.conditions(rng)
        actions = self.actions(rng)
        if rng.random() < 0.15:
            a = rng.choice((10, 20, 30, 5))
            self.vlan = (a, a + rng.choice((0, 0, 10)))
            what = f"vlan {self.span(self.vlan)} {what}"
        self.text = " ".join(x for x in (actions, what, "from", ends[0], "to", ends[1], *rest) if x)

    @staticmethod
    def span(r):
        return str(r[0]) if r[0] == r[1] else f"{r[0]}-{r[1]}"

    def what(self, rng):
        if rng.random() < 0.25:
            if rng.random() < 0.5:
                return "ip"
            self.families = rng.choice(((4,), (6,)))
            return f"ip{self.families[0]}"
        self.proto = rng.choice(self.PROTOCOLS)
        name = NAMES[self.proto] if rng.random() < 0.7 else str(self.proto)
        if rng.random() < 0.3:
            name = "proto " + name
        if self.proto == ICMP:
            self.families = (4,)
        elif self.proto == ICMP6:
            self.families = (6,)
        elif rng.random() < 0.4:
            self.families = rng.choice(((4,), (6,)))
            return f"ip{self.families[0]} {name}"
        return name

    def end(self, rng, n):
        text = "any"
        if rng.random() < 0.5:
            version = rng.choice(self.families)
            text = rng.choice(PREFIXES[version])
            self.families = (version,)
            if "/" in text:
                net = wire.ipaddress.ip_network(text)
                self.ends[n] = (int(net[0]), int(net[-1]))
            else:
                a = text.split("-")
                self.ends[n] = (number(a[0]), number(a[-1]))
        if self.proto in packet.PORTS and rng.random() < 0.3:
            a = rng.choice(PORTS)
            self.ports[n] = (a, rng.choice([b for b in PORTS if b >= a]) if rng.random() < 0.4 else a)
            text += f" port {self.span(self.ports[n])}"
            if self.ports[n] == (0, 65535):  # a whole range is no condition
                self.ports[n] = None
        return text

    def conditions(self, rng):
        def identifier(name, most):
            a = rng.choice(IDS + (most,))
            b = rng.choice([x for x in IDS + (most,) if x >= a]) if rng.random() < 0.4 else a
            self.tests.append((name, a, b))
            out.append(f"{name} {self.span((a, b))}")
        out = []
        if self.proto == ESP and rng.random() < 0.7 or self.proto == AH and (rng.random() < 0.7 or self.families != (4,)):
            identifier("spi", 2**32 - 1)
        elif self.proto == UDP and rng.random() < 0.5:
            identifier(*rng.choice((("vni", 2**24 - 1), ("teid", 2**32 - 1))))
        elif self.proto == L2TP and rng.random() < 0.7:
            identifier("session", 2**32 - 1)
        elif self.proto in (ICMP, ICMP6) and rng.random() < 0.7:
            a = rng.choice((0, 3, 8, 128, 129))
            self.tests.append(("type", a, a))
            out.append(f"type {a}")
            if rng.random() < 0.4:
                self.tests.append(("code", 0, 1))
                out.append("code 0-1")
        elif self.proto == TCP and rng.random() < 0.5:
            mask = rng.sample(range(6), rng.randrange(1, 4))
            on = rng.sample(mask, rng.randrange(len(mask) + 1))
            self.tests.append(("flags", sum(1 << x for x in on), sum(1 << x for x in mask)))
            out.append(f"tcp-flags {','.join(FLAGS[x] for x in on) or 'none'}/{','.join(FLAGS[x] for x in mask)}")
        elif self.proto not in packet.PORTS and rng.random() < 0.15:
            word = rng.choice(("fragment", "no-fragment"))
            self.tests.append((word, 0, 0))
            out.append(word)
        if rng.random() < 0.2:
            out.append(self.octets(rng))
        if rng.random() < 0.1:
            a = rng.choice((0, 10, 46))
            self.tests.append(("dscp", a, a))
            out.append(f"dscp {a}")
        if rng.random() < 0.1:
            name, text = rng.choice(MACS)
            address, length = (text.split("/") + ["48"])[:2]
            self.tests.append((name, int.from_bytes(mac(address), "big"), int(length)))
            out.append(f"{name} {text}")
        carrier = next((t[0] for t in self.tests if t[0] in ("vni", "teid")), "ip" if self.proto == IPIP else None)
        if carrier and rng.random() < 0.6:
            inside = Inside(rng)
            while carrier == "ip" and inside.families == (6,):
                inside = Inside(rng)
            self.tests.append(("inner", carrier, inside))
            out.append(inside.text)
        return out

    def octets(self, rng):
        """Octets under a mask, from a header on."""
        start, at, value = rng.choice((("l2", 12, b"\x08\0"), ("l2", 6, b"\2"), ("l2", 16, b"\x86\xdd"), ("l3", 0, b"\x45"), ("l3", 0, b"\x60"),
                                       ("l3", 8, b"\x40\x11"), ("l3", 16, b"\x0a\1\0"), ("l3", 6, b"\0\0"), ("l4", 0, b"\0\1"), ("l4", 2, b"\x12\xb5"),
                                       ("l4", 42, b"\x0a\1\0\1"), ("l4", 8, b"\x08"), ("l4", 8, b"\0\0\0\1"), ("l3", 40, b"\0"), ("l4", 100, b"\0")))
        mask = bytes(rng.choice((255, 255, 255, 0xf0, 1)) for _ in value) if rng.random() < 0.4 else None
        if mask:
            value = bytes(a & b for a, b in zip(value, mask))
        self.tests.append(("octets", start, (at, value, mask or b"\xff" * len(value))))
        return f"octets {start} {at} {value.hex()}" + (f" mask {mask.hex()}" if mask else "")

    def actions(self, rng):
        self.mark, self.kind, self.way, words = None, None, None, []
        if rng.random() < 0.4:
            self.mark = rng.choice((0, 1, 7, 65535, 2**32 - 1)) or 1
            words.append(f"mark {self.mark}")
        if rng.random() < 0.2:
            words.append("count")
        x = rng.random()
        one = len(self.families) == 1
        if x < 0.15:
            self.kind = "drop"
            words.append("drop")
        elif x < 0.3:
            self.kind, self.way = "interface", rng.choice(("dpi", "up", "v10"))
            words.append(f"redirect interface {self.way}")
        elif x < 0.45 and one:
            self.kind = "hop"
            self.way = rng.choice([h for h in HOPS if wire.v6(h[1]) == (self.families[0] == 6)])
            words.append(f"redirect {rng.choice(('', f'interface {self.way[0]} '))}next-hop {self.way[1]}")
        elif x < 0.55 and one:
            self.kind = "lookup"
            words.append(f"redirect node ip{self.families[0]}-lookup")
        elif x < 0.7:
            self.kind = "advance"
            self.way = rng.choice((14, 22, 34, 42, 46, 50, 50, 50, 54, 58, 58, 70, 78, rng.randrange(1, 90)))
            self.then = rng.choice(("ethernet", "ethernet", "ip4", "ip4", "ip6"))
            words.append(f"advance {self.way}")
        elif not words:
            words.append("count")
        if self.kind == "drop" and self.mark is not None:  # refused
            self.mark = None
            words.pop(0)
        if self.kind in ("interface", "hop", "lookup", "advance") and rng.random() < 0.2:
            words.append("unchecked")
        return " ".join(words)

    def condition_text(self):
        return f" then {self.then}" if self.then else ""

    def matches(self, f):
        if f.version not in self.families:
            return False
        if self.vlan and not any(self.vlan[0] <= v <= self.vlan[1] for _, v in f.tags):
            return False
        for end, have in zip(self.ends, (f.src, f.dst)):
            if end and not end[0] <= int.from_bytes(have, "big") <= end[1]:
                return False
        spi = next((t for t in self.tests if t[0] == "spi"), None)
        if spi:  # of ESP behind UDP, too; of AH among extension headers, too
            have = f.spi if self.proto == ESP else f.auth
            if have is None or not spi[1] <= have <= spi[2]:
                return False
        elif self.proto not in (None, f.proto):
            return False
        for range_, have in zip(self.ports, (f.sport, f.dport)):
            if range_ and (have is None or not range_[0] <= have <= range_[1]):
                return False
        return all(self.holds(f, *t) for t in self.tests)

    def holds(self, f, name, a, b):
        if name == "spi":
            return True
        if name == "inner":
            g = packet_inside(f, a)
            return g is not None and b.matches(g)
        if name in ("mac-from", "mac-to"):  # a packet without a frame has no stations
            have = int.from_bytes(f.source if name == "mac-from" else f.to, "big")
            return not isinstance(f, Advanced) and have >> 48 - b == a >> 48 - b
        if name == "flags":
            return f.flags is not None and f.flags & b == a
        if name == "octets":
            at, value, mask = b
            h = f.frame if a == "l2" else f.packet if a == "l3" else None if f.later else f.packet[f.head:]
            if h is None or a == "l2" and isinstance(f, Advanced) or len(h) < at + len(value):
                return False
            return bytes(x & m for x, m in zip(h[at:], mask)) == value
        if name in ("fragment", "no-fragment"):
            return f.later == (name == "fragment")
        have = getattr(f, name)
        return have is not None and a <= have <= b


class Inside(Rule):
    """The packet inside that a rule matches."""
    PROTOCOLS = (TCP, UDP, UDP, ICMP, ICMP6, SCTP, GRE)

    def __init__(self, rng):
        self.families, self.proto, self.ends = (4, 6), None, [None, None]
        self.ports, self.vlan, self.tests, self.then = [None, None], None, [], None
        what = self.what(rng)
        ends = [self.end(rng, n) for n in (0, 1)]
        self.text = " ".join(("inner", what, "from", ends[0], "to", ends[1], *self.conditions(rng)))

    def conditions(self, rng):
        out = []
        if self.proto in (ICMP, ICMP6) and rng.random() < 0.5:
            a = rng.choice((0, 3, 8, 128, 129))
            self.tests.append(("type", a, a))
            out.append(f"type {a}")
        if rng.random() < 0.2:
            a = rng.choice((0, 10, 46))
            self.tests.append(("dscp", a, a))
            out.append(f"dscp {a}")
        return out


def packet_inside(f, carrier):
    """The fields of the packet that a packet carries; None if there is none, or if it is not whole."""
    try:
        if f.later:
            return None
        u = f.packet[f.head:]
        if carrier == "ip":
            g = Advanced(u) if f.proto == IPIP and u[0] >> 4 == 4 else None
        elif f.proto != UDP or len(u) < 16:
            return None
        elif carrier == "vni":
            g = Fields(u[16:]) if u[8] & 8 else None
        else:  # GTPv1-U without options, with a packet of a user
            g = Advanced(u[16:]) if u[8] == 0x30 and u[9] == 255 and u[16] >> 4 in (4, 6) else None
        return g if g and g.version and whole(g) else None
    except (IndexError, struct.error):
        return None


def whole(f):
    """Whether the packet of a frame is whole and sound."""
    p = f.frame[f.l3:]
    if p[0] >> 4 != f.version:
        return False
    if f.version == 6:
        return len(p) >= 40 + f.length and f.head <= 40 + f.length
    n = (p[0] & 15) * 4
    return 20 <= n <= f.length <= len(p) and not wire.checksum(p[:n])


def transport(rng, src, dst, inner):
    """A random transport header with data: its protocol and octets."""
    kind = rng.randrange(15)
    a, b = rng.choice(PORTS), rng.choice(PORTS)
    i = rng.choice(IDS + (2**24 - 1,))

    def udp(data, p=None):
        return UDP, wire.udp_part(src, dst, a, b if p is None else p, data)
    six = wire.v6(src)
    if kind < 2:
        flags = rng.randrange(64)
        return TCP, wire.tcp_part(src, dst, a, b, b"data", flags)
    if kind == 2:
        return udp(b"data")
    if kind < 6:
        return udp(packet.vxlan(i, inner(), rng.choice((8, 8, 8, 8, 0, 0x88))), rng.choice((4789, 4789, b)))
    if kind == 6:
        return udp(packet.gtp_u(i, rng.choice((b"\0" * 4, inner()[14:]))), rng.choice((2152, b)))
    if kind == 7:
        return udp(packet.gtp_c(rng.choice((i, i, None)), b"\0" * 4), rng.choice((2123, b)))
    if kind == 8:
        return udp(rng.choice((packet.esp(i), packet.esp(0), b"\xff", b"\0\0\0\1")), rng.choice((4500, b)))
    if kind == 9:
        return ESP, packet.esp(i)
    if kind == 10:
        return AH, packet.ah(i, TCP, wire.tcp_part(src, dst, a, b, b""))
    if kind == 11:
        return L2TP, packet.l2tp(i)
    if kind == 12:
        k = (ICMP6, rng.choice((128, 129, 3, 1))) if six else (ICMP, rng.choice((8, 0, 3)))
        return k[0], wire.icmp_part(src, dst, k[1], rng.randrange(3), 1, b"data")
    if kind == 13:
        return GRE, b"\0\0\x08\0" + b"\0" * 20
    return rng.choice(((SCTP, b"\0\1\0\x50" + b"\0" * 8), (IPIP, inner()[14:])))


def ip(rng, depth=0):
    """A random packet, sound as a packet of IP."""
    version = rng.choice((4, 4, 6))
    src, dst = rng.choice(HOSTS[version]), rng.choice(HOSTS[version])

    def inner():
        if depth == 2:
            return b"\0" * 14
        tags = b"" if rng.random() < 0.9 else tag(10)
        return ethernet(OWN if rng.random() < 0.9 else STATION, STATION, ip(rng, depth + 1), tags=tags)
    proto, data = transport(rng, src, dst, inner)
    if data and rng.random() < 0.08:
        data = data[:rng.randrange(len(data))]
        if proto == AH and version == 6:
            proto, data = TCP, data
    k = {"ttl": rng.choice((64, 64, 64, 2, 1)), "tos": rng.choice((0, 0, 46 << 2, 10 << 2))}
    later = rng.random() < 0.06
    if version == 4:
        if later or rng.random() < 0.04:
            return wire.ip4(src, dst, proto, data + b"\0" * (-len(data) % 8), offset=24 if later else 0, more=rng.random() < 0.5 or not later,
                            ident=5, **k)
        return wire.ip4(src, dst, proto, data, options=b"\1" * 4 if rng.random() < 0.05 else b"", **k)
    if later or rng.random() < 0.04:
        data = fragment_header(proto, 24 if later else 0, rng.random() < 0.5 or not later, 5) + data + b"\0" * (-len(data) % 8)
        proto = FRAGMENT
    elif proto != AH and rng.random() < 0.1:
        proto, data = AH, packet.ah(rng.choice(IDS), proto, data)
    if rng.random() < 0.1:
        words = rng.randrange(2)
        proto, data = OPTIONS, options(proto, words) + data
    if rng.random() < 0.05:
        proto, data = 0, options(proto) + data
    return wire.ip6(src, dst, proto, data, **k)


MALFORMED = {"truncated-ethernet", "not-our-mac", "unknown-vlan", "unhandled-ethertype", "truncated-ipv4", "truncated-ipv6", "bad-version",
             "bad-ihl", "bad-total-length", "bad-payload-length", "bad-checksum", "jumbogram", "truncated-extension-header", "bad-options",
             "too-many-extension-headers", "misplaced-hop-by-hop", "source-route", "martian-source", "martian-destination", "bad-arp",
             "link-layer-broadcast", "multicast", "link-local"}


KNOWN = {wire.addr(h) for hosts in HOSTS.values() for h in hosts}


def sound(front, ethernet_):
    """Whether octets are a frame for the gateway, or a packet, that `ethernet-input` passes. None if not; False if that
    depends on addresses that no case has."""
    try:
        f = Fields(front) if ethernet_ else Advanced(front)
        p = f.frame[f.l3:]
        if f.version is None or ethernet_ and (f.to != OWN or f.tags) or p[0] >> 4 != f.version:
            return None
        if f.version == 4:
            n = (p[0] & 15) * 4
            if n < 20 or len(p) < n or not n <= f.length <= len(p) or wire.checksum(p[:n]):
                return None
        elif len(p) < 40 + f.length or f.head > 40 + f.length:
            return None
        return f if f.src in KNOWN and f.dst in KNOWN else False
    except (IndexError, struct.error):
        return None


class Advanced(Fields):
    """A packet without a frame: what `advance … then ip4` leaves."""

    def __init__(self, octets):
        super().__init__(b"\0" * 12 + (b"\x08\0" if octets[0] >> 4 == 4 else b"\x86\xdd") + octets)
        self.tags = []


class Expected:
    """What becomes of a frame: rules that match, the mark, and where it leaves."""

    def __init__(self, rules, entry, f):
        self.rules, self.mark, self.reason, self.out, self.advances = [], None, None, None, 0
        front = f.frame
        while True:
            r = next((r for r in rules if r.matches(f)), None)
            if r is None:
                break
            self.rules.append(r)
            if r.mark is not None:
                self.mark = r.mark
            if r.kind == "drop":
                self.reason = "steer-drop"
                return
            if r.kind != "advance" or f.fragment:  # fragments go on
                break
            self.advances += 1
            if self.advances > 4:
                self.reason = "nesting-limit"
                return
            front = front[r.way:]
            version = 4 if r.then == "ip4" else 6
            if not front or r.then != "ethernet" and front[0] >> 4 != version:
                self.reason = "steer-advance"
                return
            f = sound(front, r.then == "ethernet")
            if f is False:
                self.reason = "unsure"
                return
            if f is None:
                self.reason = "malformed"
                return
        self.packet = f
        kind = r.kind if r else None
        if kind == "interface":
            self.out = (r.way, None)
        elif kind == "hop":
            self.out = (r.way[0], mac(r.way[2]))
        else:
            self.out = ("up", mac("02:00:00:00:02:02" if f.version == 6 else "02:00:00:00:02:00"))

    def faults(self, line, left):
        said = [re.sub(r"\s+", " ", s["by"]["rule"]) for s in line.get("steer", [])]
        places = [int(s["by"]["place"].rsplit(":", 1)[1]) for s in line.get("steer", [])] if line.get("steer") and "place" in line["steer"][0]["by"] else None
        want = [r.line for r in self.rules]
        if self.reason == "unsure":
            if (places or [])[:len(want)] != want:
                yield f"rules of lines {places} {said} matched, {want} and others expected"
            self.rules = []
            return
        if places is not None and places != want or len(said) != len(want):
            yield f"rules of lines {places} {said} matched, {want} {[r.text for r in self.rules]} expected"
            return
        marks = [s.get("mark") for s in line.get("steer", []) if s.get("mark") is not None]
        if (marks[-1] if marks else None) != self.mark:
            yield f"mark {marks}, {self.mark} expected"
        if self.reason == "malformed":
            if line["reason"] not in MALFORMED:
                yield f"{line['verdict']} {line['reason']} of octets that are no packet"
            return
        if self.reason:
            if (line["verdict"], line["reason"]) != ("drop", self.reason):
                yield f"{line['verdict']} {line['reason']}, dropped for {self.reason} expected"
            return
        if self.packet.ttl <= 1:
            if line["reason"] != "ttl-expired":
                yield f"{line['verdict']} {line['reason']} of a packet whose TTL is over"
            return
        if line["verdict"] != "forward" or line["out"] != [self.out[0]]:
            yield f"{line['verdict']} {line['reason']} by {line['out']}, forwarded by {self.out[0]} expected"
            return
        frames = [(i, d) for i, d in left if i == self.out[0] and Fields(d).version]
        if len(frames) != 1:
            yield f"{len(frames)} frames left"
            return
        d = frames[0][1]
        g = Fields(d)
        if g.packet != wire.forwarded(self.packet.packet):
            yield f"the packet changed: {g.packet.hex()[:160]}"
        if self.out[1] and g.to != self.out[1]:
            yield f"the frame is for {packet.mac_text(g.to)}"
        if d[12:12 + len(TAGS.get(self.out[0], b""))] != TAGS.get(self.out[0], b""):
            yield "the frame has other tags"


class SteerCase:
    """A random list and random frames. Each frame has the rules, mark, way and octets that the text gives it; each rule
    counts the frames that it acted on."""

    def __init__(self, seed, live=False, workers=1, frames=260):
        self.name, self.live, self.workers = f"steer-{seed}", live, workers
        self.rng = random.Random(f"steer {seed}")
        rng = self.rng
        self.rules = [Rule(rng) for _ in range(rng.choice((1, 3, 10, 25, 60)))]
        ifaces = ("wan", "wan", "wan", "v10", "v20")
        self.steps = []
        for n in range(frames):
            entry = rng.choice(ifaces)
            self.steps.append((START + n * GAP, entry, ethernet(OWN, STATION, ip(rng), tags=TAGS[entry])))

    def config(self):
        head = TOPOLOGY + NEIGHBORS + "\n[steer.edge]\nrules = [\n"
        at = head.count("\n") + 1
        for n, r in enumerate(self.rules):
            r.line = at + n
        return head + "".join(f'  "{r.text}{r.condition_text()}",\n' for r in self.rules) + "]\n"

    def queued(self, text):
        """The configuration with rules that only mark or count, and now move packets to another worker, too."""
        lines = text.split("\n")
        for r in self.rules:
            if self.workers > 1 and r.kind is None:
                lines[r.line - 1] = lines[r.line - 1].replace('"', f'"redirect queue {self.rng.randrange(self.workers)} ', 1)
        return "\n".join(lines)

    def expected(self, entry, frame):
        return Expected(self.rules, entry, Fields(frame))

    def run(self, weir, folder):
        text = self.config()
        frames = [(t, "wan", d) for t, _, d in self.steps]
        seen, _ = replay(weir, folder, text, frames)
        faults, counts = [], {}
        for n, ((_, entry, d), (line, left)) in enumerate(zip(self.steps, seen), 1):
            e = self.expected(entry, d)
            faults += [f"frame {n} {Fields(d)}: {x}" for x in e.faults(line, left)]
            for place in (int(x["by"]["place"].rsplit(":", 1)[1]) for x in line.get("steer", [])):
                counts[place] = counts.get(place, 0) + 1
        if self.live and not faults:
            with Gateway(weir, folder, self.queued(text), frames, self.workers, names=("wan", "dpi", "up")) as g:
                g.received(len(frames))
                have = {}
                for r in g.show("steer", "edge")["steer"][0]["rules"]:
                    have[int(r["origin"].rsplit(":", 1)[1])] = r["packets"]
            bad = {k: (have.get(k), counts.get(k, 0)) for k in {*have, *counts} if have.get(k) != counts.get(k, 0)}
            if bad:
                faults.append(f"rules counted (line: packets, expected): {bad}")
        return faults


def random_case(seed):
    return SteerCase(seed)


def cases():
    for seed in range(1, 9):
        yield lambda seed=seed: SteerCase(seed, live=seed < 4, workers=3 if seed == 3 else 1)


if __name__ == "__main__":
    import sys
    for s in range(int(sys.argv[2]), int(sys.argv[3])):
        f = SteerCase(s, live=len(sys.argv) > 4).run(sys.argv[1], "/tmp/ora/steer")
        print(s, len(f), *f[:3], sep="\n   ")
