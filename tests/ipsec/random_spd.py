"""Random SPDs against a linear search as in RFC 4301, 5: the first policy that matches, in order of priority."""
import ipaddress
import random

import wire
from case import LAN, WAN, Case
from cases_alg import data
from sa import Sa

ACTIONS = ("protect", "bypass", "discard")
NAMES = {6: "tcp", 17: "udp", 132: "sctp", 1: "icmp", 58: "icmp6"}
WITH_PORTS = (6, 17, 132)


class Policy:
    """One rule. Addresses are ranges of numbers of one family (or None: any); ports and types are ranges or None."""

    def __init__(self, rng, sas, space):
        self.action = rng.choices(ACTIONS, (5, 3, 3) if sas else (0, 1, 1))[0]
        self.sa = rng.choice(sas) if self.action == "protect" else None
        self.priority = rng.choice((0, 0, 0, rng.randrange(-3, 4), rng.randrange(-2**31, 2**31)))
        self.family = rng.choice((4, 4, 6, 0))
        # Only a rule on ports or types needs a protocol; `ip` has none.
        self.proto = rng.choice((None, 6, 17, 17, 132, 1, 58, 47, 99))
        if self.proto == 1:
            self.family = 4
        if self.proto == 58:
            self.family = 6
        version = self.family or rng.choice((0, 4, 6))  # both ends have one family
        self.local = space.end(rng, version, "local")
        self.remote = space.end(rng, version, "remote")
        self.local_ports = self.remote_ports = self.type = self.code = None
        if self.proto in WITH_PORTS:
            self.local_ports = span(rng) if rng.random() < 0.3 else None
            self.remote_ports = span(rng) if rng.random() < 0.5 else None
        if self.proto in (1, 58) and rng.random() < 0.6:
            self.type = rng.choice(((8, 8), (0, 8), (128, 129), (1, 4), (3, 3), (11, 12)))
            if rng.random() < 0.3:
                self.code = rng.choice(((0, 0), (0, 3), (1, 1), (4, 255)))

    def text(self):
        what = {0: "ip", 4: "ip4", 6: "ip6"}[self.family] if self.proto is None else (
            {0: "", 4: "ip4 ", 6: "ip6 "}[self.family] if self.proto not in (1, 58)
            else "") + NAMES.get(self.proto, str(self.proto))
        out = [self.action, what, "from", self.local.text, *port_text(self.local_ports), "to", self.remote.text,
               *port_text(self.remote_ports)]
        if self.type:
            out += ["type", span_text(self.type)]
        if self.code:
            out += ["code", span_text(self.code)]
        if self.sa:
            out += ["sa", self.sa.name]
        if self.priority:
            out += ["priority", str(self.priority)]
        return " ".join(out)

    def matches(self, packet, outbound):
        p, mine, far = packet, packet.src, packet.dst
        mine_port, far_port = packet.sport, packet.dport
        if not outbound:
            mine, far, mine_port, far_port = far, mine, far_port, mine_port
        if self.family and self.family != p.version or self.proto is not None and self.proto != p.proto:
            return False
        if not (self.local.has(p.version, mine) and self.remote.has(p.version, far)):
            return False
        for ports, port in ((self.local_ports, mine_port), (self.remote_ports, far_port)):
            if ports and not ports[0] <= port <= ports[1]:
                return False
        for want, got in ((self.type, p.type), (self.code, p.code)):
            if want and not want[0] <= got <= want[1]:
                return False
        return True


def span(rng):
    edges = sorted(rng.choice((1, 52, 53, 54, 80, 1023, 1024, 4000, 5000, 65534, 65535)) for _ in range(2))
    if rng.random() < 0.4:
        edges[1] = edges[0]
    return tuple(edges)


def span_text(s):
    return str(s[0]) if s[0] == s[1] else f"{s[0]}-{s[1]}"


def port_text(s):
    return ("port", span_text(s)) if s else ()


class End:
    def __init__(self, text, version, first, last):
        self.text, self.version, self.first, self.last = text, version, first, last

    def has(self, version, number):
        return self.version == 0 or version == self.version and self.first <= number <= self.last


class Space:
    """A small world of addresses, so that rules overlap and packets hit their edges."""

    LOCAL = {4: "10.0.0.0/8", 6: "2001:db8:a::/48"}
    REMOTE = {4: "192.168.0.0/16", 6: "2001:db8:b::/48"}

    def __init__(self, rng):
        self.points = {}
        for side, nets in (("local", self.LOCAL), ("remote", self.REMOTE)):
            for version in (4, 6):
                n = ipaddress.ip_network(nets[version])
                low = int(n.network_address) + (1 << 16 if version == 4 else 0)  # not the net of the link
                shift = 0 if version == 4 else 60
                self.points[side, version] = sorted(
                    low + (rng.randrange(1, 200) << shift) * rng.choice((1, 1, 256)) + rng.randrange(1, 250)
                    for _ in range(12))

    def end(self, rng, version, side):
        if version == 0 or rng.random() < 0.2:
            return End("any", 0, 0, 0)
        width = 32 if version == 4 else 128
        if rng.random() < 0.5:
            point = rng.choice(self.points[side, version])
            length = rng.choice((width, width - 1, width - 4, 24 if version == 4 else 64, 20 if version == 4 else 56,
                                 16 if version == 4 else 48))
            net = ipaddress.ip_network((point, length), strict=False)
            return End(str(net), version, int(net[0]), int(net[-1]))
        a, b = sorted(rng.choice(self.points[side, version]) for _ in range(2))
        kind = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address
        return End(f"{kind(a)}-{kind(b)}" if a != b else str(kind(a)), version, a, b)

    def address(self, rng, version, side):
        n = rng.choice(self.points[side, version]) + rng.choice((0, 0, 0, 1, -1, 7))
        return str((ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address)(n))


