"""The SPD: order, actions, directions, selectors; what is local; several SPDs. Each also with the flow cache."""
import random

import wire
from case import LAN, WAN, Case, Check, Clear, Esp, Together, icmp_error
from cases_alg import L4, L6, W4, W6, data, echo_reply, transport, tunnel

SUFFIX = {
    None: "",
    "{ outbound = true, inbound = true }": "-cache",
    "{ outbound = true, inbound = true, flows = 1 }": "-tiny-cache",
}


SPD_REASON = {"discard": "spd-discard", "none": "spd-no-match"}


class Table:
    """A case of short lines: packet out or in, and its fate."""

    def __init__(self, name, rules, sas=(), cache=None, **k):
        self.case = Case(name + SUFFIX[cache], sas, rules, cache=cache, **k)
        self.sas = {s.name: s for s in sas}
        self.rng = random.Random(name)

    def packet(self, proto, src, dst, sport=1000, dport=53, **k):
        return wire.ports(proto, src, dst, sport, dport, data(self.rng, 24), **k)

    def out(self, fate, proto, src, dst, sport=1000, dport=53, times=1, note="", **k):
        for _ in range(times):
            p = self.packet(proto, src, dst, sport, dport, **k)
            n = f"{note} out {proto} {src}:{sport} > {dst}:{dport}"
            if fate == "bypass":
                self.case.bypass(LAN, p, WAN, note=n)
            elif fate == "discard":
                self.case.drop(LAN, p, "spd-discard", note=n, secret=True)
            elif fate == "none":
                self.case.drop(LAN, p, "spd-no-match", note=n, secret=True)
            else:
                self.case.protect(p, self.sas[fate], note=n)

    def into(self, fate, proto, src, dst, sport=1000, dport=53, times=1, note="", **k):
        for _ in range(times):
            p = self.packet(proto, src, dst, sport, dport, **k)
            n = f"{note} in {proto} {src}:{sport} > {dst}:{dport}"
            if fate == "bypass":
                self.case.bypass(WAN, p, LAN, note=n)
            else:
                self.case.drop(WAN, p, SPD_REASON.get(fate, "spd-unprotected"),
                               note=n)

    def pair(self, fate, proto, src, dst, sport=1000, dport=53, times=1, note="", **k):
        """A packet and its answer: one policy covers both, with swapped selectors."""
        self.out(fate, proto, src, dst, sport, dport, times, note, **k)
        if proto in (1, 58):
            self.into(fate, proto, dst, src, sport, dport, times, note, **k)
        else:
            self.into(fate, proto, dst, src, dport, sport, times, note, **k)


def orders(cache):
    """Priorities are signed, higher first; equal ones in the order of the list."""
    sa, _ = tunnel(1)
    t = Table("spd-priority", [
        "discard ip4 from 10.0.0.0/8 to 192.168.1.0/24 priority -1",
        "bypass ip4 from 10.0.0.0/8 to 192.168.1.0/25 priority 5",
        "discard ip4 from 10.0.0.0/8 to 192.168.1.0/26 priority 6",
        "protect ip4 from 10.0.0.0/8 to 192.168.1.0/27 sa t1 priority 2147483647",
        "discard ip4 from 10.0.0.0/8 to 192.168.1.0/27 priority 2147483647",
        "bypass ip4 from 10.0.0.0/8 to 192.168.2.0/24",
        "discard ip4 from 10.0.0.0/8 to 192.168.2.0/24 priority 0",
        "discard ip4 from 10.0.0.0/8 to 192.168.3.0/24 priority -2147483648",
        "bypass ip4 from 10.0.0.0/8 to 192.168.3.0/25 priority -2147483647",
        "discard ip4 from 10.0.0.0/8 to 192.168.4.0/24",
        "bypass ip4 from 10.0.0.0/8 to 192.168.4.0/24 priority 1",
        "bypass ip4 from 10.0.0.0/8 to 192.168.0.0/16 priority -2 comment \"the rest\"",
        "discard ip4 from 10.0.0.0/8 to 192.168.5.0/24 priority -3",
    ], [sa], cache)
    for _ in range(3):
        for fate, dst in (("t1", "192.168.1.1"), ("t1", "192.168.1.31"), ("discard", "192.168.1.32"),
                          ("discard", "192.168.1.63"),
                          ("bypass", "192.168.1.64"), ("bypass", "192.168.1.127"), ("discard", "192.168.1.128"),
                          ("discard", "192.168.1.254"),
                          ("bypass", "192.168.2.1"), ("bypass", "192.168.3.127"), ("bypass", "192.168.3.128"),
                          ("bypass", "192.168.4.1"),
                          ("bypass", "192.168.5.1"), ("none", "192.169.0.1"), ("none", "8.8.8.8")):
            t.pair(fate, 17, "10.1.2.3", dst, times=2)
        t.case.tick()
    return t.case


