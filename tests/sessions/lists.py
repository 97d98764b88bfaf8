"""Configurations: rules, searched one after the other, lists, interfaces, routes and the keys of `[flow-table]`."""
import ipaddress

from fields import six
from packet import ACK, DCCP, ESP, FIN, ICMP, ICMP6, RST, SCTP, SYN, TCP, UDP, UDPLITE

IN, OUT = "in", "out"
OTHER = {IN: OUT, OUT: IN}
NAMES = {"tcp": TCP, "udp": UDP, "icmp": ICMP, "icmp6": ICMP6, "sctp": SCTP, "dccp": DCCP, "udplite": UDPLITE, "gre": 47, "esp": ESP, "ospf": 89}
FLAGS = {"fin": FIN, "syn": SYN, "rst": RST, "psh": 8, "ack": ACK}
KINDS = {ICMP: {"echo-request": 8, "echo-reply": 0, "destination-unreachable": 3, "timestamp-request": 13, "time-exceeded": 11},
         ICMP6: {"echo-request": 128, "echo-reply": 129, "destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3}}
DEFAULTS = {"tcp-syn-sent": 120, "tcp-syn-recv": 60, "tcp-established": 86400, "tcp-unreplied": 300, "tcp-fin-wait": 120, "tcp-time-wait": 120,
            "tcp-close": 240, "tcp-refused": 10, "udp": 30, "udp-stream": 120, "icmp": 30, "generic": 600}


class Rule:
    """A rule, from its parts. Ports and types are ranges or `None`; `flags` is a pair of texts. The model knows no `limit`."""

    def __init__(self, action, what, src="any", dst="any", sports=None, dports=None, kind=None, flags=None, frag=None, on=None, limit=None):
        self.action, self.what, self.src, self.dst, self.sports, self.dports = action, what, src, dst, sports, dports
        self.kind, self.flags, self.frag, self.on, self.limit = kind, flags, frag, on, limit

    @property
    def reflects(self):
        return self.action == "permit+reflect"

    def text(self):
        def ports(r):
            return "" if r is None else f" port {r[0]}" if len(r) == 1 else f" port {r[0]}-{r[-1]}"
        t = f"{self.action} {self.what} from {self.src}{ports(self.sports)} to {self.dst}{ports(self.dports)}"
        if self.kind is not None:
            t += f" type {self.kind}"
        if self.flags:
            t += f" tcp-flags {self.flags[0]}/{self.flags[1]}"
        if self.frag:
            t += f" {self.frag}"
        return t + (f" received-on {self.on}" if self.on else "") + (f" limit {self.limit}" if self.limit else "")

    def matches(self, f, entry):
        if self.on is not None and self.on != entry:
            return False
        if self.what in ("ip4", "ip6"):
            if six(f.src) != (self.what == "ip6"):
                return False
        elif self.what != "ip" and (NAMES[self.what] if self.what in NAMES else int(self.what)) != f.proto:
            return False
        for want, have in ((self.src, f.src), (self.dst, f.dst)):
            if want != "any":
                net = ipaddress.ip_network(want)
                if net.version != (6 if six(have) else 4) or ipaddress.ip_address(have) not in net:
                    return False
        for want, have in ((self.sports, f.sport), (self.dports, f.dport)):
            if want is not None and (have is None or have not in want):
                return False
        if self.kind is not None and (f.kind is None or f.kind != KINDS[f.proto][self.kind]):
            return False
        if self.flags:
            if f.truncated:
                return False
            want, mask = (sum(FLAGS[x] for x in part.split(",") if x != "none") for part in self.flags)
            if f.flags & mask != want:
                return False
        return self.frag is None or (self.frag == "fragment") == f.later


class List:
    def __init__(self, name, rules, default="next"):
        self.name, self.rules, self.default = name, rules, default


class Interface:
    """`lists`: the lists of each direction. `address`: the primary address of each family, by whether it is IPv6."""

    def __init__(self, name, zone, address, lists):
        self.name, self.zone, self.address, self.lists = name, zone, address, lists


class Setup:
    """The configuration: interfaces by name, `routes` (prefix, interface name, `None` for the gateway, or a drop reason) of which the
    first matches, and the keys of `[flow-table]`."""

    def __init__(self, interfaces, routes, timeouts=None, sessions=500000, half_open=None, pickup=True):
        self.interfaces = {i.name: i for i in interfaces}
        self.routes = [(ipaddress.ip_network(prefix), to) for prefix, to in routes]
        self.timeouts = {**DEFAULTS, **(timeouts or {})}
        self.sessions, self.pickup = sessions, pickup
        self.half_open = max(2, max(1, sessions // 4) if half_open is None else half_open)

    def route(self, address):
        a = ipaddress.ip_address(address)
        return next(to for net, to in self.routes if net.version == a.version and a in net)
