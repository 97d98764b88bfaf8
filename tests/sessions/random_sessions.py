"""Random lists and packets. The packets of a case are made while the model runs: they belong to sessions that it has, or had, and come at
the edges of their time-outs."""
import random

from case import ADDRESSES, BLACKHOLE, DMZ, GAP, HOSTS, LAN, MS, UNREACHABLE, WAN, Case, make_setup, steps
from fields import REQUESTS, AboutPart
from lists import DEFAULTS, IN, OTHER, OUT, List, Rule
from model import World
from packet import ACK, DCCP, ESP, FIN, ICMP, ICMP6, PORTS, RST, SCTP, SYN, TCP, UDP, UDPLITE, Error, Packet, Part

SPORTS, DPORTS = (1000, 1001, 40000), (53, 80, 443)
PREFIXES = ("any", "any", "any", "10.0.0.0/16", "10.0.0.5", "10.0.0.0/8", "8.8.8.0/24", "fd00:1::/64", "2001:db8:9::/48", "fd00::/16", "198.51.100.1")


def rule(rng, reflect=None):
    while True:
        action = "permit+reflect" if reflect else rng.choice(("permit", "permit", "permit", "permit+reflect", "permit+reflect", "deny", "deny", "reject", "reject+icmp"))
        what = rng.choice(("ip", "ip", "ip4", "ip6", "tcp", "tcp", "tcp", "tcp", "udp", "udp", "icmp", "icmp6", "gre", "sctp", "udplite", "dccp", "ospf"))
        src, dst = rng.choice(PREFIXES), rng.choice(PREFIXES)
        if reflect and rng.random() < 0.6:
            src = dst = "any"
        families = {6 if ":" in x else 4 for x in (src, dst) if x != "any"}
        families |= {4} if what in ("ip4", "icmp") else {6} if what in ("ip6", "icmp6") else set()
        if len(families) > 1:
            continue
        if what in ("ip4", "ip6") and len({src, dst}) + (src != "any") > 1:
            what = "ip"  # as weir prints it
        r = Rule(action, what, src, dst)
        if what in ("tcp", "udp", "sctp", "dccp") and rng.random() < 0.4:
            lo = rng.choice(DPORTS)
            r.dports = rng.choice((range(lo, lo + 1), range(1, 100), range(80, 444)))
            if rng.random() < 0.2:
                r.sports = range(1000, 1001)
        if what == "tcp":
            if action == "reject" and rng.random() < 0.4:
                r.action = "reject+reset"
            if rng.random() < 0.3:
                r.flags = rng.choice((("syn", "syn,ack"), ("ack", "syn,ack"), ("none", "syn"), ("ack", "ack"), ("none", "rst")))
        if what in ("icmp", "icmp6") and rng.random() < 0.5:
            r.kind = rng.choice(("echo-request", "echo-request") + (() if r.reflects else ("echo-reply", "destination-unreachable", "time-exceeded")))
        if not r.reflects and r.action != "reject+reset" and r.dports is None and r.sports is None and r.flags is None and r.kind is None and rng.random() < 0.06:
            r.frag = rng.choice(("fragment", "no-fragment"))
        return r


def stateful(rng, names):
    """Makes lists as a gateway has them that lets connections begin from one side: answers alone come back."""
    def opening():
        return List("opens", [Rule("permit+reflect", what) for what in rng.sample(("tcp", "udp", "icmp", "icmp6", "ip", "tcp"), rng.randrange(1, 4))] + (
            [Rule("permit+reflect", "ip")] if rng.random() < 0.5 else []), rng.choice(("deny", "deny", "permit", "reject")))
    answers = List("answers", [rule(rng)] if rng.random() < 0.3 else [], rng.choice(("deny", "deny", "next", "reject")))
    if rng.random() < 0.25:
        answers.rules.append(Rule("permit", "tcp", flags=("syn", "syn,ack")))
    edge, d = names[-1], rng.choice((IN, OUT))
    made = {(edge, d): [opening()], (edge, OTHER[d]): [answers]}
    if rng.random() < 0.3 and len(names) > 1:
        made[names[0], OTHER[d]] = [List("more", [rule(rng, rng.random() < 0.6) for _ in range(rng.randrange(1, 3))], rng.choice(("permit", "permit", "deny")))]
    return made