def ranges(cache):
    """Ranges of addresses and ports and both; edges; the local side is `from`."""
    a, _ = tunnel(1)
    b, _ = tunnel(2)
    t = Table("spd-ranges", [
        "protect tcp from 10.0.0.9-10.0.0.99 port 1024-2048 to 192.168.1.5-192.168.1.7 port 443 sa t1",
        "bypass udp from 10.0.0.0/24 to 192.168.1.0/24 port 53",
        "bypass udp from 10.0.0.0/24 port 68 to 192.168.1.0/24 port 67",
        "discard udp from 10.0.0.7 to 192.168.1.7 port 1-65535",
        "protect udp from any port 5000-5999 to any port 6000-6999 sa t2",
        "bypass sctp from any port 9 to any port 9",
        "bypass ip4 tcp from 10.9.0.0-10.9.255.255 to any",
        "protect tcp from 2001:db8:a::9-2001:db8:a::ff to 2001:db8:b::/48 port 80-81 sa t2",
    ], [a, b], cache)
    tcp, udp = 6, 17
    for fate, proto, src, dst, s, d in (
            ("t1", tcp, "10.0.0.9", "192.168.1.5", 1024, 443), ("t1", tcp, "10.0.0.99", "192.168.1.7", 2048, 443),
            ("none", tcp, "10.0.0.8", "192.168.1.5", 1024, 443), ("none", tcp, "10.0.0.100", "192.168.1.5", 1024, 443),
            ("none", tcp, "10.0.0.9", "192.168.1.4", 1024, 443), ("none", tcp, "10.0.0.9", "192.168.1.8", 1024, 443),
            ("none", tcp, "10.0.0.9", "192.168.1.5", 1023, 443), ("none", tcp, "10.0.0.9", "192.168.1.5", 2049, 443),
            ("none", tcp, "10.0.0.9", "192.168.1.5", 1024, 442), ("none", tcp, "10.0.0.9", "192.168.1.5", 1024, 444),
            ("none", tcp, "10.0.0.9", "192.168.1.5", 443, 1024), ("none", udp, "10.0.0.9", "192.168.1.5", 1024, 443),
            ("bypass", udp, "10.0.0.9", "192.168.1.5", 1024, 53), ("none", udp, "10.0.0.9", "192.168.1.5", 53, 1024),
            ("bypass", udp, "10.0.0.9", "192.168.1.5", 68, 67), ("none", udp, "10.0.0.9", "192.168.1.5", 67, 68),
            ("discard", udp, "10.0.0.7", "192.168.1.7", 5500, 6500), ("none", udp, "10.0.0.7", "192.168.1.7", 5500, 0),
            ("t2", udp, "10.0.0.8", "192.168.1.7", 5500, 6500),
            ("t2", udp, "2001:db8:a::1", "2001:db8:b::1", 5000, 6999),
            ("none", udp, "10.0.0.8", "192.168.1.7", 6500, 5500), ("bypass", 132, "10.0.0.9", "8.8.8.8", 9, 9),
            ("none", 132, "10.0.0.9", "8.8.8.8", 9, 10),
            ("bypass", tcp, "10.9.0.0", "8.8.8.8", 0, 0), ("bypass", tcp, "10.9.255.255", "8.8.8.8", 65535, 65535),
            ("none", tcp, "10.10.0.0", "8.8.8.8", 5, 5),
            ("t2", tcp, "2001:db8:a::9", "2001:db8:b::1", 5, 80),
            ("t2", tcp, "2001:db8:a::ff", "2001:db8:b:ffff::1", 5, 81),
            ("none", tcp, "2001:db8:a::8", "2001:db8:b::1", 5, 80),
            ("none", tcp, "2001:db8:a::9", "2001:db8:b::1", 5, 82),
            ("none", tcp, "2001:db8:a::9", "2001:db8:c::1", 5, 80)):
        t.pair(fate, proto, src, dst, s, d, times=2)
    return t.case