class Fields:
    """The selectors of a packet."""

    def __init__(self, src, dst, proto, sport, dport):
        s = ipaddress.ip_address(src)
        self.version, self.src, self.dst, self.proto = s.version, int(s), int(ipaddress.ip_address(dst)), proto
        self.sport, self.dport = (sport, dport) if proto in WITH_PORTS else (-1, -1)
        self.type, self.code = (sport >> 8, sport & 255) if proto in (1, 58) else (-1, -1)


def search(policies, fields, outbound):
    """RFC 4301, 4.4.1: the ordered database, linear. None: no match, to be discarded."""
    return next((p for p in policies if p.matches(fields, outbound)), None)


def case(seed):
    rng = random.Random(f"spd {seed}")
    space = Space(rng)
    sas = [Sa(f"s{i}", remote=f"203.0.113.{i}",
              algorithm=rng.choice(("aes128gcm16", "aes256-sha256", "chacha20poly1305", "aes128gmac")),
              esn=rng.random() < 0.5, window=4096) for i in range(1, rng.choice((1, 2, 3, 4, 5, 6)))]
    count = int(10 ** rng.uniform(1, 3))
    policies = [Policy(rng, sas, space) for _ in range(count)]
    cache = rng.choice((None, "{ outbound = true, inbound = true }", "{ outbound = true, inbound = true, flows = 16 }",
                        "{ outbound = true, inbound = false }", "{ outbound = false, inbound = true, flows = 1000 }"))
    c = Case(f"random-{seed}", sas, [p.text() for p in policies], cache=cache)
    policies.sort(key=lambda p: -p.priority)  # stable: equal ones stay in the order of the list
    rows = [packet_row(rng, space) for _ in range(60)]
    c.step = 80
    for _ in range(400):
        far, own, proto, sport, dport = rng.choice(rows) if rng.random() < 0.7 else packet_row(rng, space)
        way = rng.choice(("out", "in", "esp") if sas else ("out", "in"))
        if way == "out":
            outbound(c, rng, policies, own, far, proto, sport, dport)
        elif way == "in":
            inbound(c, rng, policies, far, own, proto, dport, sport)
        else:
            protected(c, rng, policies, sas, far, own, proto, dport, sport)
    return c


def packet_row(rng, space):
    version = rng.choice((4, 4, 6))
    proto = rng.choice((6, 17, 17, 17, 132, 58 if version == 6 else 1, 47, 99, 98))
    own, far = space.address(rng, version, "local"), space.address(rng, version, "remote")
    if proto in (1, 58):
        kind = rng.choice((0, 3, 8, 11, 12) if proto == 1 else (1, 2, 3, 128, 129)) << 8 | rng.choice((0, 1, 3, 4, 5))
        return far, own, proto, kind, kind
    port = lambda: rng.choice((0, 1, 2, 52, 53, 54, 55, 80, 81, 1023, 1024, 3999, 4000, 4001, 5000, 5001, 65534, 65535))
    return far, own, proto, port(), port()


def outbound(c, rng, policies, src, dst, proto, sport, dport):
    p = wire.ports(proto, src, dst, sport, dport, data(rng, 40))
    hit = search(policies, Fields(src, dst, proto, sport, dport), True)
    note = f"out {proto} {src}:{sport} > {dst}:{dport} by {hit and hit.text()!r}"
    if hit is None:
        c.drop(LAN, p, "spd-no-match", note=note, secret=True)
    elif hit.action == "discard":
        c.drop(LAN, p, "spd-discard", note=note, secret=True)
    elif hit.action == "bypass":
        c.bypass(LAN, p, WAN, note=note)
    else:
        c.protect(p, hit.sa, note=note)


def inbound(c, rng, policies, src, dst, proto, sport, dport):
    p = wire.ports(proto, src, dst, sport, dport, data(rng, 40))
    hit = search(policies, Fields(src, dst, proto, sport, dport), False)
    note = f"in {proto} {src}:{sport} > {dst}:{dport} by {hit and hit.text()!r}"
    if hit is not None and hit.action == "bypass":
        c.bypass(WAN, p, LAN, note=note)
    else:
        c.drop(WAN, p, "spd-no-match" if hit is None else "spd-discard" if hit.action == "discard"
               else "spd-unprotected", note=note)


def selectors(policy):
    """The words of a rule that protects, but for its SA and priority."""
    return policy.text().split(" sa ")[0]


def protected(c, rng, policies, sas, src, dst, proto, sport, dport):
    """A packet of ESP passes if the first rule that matches names its SA, or a rule with the same selectors does."""
    sa = rng.choice(sas)
    p = wire.ports(proto, src, dst, sport, dport, data(rng, 40))
    f = Fields(src, dst, proto, sport, dport)
    first = search(policies, f, False)
    note = f"esp {sa.name} {proto} {src}:{sport} > {dst}:{dport} by {first and first.text()!r}"
    alike = [first] if first is None or first.action != "protect" else \
        [q for q in policies if q.action == "protect" and selectors(q) == selectors(first)]
    if any(q is not None and q.sa is sa for q in alike):
        c.decrypt(sa.from_peer(p), p, note=note)
    else:
        c.drop(WAN, sa.from_peer(p), "esp-selector", note=note)