def lists(rng, names):
    """Makes lists for each interface and direction."""
    if rng.random() < 0.5:
        return stateful(rng, names)
    made = {}
    count = 0

    def new(rules, default):
        nonlocal count
        count += 1
        return List(f"l{count}", rules, default)
    common = [new([rule(rng) for _ in range(rng.randrange(0, 3))], "next")]
    for n in names:
        for d in (IN, OUT):
            x = rng.random()
            if x < 0.25:
                continue
            if x < 0.4:  # an edge: answers alone
                made[n, d] = [new([], "deny") if rng.random() < 0.5 else new([rule(rng) for _ in range(rng.randrange(2))], rng.choice(("deny", "reject", "next")))]
            elif x < 0.65:
                made[n, d] = [new([rule(rng, True) for _ in range(rng.randrange(1, 4))], rng.choice(("deny", "permit", "deny", "reject")))]
            else:
                made[n, d] = [new([rule(rng) for _ in range(rng.randrange(1, 6))], rng.choice(("deny", "permit", "permit", "reject", "next")))]
            if rng.random() < 0.15 and common[0].rules:
                made[n, d] = common + made[n, d] if rng.random() < 0.5 or made[n, d][0].default != "next" else made[n, d] + common
    if not any(r.reflects for part in made.values() for x in part for r in x.rules):
        n, d = rng.choice(names), rng.choice((IN, OUT))
        made[n, d] = [new([rule(rng, True) for _ in range(rng.randrange(1, 4))], "deny")]
    return made