def protocols(cache):
    """Protocols, families, ICMP types and codes (the same in both directions)."""
    a, _ = tunnel(1)
    t = Table("spd-protocols", [
        "bypass icmp from any to any type echo-request",
        "protect icmp from any to any type echo-reply sa t1",
        "discard icmp from any to any type destination-unreachable code 4",
        "bypass icmp from any to any type destination-unreachable code 0-3",
        "bypass icmp6 from any to any type 128-129",
        "protect 99 from 10.0.0.0/8 to any sa t1",
        "bypass gre from any to 192.168.0.0/16",
        "discard ip6 from any to 2001:db8:b:5::/64",
        "bypass ip6 udp from any to any",
        "protect ip4 udp from any to 192.168.7.0/24 sa t1",
        "bypass ip4 41 from any to any",
    ], [a], cache)
    r4, r6 = "192.168.1.9", "2001:db8:b:1::9"
    for fate, proto, src, dst, kind in (
            ("bypass", 1, L4, r4, 8 << 8), ("bypass", 1, L4, r4, 8 << 8 | 7), ("t1", 1, L4, r4, 0),
            ("discard", 1, L4, r4, 3 << 8 | 4),
            ("bypass", 1, L4, r4, 3 << 8 | 0), ("bypass", 1, L4, r4, 3 << 8 | 3), ("none", 1, L4, r4, 3 << 8 | 5),
            ("none", 1, L4, r4, 11 << 8),
            ("bypass", 58, L6, r6, 128 << 8), ("bypass", 58, L6, r6, 129 << 8), ("none", 58, L6, r6, 127 << 8),
            ("none", 58, L6, r6, 130 << 8),
            ("t1", 99, L4, r4, 0), ("none", 98, L4, r4, 0), ("none", 99, L6, r6, 0), ("bypass", 47, L4, r4, 0),
            ("none", 47, L4, "8.8.8.8", 0),
            ("discard", 17, L6, "2001:db8:b:5::1", 5), ("bypass", 17, L6, "2001:db8:b:6::1", 5),
            ("t1", 17, L4, "192.168.7.7", 5),
            ("none", 17, L4, "192.168.8.7", 5), ("bypass", 41, L4, r4, 0), ("none", 6, L6, r6, 5)):
        t.pair(fate, proto, src, dst, kind, times=2)
    return t.case


def opaque(cache):
    """Later fragments and protocols without ports match `opaque` and rules without ports (RFC 4301, 4.4.1.1)."""
    a, _ = tunnel(1)
    b, _ = tunnel(2)
    t = Table("spd-opaque", [
        "protect udp from any port opaque to 192.168.1.0/24 port opaque sa t1",
        "protect udp from any port 1000 to 192.168.1.0/24 port 53 sa t2",
        "bypass udp from any to 192.168.2.0/24",
        "protect ip4 from any to 192.168.3.0/24 sa t1",
        "protect udp from any port 0-65535 to 192.168.4.0/24 port 0-65535 sa t2",
    ], [a, b], cache)
    rng = t.rng

    def piece(dst, src=L4):
        return wire.ip4(src, dst, 17, data(rng, 64), offset=1480, ident=9)
    t.case.protect(piece("192.168.1.9"), a, note="later fragment, opaque")
    t.out("t2", 17, L4, "192.168.1.9")
    t.case.protect(piece("192.168.3.9"), a, note="later fragment, any")
    t.case.protect(piece("192.168.4.9"), b, note="later fragment, whole range")
    t.out("none", 17, L4, "192.168.1.9", 1000, 54)
    t.case.bypass(LAN, piece("192.168.2.9"), WAN, note="later fragment, bypass without ports")
    t.case.bypass(WAN, piece(L4, "192.168.2.9"), LAN, note="later fragment in, bypass")
    t.case.drop(WAN, piece(L4, "192.168.3.9"), "spd-unprotected", note="later fragment in, protect")
    t.case.drop(WAN, piece(L4, "192.168.1.9"), "spd-unprotected", note="later fragment in, opaque")
    p = piece(L4, "192.168.1.9")
    t.case.decrypt(a.from_peer(p), p, note="later fragment in the tunnel, opaque")
    return t.case


