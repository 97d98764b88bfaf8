"""A model of docs/nat.md and docs/sessions.md: rules by a linear search, translations in a list, states and time-outs."""
import ipaddress

from case import DMZ, LAN, WAN, WAN2
from packet import ACK, DCCP, FIN, ICMP, PORTS, REQUESTS, RST, SCTP, SYN, TCP, UDP, UDPLITE

ADDRESS = {WAN: "198.51.100.1", WAN2: "203.0.113.1"}
OWN = [f"198.51.100.{n}" for n in (50, 51, 80, 81, 82, 83)]
ADDRESSES = {WAN: [ADDRESS[WAN], *OWN], WAN2: [ADDRESS[WAN2]]}
REPLIES = {reply: request for request, reply in REQUESTS.items()}
NAMES = {"tcp": TCP, "udp": UDP, "icmp": ICMP, "sctp": SCTP, "dccp": DCCP, "gre": 47}
TIMEOUTS = {"syn-sent": ("tcp-syn-sent", 120), "syn-recv": ("tcp-syn-recv", 60), "established": ("tcp-established", 86400),
            "unreplied": ("tcp-unreplied", 300), "fin-wait": ("tcp-fin-wait", 120), "time-wait": ("tcp-time-wait", 120),
            "close": ("tcp-close", 240), "refused": ("tcp-refused", 10), "udp": ("udp", 30), "udp-stream": ("udp-stream", 120), "icmp": ("icmp", 30),
            "generic": ("generic", 600)}


def span(text):
    """Returns the addresses of `A`, `A-B`, or a prefix."""
    if "-" in text:
        a, b = (int(ipaddress.ip_address(x)) for x in text.split("-"))
        return range(a, b + 1)
    n = ipaddress.ip_network(text)
    return range(int(n[0]), int(n[-1]) + 1)


def number(address):
    return int(ipaddress.ip_address(address))


def address(n):
    return str(ipaddress.ip_address(n))


class Rule:
    """A rule, from its parts. `what`, `src`, `dst` (text or "any"), `sports`, `dports` (a range or None), `target` and
    `tports` of the source (of a map the other prefix), `to` and `toport` of the destination."""

    def __init__(self, kind, what, src, dst, sports=None, dports=None, target=None, tports=None, to=None, toport=None,
                 preserve=False, limit=None):
        self.kind, self.what, self.src, self.dst, self.sports, self.dports = kind, what, src, dst, sports, dports
        self.target, self.tports, self.to, self.toport, self.preserve, self.limit = target, tports, to, toport, preserve, limit

    def text(self):
        def ports(r):
            return "" if r is None else f" port {r[0]}" if len(r) == 1 else f" port {r[0]}-{r[-1]}"
        src, dst = self.src, self.dst
        t = f"{self.kind} {self.what} from {src}{ports(self.sports)} to {dst}{ports(self.dports)}"
        if self.kind == "source" or self.kind == "map":
            t += f" as {self.target}{ports(self.tports)}"
        elif self.kind == "destination":
            t += f" as {self.to}{ports(self.toport)}"
        elif self.kind == "both":
            t += f" as source {self.target}{ports(self.tports)} destination {self.to}{ports(self.toport)}"
        return t + (" preserve" if self.preserve else "") + (f" limit-per-address {self.limit}" if self.limit else "")

    def matches(self, interface, proto, src, dst, sport, dport):
        """Matches fields; `interface` is the outside interface whose list has the rule."""
        if self.what != "ip4" and NAMES[self.what] != proto:
            return False
        for want, have in ((self.src, src), (self.dst, dst)):
            if want == "interface":
                if have not in ADDRESSES[interface]:
                    return False
            elif want != "any" and number(have) not in span(want):
                return False
        for want, have in ((self.sports, sport), (self.dports, dport)):
            if want is not None and (proto not in PORTS or have not in want):
                return False
        return True


def moved(x, a, b):
    """Returns the address at the place in prefix `b` that `x` has in prefix `a`."""
    return address(span(b)[number(x) - span(a)[0]])


class Translation:
    """`came` and `left` are the tuples (protocol, source, destination, ports) of the first packet; `vrfs` those that it came in by
    and left by."""

    def __init__(self, came, left, rule, edge, inside, now, vrfs):
        self.came, self.left, self.rule, self.edge, self.inside, self.vrfs = came, left, rule, edge, inside, vrfs
        self.last, self.state, self.before, self.fins, self.syn, self.acks = now, None, None, set(), None, set()

    def keys(self):
        return [(self.vrfs[0], self.came), (self.vrfs[1], turned(self.left))]

    def timeout(self, settings):
        key, default = TIMEOUTS[self.state]
        return settings.get(key, default) * 10**9

    def packet(self, way, flags, now):
        """Changes the state by a packet in the direction `way` (0 as the first one)."""
        proto = self.came[0]
        if proto in (UDP, UDPLITE):
            self.state = "udp-stream" if way or self.state == "udp-stream" else "udp"
        elif proto == ICMP:
            self.state = "icmp"
        elif proto != TCP:
            self.state = "generic"
        elif not self.tcp(way, flags):
            return
        self.last = now

    def tcp(self, way, flags):
        """Returns whether the time restarts."""
        s, first = self.state, self.state is None
        plain = flags & (SYN | ACK) == SYN
        if first:
            self.state = "syn-sent" if plain else "unreplied"
            if flags & FIN:
                self.state, self.fins = "fin-wait", {way}
            self.syn = way if plain else None
            return True
        if flags & RST:
            if s not in ("close", "refused"):
                self.before = s
                self.state = "refused" if s in ("syn-sent", "syn-recv") else "close"
            return True
        if plain:
            if s in ("fin-wait", "time-wait", "close") or s == "refused" and way:
                self.syn = way
                return False
            if s == "refused":
                self.state, self.syn = "syn-sent", way
                return True
            if s == "syn-sent" and way != self.syn:
                self.state = "syn-recv"
                return True
            return s == "syn-sent"
        if flags & SYN:
            if s in ("fin-wait", "time-wait", "close", "refused", "syn-sent") and self.syn is not None and way != self.syn:
                self.state, self.fins = "syn-recv", set()
            return True
        if s in ("close", "refused"):
            self.state = s = self.before
        if s == "syn-recv" or s == "unreplied" and way:
            self.state = "established"
        if flags & FIN:
            self.fins.add(way)
            self.state = "time-wait" if len(self.fins) == 2 else "fin-wait"
        return True