class RandomCase(Case):
    def __init__(self, seed, length=160):
        rng = self.rng = random.Random(seed)
        names = rng.choice(((LAN,), (LAN, WAN), (LAN, WAN), (LAN, DMZ, WAN), (LAN, DMZ, WAN)))
        zones = {n: rng.choice(("default", "inside", "outside")) for n in names} if rng.random() < 0.5 else {}
        timeouts = {}
        if rng.random() < 0.7:
            timeouts = {k: rng.randrange(1, 40) for k in rng.sample(sorted(DEFAULTS), rng.randrange(1, 8))}
        bound = rng.choice((None, None, None, None, 3, 6, 10))
        half = rng.choice((None, None, 1, 2, 3)) if bound else rng.choice((None, None, None, 1, 2, 4))
        keys = {"sessions": bound} if bound else {}
        setup = make_setup(names, lists(rng, names), zones, timeouts=timeouts, half_open=half, pickup=rng.random() < 0.7, **keys)
        more = rng.choice(("", 'on-change = "keep"\n', 'on-change = "recheck"\n'))
        super().__init__(f"random-{seed}", setup, timeouts, half, more, rng.choice((1, 2, 3)))
        self.ways = ("false", "true") if seed % 4 == 0 else ("false",)
        self.names, self.size, self.tag = names, length, 0
        self.hosts = [(n, a) for n in names for a in HOSTS[n]]
        if WAN not in names:
            self.hosts += [(LAN, a) for a in HOSTS[WAN]]
        self.past, self.pairs, self.last = [], [], None
        self.theme = rng.choice(("mixed", "tcp", "tcp", "crowd"))
        if rng.random() < 0.6:
            inside, outside = HOSTS[names[0]], HOSTS[WAN]
            self.pairs = [p for p in ((inside[0], outside[0]), (outside[0], inside[0]), (inside[2], outside[2]))]
        self.fill()

    def fill(self):
        """Makes the packets, with the first answers of the model."""
        world = World(self.setup)
        while len(self.steps) < self.size:
            group = self.make(world)
            self.groups.append(group)
            self.now = group[-1][0] + GAP
            steps(world, group)
            if world.sessions and world.sessions[-1].key not in (k for k, _ in self.past[-4:]):
                self.last = world.sessions[-1].key
            for s in world.sessions:
                if not any(k == s.key for k, _ in self.past[-12:]):
                    self.past.append((s.key, s.zone))

    def pause(self, world):
        """Moves the clock; returns the session at whose time-out it stands, or `None`."""
        rng = self.rng
        x = rng.random() * (1.8 if self.theme == "tcp" else 1.2)
        if x < 0.3 and world.sessions:
            s = rng.choice([s for s in world.sessions if s.key == self.last] or world.sessions)
            at = s.ends(self.setup) + rng.choice((-MS, -MS, MS, MS, -MS, MS, 0))
            if at > self.now and at - self.now < 900 * 10**9 or x < 0.01:
                self.now = max(self.now, at)
                return s
        elif x < 0.45:
            self.now += int(rng.choice((0.001, 0.02, 0.5, 1, 3, 8, 15, 40)) * 1e9)
        elif x < 0.48:
            self.now += rng.choice((90, 200, 400)) * 10**9
        return None

    def data(self):
        self.tag += 1
        return b"%06d" % self.tag + bytes(self.rng.randrange(0, 20))

    def make(self, world):
        rng = self.rng
        at = self.pause(world)
        x = rng.random()
        if at is not None and rng.random() < 0.85:
            return self.further(at.key, at.state)
        if self.theme == "tcp" and x < 0.55 and self.last and self.last[0] == TCP:
            return self.further(self.last, next((s.state for s in world.sessions if s.key == self.last), None))
        if self.theme == "crowd" and x < 0.3:
            return self.fresh()
        if world.sessions and x < 0.6:
            s = rng.choice(world.sessions[-6:] if rng.random() < 0.7 else world.sessions)
            return self.further(s.key, s.state)
        if self.past and x < 0.75:
            return self.further(rng.choice(self.past[-12:])[0], None)
        return self.fresh()

    def entry(self, address):
        """Returns the interface that a packet from the address comes in by: now and then a wrong one."""
        if self.rng.random() < 0.06:
            return self.rng.choice(self.names)
        return next((n for n, a in self.hosts if a == address), self.names[-1])

    def one(self, p, entry=None):
        return [(self.now, entry or self.entry(p.src), p)]

    def fresh(self):
        rng = self.rng
        while True:
            (_, src), (_, dst) = rng.choice(self.hosts), rng.choice(self.hosts)
            if src != dst and (":" in src) == (":" in dst):
                break
        if self.pairs and rng.random() < 0.6:  # few conversations that go far
            src, dst = rng.choice(self.pairs)
        if rng.random() < 0.08:
            n = rng.choice(self.names)
            dst = next(a.split("/")[0] for a in ADDRESSES[n] if (":" in a) == (":" in src))
        elif rng.random() < 0.05 and ":" not in src:
            dst = rng.choice((BLACKHOLE, UNREACHABLE)).replace("0/24", "7")
        v6 = ":" in src
        proto = rng.choice((TCP, TCP, TCP, UDP) if self.theme == "tcp" else (TCP, TCP, TCP, TCP, UDP, UDP, UDP, ICMP, ICMP, SCTP, DCCP, UDPLITE, 47, ESP, 89))
        k = {"ttl": 1} if rng.random() < 0.04 else {}
        if proto == ICMP:
            kind = rng.choice((128, 128, 128, 129)) if v6 else rng.choice((8, 8, 8, 8, 13, 15, 17, 0, 14, 5, 9))
            return self.one(Packet(ICMP6 if v6 else ICMP, src, dst, rng.choice((7, 8)), data=self.data(), kind=kind, **k))
        if proto in PORTS:
            if proto == TCP:
                k["flags"] = rng.choice((SYN, SYN, SYN, SYN, SYN, SYN, ACK, ACK, SYN | ACK, ACK | FIN, RST, RST | ACK, SYN | FIN, 0))
            p = Packet(proto, src, dst, rng.choice(SPORTS), rng.choice(DPORTS), self.data(), **k)
            if rng.random() < 0.08 and self.whole(p):
                return self.fragments(p)
            return self.one(p)
        return self.one(Packet(proto, src, dst, data=b"\0\0\x08\0" + self.data(), **k))

    def whole(self, p):
        """Returns whether a packet may come in fragments: none to the gateway, none whose flags count twice."""
        return p.ttl > 1 and self.setup.route(p.dst) is not None and not (p.proto == TCP and p.flags & (SYN | RST))

    def fragments(self, p):
        rng = self.rng
        p = p.replace(data=self.data() + bytes(100))
        order = [0, 1, 2] if rng.random() < 0.5 else rng.sample([0, 1, 2], 3)
        entry = self.entry(p.src)
        self.tag += 1
        return [(self.now + n * GAP, entry, Part(p, 56, i, self.tag & 0xffff)) for n, i in enumerate(order)]

    def base(self, key, way):
        """Returns a packet of a tuple in a direction."""
        proto, src, dst, a, b = key
        if way:
            src, dst = dst, src
        if proto in (ICMP, ICMP6):
            return Packet(proto, src, dst, a, data=self.data(), kind=REQUESTS[proto, b] if way else b)
        if proto in PORTS:
            return Packet(proto, src, dst, *((b, a) if way else (a, b)), self.data())
        return Packet(proto, src, dst, data=b"\0\0\x08\0" + self.data())

    def further(self, key, state):
        rng = self.rng
        self.last = key
        way = rng.choice((0, 1))
        p = self.base(key, way)
        own = [a.split("/")[0] for n in self.names for a in ADDRESSES[n]]
        if p.src in own:
            return self.further(key, state)
        if p.proto == TCP:
            p = p.replace(flags=self.flags(state, way))
        x = rng.random()
        if x < 0.16:
            return self.error(p, key)
        if x < 0.19:
            return self.one(p.replace(ttl=1))
        if x < 0.25 and self.whole(p) and p.proto in PORTS:
            return self.fragments(p)
        if x < 0.3 and p.proto in PORTS:  # near misses
            return self.one(p.replace(**rng.choice(({"sport": p.sport + 1}, {"dport": p.dport + 1}, {"sport": p.dport, "dport": p.sport}))))
        return self.one(p)

    def flags(self, state, way):
        rng = self.rng
        likely = {"syn-sent": (SYN | ACK if way else SYN, SYN | ACK if way else ACK, SYN, RST | ACK), "syn-recv": (ACK, ACK, ACK, SYN, RST), "established": (ACK, ACK, ACK | FIN, RST, SYN, SYN | ACK),
                  "fin-wait": (ACK, ACK | FIN, SYN, SYN | ACK), "time-wait": (SYN, SYN | ACK, ACK), "close": (ACK, SYN, SYN | ACK, RST), "refused": (SYN, ACK, SYN | ACK),
                  "unreplied": (ACK, SYN, SYN | ACK)}
        if state in likely and rng.random() < 0.75:
            return rng.choice(likely[state])
        if rng.random() < 0.015:
            return rng.choice((SYN | FIN, SYN | RST))
        return rng.choice((SYN, SYN, SYN | ACK, ACK, ACK, ACK | 8, ACK | FIN, FIN, RST, RST | ACK, 0))

    def error(self, quoted, key):
        """An ICMP error about a packet, right or forged. It comes from the other side: from the receiver or from a router."""
        rng = self.rng
        if isinstance(quoted, Packet) and quoted.proto in (ICMP, ICMP6) and (quoted.proto, quoted.kind) not in REQUESTS and rng.random() < 0.5:
            return self.one(quoted)
        v6 = ":" in quoted.src
        kinds = ((1, 3, 0), (1, 4, 0), (2, 0, 1300), (3, 0, 0), (4, 0, 0)) if v6 else ((3, 1, 0), (3, 3, 0), (3, 4, 1300), (11, 0, 0), (12, 0, 0), (4, 0, 0), (5, 1, 0x0a000001))
        kind, code, rest = rng.choice(kinds)
        k = {}
        x = rng.random()
        src, dst = quoted.dst, quoted.src
        entry = self.entry(src)
        if rng.random() < 0.3:
            routers = {LAN: ("10.0.0.77", "fd00:1::77"), DMZ: ("10.1.0.77", "fd00:2::77"), WAN: ("9.9.0.77", "2001:db8:9::77")}
            src = routers[entry if entry != LAN or WAN in self.names else LAN][v6]
        if src in [a.split("/")[0] for n in self.names for a in ADDRESSES[n]]:
            src = "10.0.0.77" if not v6 else "fd00:1::77"
        if x < 0.06:
            k["spoil"] = 7
        elif x < 0.12 and not v6:
            k["corrupt"] = 7
        elif x < 0.18:
            dst = rng.choice([a for _, a in self.hosts if (":" in a) == v6 and a not in (src, dst)])
        elif x < 0.24 and quoted.proto in PORTS:
            quoted = quoted.replace(dport=quoted.dport + 1)
        elif x < 0.3 and quoted.proto in PORTS:
            quoted = Part(quoted.replace(data=bytes(100)), 56, 1, 9)
            return self.one(AboutPart(src, dst, quoted, None, kind, code, rest), entry)
        return self.one(Error(src, dst, quoted, rng.choice((None, None, 48 if v6 else 28)), kind, code, rest, **k), entry)