def fragments_with_ports(cache):
    """Rules with ports, and no opaque one: no fragment of a packet that is protected leaves in clear."""
    a, _ = tunnel(1)
    t = Table("spd-fragments", [
        "protect udp from any to 192.168.1.0/24 port 53 sa t1",
        "bypass udp from any to 192.168.2.0/24 port 53",
    ], [a], cache)
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        for dst in ("192.168.1.9", "192.168.2.9", "192.168.3.9"):
            whole = wire.udp(L4, dst, 1000, 53, data(t.rng, 1200), ident=t.rng.randrange(65536))
            parts = wire.fragments(whole, 504)

            def check(c, frames, dst=dst):
                for interface, packet in frames:
                    if dst == "192.168.2.9":
                        continue
                    try:
                        o, x, inner = a.from_gateway(packet)
                    except Exception as e:
                        return f"left in clear: {packet[:32].hex()} ({e})"
                    if dst == "192.168.3.9":
                        return "protected without a rule"
                    c.sealed(a, x, inner, packet)
                return None
            for i in order:
                t.case.send(LAN, parts[i], {"forward", "drop", "held"}, Together(check),
                            note=f"fragment {i} of {order} to {dst}",
                            secret=parts[i][-12:] if dst != "192.168.2.9" else None)
            t.case.tick()
    t.case.ordered = False
    return t.case


def neighbor_advertisement(packet):
    p = wire.Ip(packet)
    return None if p.proto == 58 and p.payload[0] == 136 else f"no neighbour advertisement: {packet[:48].hex()}"


def defaults(cache):
    """A packet that no rule matches is dropped in both directions. Neighbour discovery matches nothing, and passes."""
    t = Table("spd-default-drop", ["bypass ip from 192.0.2.1 to 192.0.2.2"], (), cache)
    for proto in (6, 17, 1, 47, 50, 132):
        t.pair("none", proto, L4, "192.168.1.9", 2048 if proto == 1 else 5)
    for proto in (6, 17, 58):
        t.pair("none", proto, L6, "2001:db8:b:1::9", 128 << 8 if proto == 58 else 5)
    t.case.drop(WAN, wire.echo("198.51.100.9", W4, 1, 1, b"x" * 20), "spd-no-match", note="ping of the gateway")
    t.case.drop(WAN, wire.echo("2001:db8:1::9", W6, 1, 1, b"x" * 20), "spd-no-match", note="ping of the gateway")
    ns = wire.icmp_part("2001:db8:1::9", W6, 135, 0, 0, wire.addr(W6) + b"\x01\x01\x02\0\0\0\0\x99")
    t.case.send(WAN, wire.ip6("2001:db8:1::9", W6, 58, ns, ttl=255), {"local", "forward"},
                [Check(WAN, neighbor_advertisement, "an advertisement")],
                note="neighbour solicitation")
    # The other interface has no SPD.
    t.case.send(LAN, wire.echo(L4, "10.0.0.1", 1, 1, b"x" * 20), "local",
                Together(lambda c, f: None if len(f) == 1 and f[0][0] == LAN else f"{len(f)} packets left"),
                note="ping of lan's address")
    t.case.send(LAN, wire.echo(L4, W4, 1, 1, b"x" * 20), "local",
                Together(lambda c, f: None if len(f) == 1 and f[0][0] == LAN else f"{len(f)} packets left"),
                note="ping of wan's address by lan")
    return t.case


def unprotected(cache):
    """Clear packets that PROTECT covers are dropped, also those for the gateway itself."""
    a, rules = tunnel(1)
    x, more = transport(101)
    t = Table("spd-unprotected", rules + more + ["bypass ip from any to any priority -1"], [a, x], cache)
    t.into("t1", 17, "192.168.1.9", L4)
    t.into("t1", 6, "192.168.1.9", L4)
    t.into("t1", 17, "2001:db8:b:1::9", L6)
    t.into("bypass", 17, "192.168.2.9", L4)
    t.case.drop(WAN, wire.echo(x.remote, W4, 1, 1, b"x" * 30), "spd-unprotected",
                note="clear ping of the peer of a transport SA")
    t.case.send(WAN, wire.echo("203.0.113.200", W4, 1, 1, b"x" * 30), "local", [reply_check("203.0.113.200")],
                note="clear ping of another")
    t.out("t1", 17, L4, "192.168.1.9")
    t.out("bypass", 17, L4, "192.168.2.9")
    return t.case


def reply_check(to, interface=WAN):
    def check(packet):
        p = wire.Ip(packet)
        if p.dst != to or p.proto not in (1, 58) or p.payload[0] not in (0, 129):
            return f"no echo reply to {to}: {packet[:40].hex()}"
        return None
    return Check(interface, check, "an echo reply")