def turned(t):
    """Returns the tuple of the replies."""
    proto, src, dst, sport, dport = t
    if proto == ICMP:
        return proto, dst, src, sport, REQUESTS.get(dport, REPLIES.get(dport, dport))
    return proto, dst, src, dport, sport


class Model:
    """`lists`: rules by outside interface, in the order of the interfaces. `own`: addresses of the gateway. `vrfs`: the VRF of
    interfaces that are not in the default one; each has addresses of its own, in `own_of`, and its hosts' addresses in `hosts`."""

    def __init__(self, lists, own, settings, vrfs=None, own_of=None, hosts=None):
        self.lists, self.own, self.settings = lists, own, settings
        self.vrfs, self.own_of, self.hosts = vrfs or {}, own_of or {}, hosts or {}
        self.live, self.paired, self.ended = [], {}, 0

    def vrf(self, interface):
        return self.vrfs.get(interface, "default")

    def expire(self, now):
        gone = [t for t in self.live if now - t.last >= t.timeout(self.settings)]
        self.live = [t for t in self.live if t not in gone]
        self.ended += len(gone)

    def settled(self, now):
        """Returns the next time at which no translation is about to end."""
        while True:
            late = [t for t in self.live if -10**9 < now - t.last - t.timeout(self.settings) < 3 * 10**9]
            if not late:
                return now
            now = max(t.last + t.timeout(self.settings) for t in late) + 3 * 10**9

    def find(self, key, entry):
        """Returns the translation of a packet that came in by an interface, and its direction."""
        key = self.vrf(entry), key
        for t in self.live:
            if key in t.keys():
                return t, t.keys().index(key)
        return None, 0

    def route(self, dst, vrf):
        """Returns the interface that packets leave by; `None`: they are for the gateway."""
        n = number(dst)
        if vrf != "default":  # its own hosts, else outside
            if dst in self.own_of[vrf]:
                return None
            for interface, prefixes in self.hosts[vrf].items():
                if any(n in span(prefix) for prefix in prefixes):
                    return interface
            return WAN2 if n in span("192.0.2.0/24") else WAN
        if dst in self.own:
            return None
        for prefix, interface in (("10.0.0.0/16", LAN), ("10.1.0.0/16", DMZ), ("192.0.2.0/24", WAN2), ("203.0.113.0/24", WAN2)):
            if n in span(prefix):
                return interface
        return WAN

    def destination(self, fields):
        """Returns the rule, its interface, and the destination that it gives."""
        proto, src, dst, sport, dport = fields
        for interface, rules in self.lists.items():
            for r in rules:
                if r.kind in ("keep", "destination", "both") and r.matches(interface, *fields):
                    if r.kind == "keep":
                        return None
                    port = dport if r.toport is None else r.toport[0] if len(r.toport) == 1 else r.toport[dport - r.dports[0]]
                    return r, interface, r.to, port
                if r.kind == "map" and number(dst) in span(r.target):
                    back = moved(dst, r.target, r.src)
                    turn = (sport, dport) if proto == ICMP else (dport, sport)
                    if r.matches(interface, proto, back, src, *turn):
                        return r, interface, back, dport
        return None

    def source(self, interface, fields):
        """Returns the rule of an interface's list that translates the source."""
        for r in self.lists.get(interface, []):
            if r.kind in ("keep", "source", "map") and r.matches(interface, *fields):
                return None if r.kind == "keep" else r
        return None

    def decide(self, entry, fields):
        """Decides about a packet of no translation: (rule, edge, source rule, egress, destination, its port), rules None if
        nothing is translated."""
        proto, src, dst, sport, dport = fields
        hit = self.destination(fields)
        to, toport = (hit[2], hit[3]) if hit else (dst, dport)
        out = self.route(to, self.vrf(hit[1] if hit else entry))
        rule, edge = None, None
        if hit and hit[0].kind == "both":
            rule, edge = hit[0], hit[1]
        elif out in self.lists:
            rule, edge = self.source(out, (proto, src, to, sport, toport)), out
        elif hit and out is not None and entry not in self.lists:
            rule, edge = self.source(hit[1], fields), hit[1]
        return hit, rule, edge, out, to, toport

    def sources(self, rule, edge):
        """Returns the addresses that a source rule gives."""
        return [ADDRESS[edge]] if rule.target == "interface" else [address(n) for n in span(rule.target)]

    def taken(self, came, left, vrfs):
        """Returns whether a translation of these tuples would share one with another."""
        keys = {(vrfs[0], came), (vrfs[1], turned(left))}
        return any(keys & set(t.keys()) for t in self.live)