def own_packets(cache):
    """The gateway's echo replies and errors are matched on their way out."""
    a, _ = tunnel(1)
    rules = [
        "bypass icmp from any to 203.0.113.0/25",
        "bypass icmp from any to 203.0.113.128/25 type echo-request",
        "protect ip4 from any to 192.168.1.0/24 sa t1",
        "bypass udp from 10.0.0.0/8 to 203.0.113.0/24",
        f"discard icmp from {W4} to 203.0.112.0/24 type echo-reply",
        "bypass icmp from any to 203.0.112.0/24",
    ]
    t = Table("spd-own-packets", rules, [a], cache)
    c = t.case
    c.send(WAN, wire.echo("203.0.113.9", W4, 1, 1, b"x" * 30), "local", [reply_check("203.0.113.9")],
           note="reply bypassed")
    c.send(WAN, wire.echo("203.0.113.129", W4, 1, 1, b"x" * 30), "local", note="reply matches no rule")
    c.send(WAN, wire.echo("203.0.112.9", W4, 1, 1, b"x" * 30), "local", note="reply discarded")
    c.send(WAN, a.from_peer(wire.echo("192.168.1.9", W4, 1, 1, b"x" * 30)), "local",
           [Esp(a, echo_reply(wire.echo("192.168.1.9", W4, 1, 1, b"x" * 30)))], note="reply protected")
    # Time exceeded: about a bypassed UDP packet from the outside.
    c.drop(WAN, wire.udp("203.0.113.9", L4, 1, 2, b"x" * 30, ttl=1), "ttl-expired",
           [icmp_error(WAN, 11, 0, dst="203.0.113.9")], note="error bypassed")
    c.drop(WAN, wire.udp("203.0.113.129", L4, 1, 2, b"x" * 30, ttl=1), "ttl-expired", note="error matches no rule")
    c.drop(LAN, wire.udp(L4, "203.0.113.9", 1, 2, b"x" * 30, ttl=1), "ttl-expired", [icmp_error(LAN, 11, 0, dst=L4)],
           note="error by lan is not matched")
    return c


SECOND = '''
[[interface]]
name = "wan2"
port = "null"
mac = "02:00:00:00:00:03"
address = ["198.18.0.1/24", "2001:db8:2::1/64"]
spd = "other"

[[interface]]
name = "wan3"
port = "null"
mac = "02:00:00:00:00:04"
address = ["198.19.0.1/24"]
spd = "edge"

[[route]]
prefix = "192.169.0.0/16"
via = {{ address = "198.18.0.254" }}

[[route]]
prefix = "192.170.0.0/16"
via = {{ address = "198.19.0.254" }}

[spd.other]
rules = [
  "bypass udp from any to any port 53",
  "protect udp from any to any port 54 sa t2",
  "discard udp from any to any port 55",
]
{cache}
'''


def several(cache):
    """Interfaces with different SPDs, and two that share one: equal packets have different fates."""
    a, _ = tunnel(1)
    b, _ = tunnel(2)
    rules = ["discard udp from any to any port 53", "bypass udp from any to any port 54",
             "protect udp from any to any port 55 sa t1"]
    t = Table("spd-several", rules, [a, b], cache, more=SECOND.format(cache=f"cache = {cache}" if cache else ""),
              macs={"wan2": 3, "wan3": 4})
    c = t.case

    def out(fate, dst, dport, by):
        p = t.packet(17, L4, dst, 1000, dport)
        note = f"{dst}:{dport} by {by}"
        if fate == "bypass":
            c.send(LAN, p, "forward", [Clear(by, wire.forwarded(p))], note=note)
        elif fate in ("t1", "t2"):
            c.protect(p, t.sas[fate], note=note)  # the outer packet goes by wan, where the route to the peer leads
        else:
            c.drop(LAN, p, f"spd-{fate}", note=note, secret=True)

    def into(fate, src, sport, by):
        p = t.packet(17, src, L4, sport, 1000)
        note = f"{src}:{sport} in by {by}"
        if fate == "bypass":
            c.send(by, p, "forward", [Clear(LAN, wire.forwarded(p))], note=note)
        else:
            c.drop(by, p, f"spd-{fate}", note=note)
    for _ in range(3):
        for dst, by, fates in (("192.168.9.9", WAN, ("discard", "bypass", "t1", "no-match")),
                               ("192.169.9.9", "wan2", ("bypass", "t2", "discard", "no-match")),
                               ("192.170.9.9", "wan3", ("discard", "bypass", "t1", "no-match"))):
            for port, fate in zip((53, 54, 55, 56), fates):
                out(fate, dst, port, by)
                into("unprotected" if fate in ("t1", "t2") else fate, dst, port, by)
                # The same packet by each interface: the SPDs have caches of their own.
                into({"t1": "unprotected",
                      "t2": "unprotected"}.get(x := dict(zip((53, 54, 55, 56),
                                                             ("bypass", "t2", "discard", "no-match")))[port], x), dst,
                     port, "wan2")
    return c


def two_ends(cache):
    """An SPD on lan as well: packets pass the inbound side of one and the outbound side of the other."""
    sa, rules = tunnel(1)
    c = Case("spd-both-sides" + SUFFIX[cache], [sa],
             rules + ["bypass udp from any to 192.168.9.0/24"],
             lan_rules=["bypass udp from any to 10.0.0.0/24 port 1000",
                        "discard udp from any to 10.0.0.0/24 port 1001"], cache=cache)
    rng = random.Random(3)

    def p(src, dst, s, d):
        return wire.udp(src, dst, s, d, data(rng, 30))
    # On lan, `from` is the gateway's side: 10.0.0.0/24 is remote there.
    c.protect(p(L4, "192.168.1.9", 1000, 5), sa)
    c.drop(LAN, p(L4, "192.168.1.9", 1001, 5), "spd-discard", note="discarded at lan", secret=True)
    c.drop(LAN, p(L4, "192.168.1.9", 1002, 5), "spd-no-match", note="no rule at lan", secret=True)
    inner = p("192.168.1.9", L4, 5, 1000)
    c.decrypt(sa.from_peer(inner), inner)
    c.drop(WAN, sa.from_peer(p("192.168.1.9", L4, 5, 1001)), "spd-discard", note="decrypted, then discarded at lan")
    c.bypass(WAN, p("192.168.9.9", L4, 5, 1000), LAN)
    c.drop(WAN, p("192.168.9.9", L4, 5, 1002), "spd-no-match", note="bypassed at wan, no rule at lan")
    return c


def flows(cache):
    """Many flows, hits and misses mixed: more than a small cache holds."""
    a, _ = tunnel(1)
    b, _ = tunnel(2, algorithm="chacha20poly1305")
    t = Table("spd-flows", [
        "discard udp from any to 192.168.0.0/16 port 7000-7099",
        "protect udp from any port 0-1999 to 192.168.0.0/16 sa t1",
        "protect udp from any port 2000-2999 to 192.168.0.0/16 sa t2",
        "bypass ip from any to any priority -5",
    ], [a, b], cache)
    t.case.step = 50
    todo = [(src, sport, dst, dport) for src in ("10.0.0.5", "10.0.0.6") for sport in (1999, 2000, 3000)
            for dst in ("192.168.1.1", "192.168.200.1")
            for dport in (6999, 7000, 7099, 7100)] * 12
    t.rng.shuffle(todo)
    for src, sport, dst, dport in todo:
        fate = "discard" if 7000 <= dport < 7100 else "t1" if sport < 2000 else "t2" if sport < 3000 else "bypass"
        t.pair(fate, 17, src, dst, sport, dport)
    for i in range(300):
        t.out("t1", 17, "10.0.0.7", f"192.168.{i % 200}.{i // 2}", 5, 5)
    return t.case


def transport_only(cache):
    """Transport mode is for packets between the SA's own addresses; others are dropped, and leave nothing in clear."""
    x, _ = transport(101)
    t = Table("spd-transport-others", ["protect ip4 from any to any sa x101"], [x], cache)
    t.out("x101", 17, W4, x.remote)
    for src, dst in ((L4, x.remote), (W4, "203.0.113.9"), (L4, "203.0.113.9")):
        t.case.drop(LAN, t.packet(17, src, dst), "esp-transport", note=f"{src} > {dst}", secret=True)
    t.out("x101", 6, W4, x.remote)
    return t.case


def super_rules(cache):
    """Groups as in access lists, comments, a rule for one host in a bypassed net."""
    a, _ = tunnel(1)
    t = Table("spd-groups", [
        "protect tcp from @inside to @outside port @services sa t1",
        "bypass ip from @inside to @outside priority -1 comment \"what is left, \\\"clear\\\"\"",
    ], [a], cache, more='''
[group.inside]
addresses = ["10.0.0.0/24", "2001:db8:a::/64"]

[group.outside]
addresses = ["192.168.1.0-192.168.2.255", "2001:db8:b::/48"]

[group.services]
ports = [22, "80-81", 443]
''')
    for port, fate in ((22, "t1"), (23, "bypass"), (80, "t1"), (81, "t1"), (82, "bypass"), (443, "t1"),
                       (444, "bypass")):
        for src, dst in ((L4, "192.168.2.255"), (L6, "2001:db8:b:7::7")):
            t.pair(fate, 6, src, dst, 3000, port)
        t.pair("none", 6, L4, "192.168.3.0", 3000, port)
    return t.case


def fast_path(cache):
    """Flows that the fast path knows stay under the SPD: packet after packet has the same fate, in both directions."""
    a, _ = tunnel(1)
    b, _ = tunnel(2, six=True)
    t = Table("spd-fast-path", [
        "protect ip from any to 192.168.1.0/24 sa t1", "protect ip6 from any to 2001:db8:b::/48 sa t2",
        "bypass ip4 from any to 192.168.2.0/24",
        "discard ip4 from any to 192.168.3.0/24"], [a, b], cache, more="""
[flow-table]
enabled = true
""")
    for turn in range(8):
        for fate, near, far in (("t1", L4, "192.168.1.9"), ("bypass", L4, "192.168.2.9"),
                                ("discard", L4, "192.168.3.9"), ("none", L4, "192.168.4.9"),
                                ("t2", L6, "2001:db8:b::9")):
            for proto in (6, 17):
                t.pair(fate, proto, near, far, 3000, 80)
            if fate in ("t1", "t2"):
                inner = t.packet(17, far, near, 80, 3000)
                t.case.decrypt(t.sas[fate].from_peer(inner), inner, note=f"turn {turn}")
                inner = t.packet(6, far, near, 80, 3000)
                t.case.decrypt(t.sas[fate].from_peer(inner), inner, note=f"turn {turn}")
                wrong = t.packet(17, "192.168.2.9", L4, 80, 3000)
                t.case.drop(WAN, t.sas[fate].from_peer(wrong), "esp-selector", note="a bypassed flow inside a tunnel")
        t.case.tick(0.05)
    return t.case


OVERLAP = SECOND.replace("""  "bypass udp from any to any port 53",
  "protect udp from any to any port 54 sa t2",
  "discard udp from any to any port 55",
""", """  "bypass ip from any to 192.168.1.0/24",
  "protect ip from any to 192.168.2.0/24 sa t2",
  "protect ip from any to 192.168.32.0/24 sa t3",
  "protect ip from any to 192.169.0.0/16 sa t2 priority -1",
""")


def overlapping(cache):
    """SPDs with overlapping addresses: for a decrypted packet count the rules of the SPDs that name its SA, whatever
    interface the packet of ESP came in by. Clear packets match the SPD of their interface."""
    sas = [tunnel(i)[0] for i in (1, 2, 3)]
    a, b, c3 = sas
    rules = ["protect ip from any to 192.168.1.0/24 sa t1", "discard ip from any to 192.168.2.0/24 priority 9",
             "protect ip from any to 192.168.31.0/24 sa t3", "bypass udp from any to 192.169.0.0/16"]
    t = Table("spd-overlapping", rules, sas, cache, more=OVERLAP.format(cache=f"cache = {cache}" if cache else ""),
              macs={"wan2": 3, "wan3": 4})
    for by in (WAN, "wan2", "wan3") * 2:
        for sa, src, passes in ((a, "192.168.1.9", True), (b, "192.168.2.9", True), (c3, "192.168.31.9", True),
                                (c3, "192.168.32.9", True), (c3, "192.168.33.9", False), (a, "192.168.2.9", False),
                                (b, "192.168.1.9", False), (c3, "192.168.1.9", False), (a, "192.169.1.9", False),
                                (b, "192.169.1.9", True)):
            p = t.packet(17, src, L4)
            note = f"{sa.name} from {src} by {by}"
            if passes:
                t.case.send(by, sa.from_peer(p), "forward", [Clear(LAN, wire.forwarded(p))], note=note)
            else:
                t.case.drop(by, sa.from_peer(p), "esp-selector", note=note)
        for src, edge, other in (("192.168.1.9", "spd-unprotected", None),
                                 ("192.168.2.9", "spd-discard", "spd-unprotected"),
                                 ("192.168.31.9", "spd-unprotected", "spd-no-match"),
                                 ("192.168.32.9", "spd-no-match", "spd-unprotected"),
                                 ("192.169.1.9", None, "spd-unprotected")):
            p, reason = t.packet(17, src, L4), other if by == "wan2" else edge
            t.case.send(by, p, "drop" if reason else "forward", [] if reason else [Clear(LAN, wire.forwarded(p))],
                        reason,
                        note=f"clear from {src} by {by}")
    for _ in range(2):
        t.out("t1", 17, L4, "192.168.1.9")
        t.out("t3", 17, L4, "192.168.31.9")
        t.out("discard", 17, L4, "192.168.2.9")
        t.out("none", 17, L4, "192.168.32.9")
        t.out("t2", 17, L4, "192.169.1.9")  # by wan2
    return t.case


def group_selectors(cache):
    """Groups of addresses and ports, with ranges and groups in them, as selectors of decrypted packets."""
    a, _ = tunnel(1)
    b, _ = tunnel(2, six=True)
    t = Table("spd-group-selectors", [
        "discard udp from @inside to 192.168.1.77 priority 1",
        "protect udp from @inside to @branch port @voice sa t1",
        "protect ip from @inside to @branch sa t2",
    ], [a, b], cache, more='''
[group.inside]
addresses = ["10.0.0.0/25", "10.0.0.200-10.0.0.210", "@inside6"]

[group.inside6]
addresses = ["2001:db8:a::1:0-2001:db8:a::1:ff"]

[group.branch]
addresses = ["192.168.1.0/24", "192.168.3.5-192.168.3.6", "2001:db8:b:1::/64"]

[group.voice]
ports = [5060, "10000-10009", "@more"]

[group.more]
ports = ["20000-20001"]
''')
    six, far6 = "2001:db8:a::1:8", "2001:db8:b:1::9"
    for fate, near, far, port in (
            ("t1", L4, "192.168.1.9", 5060), ("t2", L4, "192.168.1.9", 5061), ("t1", L4, "192.168.1.9", 10009),
            ("t2", L4, "192.168.1.9", 10010), ("t1", L4, "192.168.3.6", 20001), ("t2", L4, "192.168.3.5", 20002),
            ("none", L4, "192.168.3.7", 5060), ("t1", "10.0.0.127", "192.168.1.9", 5060),
            ("none", "10.0.0.128", "192.168.1.9", 5060), ("none", "10.0.0.199", "192.168.1.9", 5060),
            ("t1", "10.0.0.200", "192.168.1.9", 5060), ("t2", "10.0.0.210", "192.168.1.9", 1),
            ("none", "10.0.0.211", "192.168.1.9", 1), ("discard", L4, "192.168.1.77", 5060),
            ("t1", six, far6, 20000), ("t2", six, far6, 19999), ("none", "2001:db8:a::1:100", far6, 20000),
            ("none", six, "2001:db8:b:2::9", 20000)):
        t.pair(fate, 17, near, far, 1000, port, times=2)
        for sa in (a, b):
            p = t.packet(17, far, near, port, 1000)
            note = f"decrypted by {sa.name}, from {far} port {port} to {near}"
            if fate == sa.name:
                t.case.decrypt(sa.from_peer(p), p, note=note)
            else:
                t.case.drop(WAN, sa.from_peer(p), "esp-selector", note=note)
    return t.case


def everything(cache):
    """A rule that protects all packets does not apply to ESP of the gateway, nor to neighbour discovery."""
    a, _ = tunnel(1)
    t = Table("spd-everything", ["protect ip from any to any sa t1"], [a], cache)
    for _ in range(3):
        t.out("t1", 17, L4, "192.168.1.9")
        t.out("t1", 50, L4, "203.0.113.9")  # ESP of a host behind the gateway
        t.out("t1", 17, L4, a.remote, 4500, 4500)
        t.out("t1", 17, L6, "2001:db8:b:1::9")
        for src, own in (("192.168.1.9", W4), ("192.168.1.9", "10.0.0.1"), (a.remote, W4)):
            q = wire.echo(src, own, 1, 1, b"x" * 30)
            t.case.send(WAN, a.from_peer(q), "local", [Esp(a, echo_reply(q))], note=f"ping of {own} in the tunnel")
            t.case.drop(WAN, q, "spd-unprotected", note=f"ping of {own} in clear")
        inner = t.packet(17, "192.168.1.9", L4)
        t.case.decrypt(a.from_peer(inner), inner)
    ns = wire.icmp_part("2001:db8:1::9", W6, 135, 0, 0, wire.addr(W6) + b"\x01\x01\x02\0\0\0\0\x99")
    t.case.send(WAN, wire.ip6("2001:db8:1::9", W6, 58, ns, ttl=255), {"local", "forward"},
                [Check(WAN, neighbor_advertisement, "an advertisement")], note="neighbour solicitation")
    t.case.ordered = False  # replies and forwarded packets of a vector may change places
    return t.case


ALL = (orders, ranges, protocols, opaque, fragments_with_ports, defaults, unprotected, own_packets, several, two_ends,
       flows, transport_only, super_rules, fast_path,
       overlapping, group_selectors, everything)


def cases():
    for make in ALL:
        for cache in SUFFIX:
            yield lambda m=make, c=cache: m(c)
