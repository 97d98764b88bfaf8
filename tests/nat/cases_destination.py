"""Destinations, both ends, maps and hairpins; IPv6 with and without sessions (RFC 6296)."""
import ipaddress
import random

from case import DMZ, LAN, WAN, WAN2, Case, Var, reply
from cases_source import A, B, C, FAR, HIGH, MASQUERADE, OUT, R, S
from packet import ACK, GRE, ICMP, TCP, UDP, Error, Packet, Part, echo, tcp, udp

WEB = "10.0.0.9"


def forward():
    c = Case("forward", ["destination tcp from any to interface port 443 as 10.0.0.9 port 8443",
                         "destination udp from any to 198.51.100.50 as 10.0.0.9",
                         "destination tcp from any to interface port 8000-8009 as 10.1.0.9 port 9000-9009",
                         "destination icmp from any to 198.51.100.50 as 10.0.0.9",
                         "destination gre from any to 198.51.100.50 as 10.0.0.9"], own=["198.51.100.50/32"])
    c.both(WAN, tcp(R, OUT, 5000, 443), LAN, tcp(R, WEB, 5000, 8443))
    c.both(WAN, udp(R, "198.51.100.50", 5000, 53), LAN, udp(R, WEB, 5000, 53), note="the port stays")
    for port in (8000, 8004, 8009):
        c.both(WAN, tcp(R, OUT, 5000, port), DMZ, tcp(R, "10.1.0.9", 5000, port + 1000), note="range onto range")
    c.gone(tcp(R, OUT, 5000, 8010), "behind the range")
    c.both(WAN, echo(R, "198.51.100.50", 5), LAN, echo(R, WEB, 5))
    c.both(WAN, Packet(GRE, R, "198.51.100.50", data=b"12345678"), LAN, Packet(GRE, R, WEB, data=b"12345678"))
    c.both(WAN2, tcp(FAR, OUT, 5000, 443), LAN, tcp(FAR, WEB, 5000, 8443), note="by any interface of the VRF")
    c.go(LAN, tcp(WEB, R, 8443, 6000, ACK), WAN, tcp(WEB, R, 8443, 6000, ACK), note="no reply to anything")
    return c


def forward_order():
    c = Case("forward-order", ["keep tcp from 8.8.8.8 to 198.51.100.1 port 443", "destination tcp from 9.9.9.0/24 to interface port 443 as 10.0.0.8",
                               "destination tcp from any to interface port 443 as 10.0.0.9"])
    c.gone(tcp(R, OUT, 5000, 443), "kept")
    c.both(WAN, tcp(S, OUT, 5000, 443), LAN, tcp(S, "10.0.0.8", 5000, 443))
    c.both(WAN, tcp("7.7.7.7", OUT, 5000, 443), LAN, tcp("7.7.7.7", WEB, 5000, 443))
    return c


def forward_collision():
    """Two outside ports lead to one server: a client whose port is equal cannot have both."""
    c = Case("forward-collision", ["destination tcp from any to interface port 80 as 10.0.0.9 port 80", "destination tcp from any to interface port 81 as 10.0.0.9 port 80"])
    c.both(WAN, tcp(R, OUT, 5000, 80), LAN, tcp(R, WEB, 5000, 80))
    c.drop(WAN, tcp(R, OUT, 5000, 81), "nat-exhausted", "the server could not tell them apart")
    c.both(WAN, tcp(R, OUT, 5001, 81), LAN, tcp(R, WEB, 5001, 80))
    c.go(LAN, tcp(WEB, R, 80, 5000, ACK), WAN, tcp(OUT, R, 80, 5000, ACK))
    return c


def forward_and_source():
    """A drawn port never equals the outside tuple of a connection from outside."""
    c = Case("forward-and-source", ["destination udp from any to interface port 6000-6008 as 10.0.0.9 port 6000-6008", "source udp from 10.0.0.0/8 to any as interface port 6000-6009"])
    for n in range(9):
        c.both(WAN, udp(R, OUT, 53, 6000 + n), LAN, udp(R, WEB, 53, 6000 + n))
    c.both(LAN, udp(A, R, 700, 53), WAN, udp(OUT, R, 6009, 53))
    c.drop(LAN, udp(A, R, 701, 53), "nat-exhausted")
    c.both(LAN, udp(A, R, 701, 54), WAN, udp(OUT, R, Var("p", range(6000, 6010)), 54))
    return c


def source_then_forward():
    """A packet from the peer of a translation belongs to it, though a rule would send it elsewhere."""
    c = Case("source-then-forward", ["destination udp from any to interface as 10.0.0.9", "source udp from 10.0.0.0/8 to any as interface port 6000"])
    c.both(LAN, udp(A, R, 700, 53), WAN, udp(OUT, R, 6000, 53))
    c.both(WAN, udp(S, OUT, 53, 6000), LAN, udp(S, WEB, 53, 6000))
    c.go(WAN, udp(R, OUT, 53, 6000), LAN, udp(R, A, 53, 700))
    return c


def both():
    c = Case("both", ["both tcp from any to 198.51.100.9 port 80 as source interface destination 10.0.0.9 port 8080"], own=["198.51.100.9/32"])
    x = Var("p", HIGH)
    c.both(WAN, tcp(R, "198.51.100.9", 5000, 80), LAN, tcp(OUT, WEB, x, 8080))
    c.both(LAN, tcp(A, "198.51.100.9", 5000, 80), LAN, tcp(OUT, WEB, Var("q", HIGH), 8080), note="from inside")
    c.both(LAN, tcp(WEB, "198.51.100.9", 5000, 80), LAN, tcp(OUT, WEB, Var("r", HIGH), 8080), note="from the server itself")
    return c


def hairpin():
    c = Case("hairpin", ["destination tcp from any to interface port 80 as 10.0.0.9 port 8080", MASQUERADE])
    for client, inside in ((A, LAN), (C, DMZ), (WEB, LAN)):
        x = Var("p", HIGH)
        c.both(inside, tcp(client, OUT, 5000, 80), LAN, tcp(OUT, WEB, x, 8080), note=client)
        p, q = tcp(client, OUT, 5000, 80), tcp(OUT, WEB, x, 8080)
        c.go(LAN, Error(WEB, OUT, q), inside, Error(OUT, client, p), note="error of the server")
        c.go(inside, Error(client, OUT, reply(p)), LAN, Error(OUT, WEB, reply(q)), note="error of the client")
    c.both(WAN, tcp(R, OUT, 5000, 80), LAN, tcp(R, WEB, 5000, 8080), note="from outside the source stays")
    return c


def hairpin_limit():
    """A hairpin for which the source rule has no translation or no port left is dropped by that rule, and not by the one that
    gave it its destination."""
    limited = ["source tcp from 10.0.0.5 to any as interface limit-per-address 1", "source tcp from 10.0.0.6 to any as interface port 7000"]
    c = Case("hairpin-limit", ["destination tcp from any to interface port 80 as 10.0.0.9 port 8080", *limited])
    c.both(LAN, tcp(A, OUT, 5000, 80), LAN, tcp(OUT, WEB, Var("p", HIGH), 8080))
    c.drop(LAN, tcp(A, OUT, 5001, 80), "nat-limit")
    c.both(LAN, tcp(B, OUT, 5000, 80), LAN, tcp(OUT, WEB, 7000, 8080))
    c.drop(LAN, tcp(B, OUT, 5001, 80), "nat-exhausted")
    for number, rule in ((3, limited[0]), (6, limited[1])):
        c.refused[number] = rule
    return c


def hairpin_plain():
    """Without a source rule the source stays."""
    c = Case("hairpin-plain", ["destination tcp from any to interface port 80 as 10.0.0.9 port 8080"])
    c.both(DMZ, tcp(C, OUT, 5000, 80), LAN, tcp(C, WEB, 5000, 8080))
    return c


def hairpin_rule():
    """Source rules see the destination before translation."""
    c = Case("hairpin-rule", ["destination tcp from any to interface port 80 as 10.0.0.9 port 8080", "source tcp from any to 10.0.0.9 as interface port 7000",
                              "source tcp from any to 198.51.100.1 port 80 as interface port 7100", "source tcp from any to any as interface port 7200"])
    c.both(LAN, tcp(A, OUT, 5000, 80), LAN, tcp(OUT, WEB, 7100, 8080))
    return c


def hairpin_map():
    c = Case("hairpin-map", ["map ip4 from 10.0.0.80 to any as 198.51.100.80", "map ip4 from 10.0.0.81 to any as 198.51.100.81", MASQUERADE],
             own=["198.51.100.80/32", "198.51.100.81/32"])
    c.both(LAN, udp(A, "198.51.100.80", 5000, 53), LAN, udp(OUT, "10.0.0.80", Var("p", HIGH), 53))
    c.both(LAN, udp("10.0.0.81", "198.51.100.80", 5000, 53), LAN, udp("198.51.100.81", "10.0.0.80", 5000, 53), note="both are mapped")
    c.both(LAN, udp("10.0.0.80", "198.51.100.80", 5000, 54), LAN, udp("198.51.100.80", "10.0.0.80", 5000, 54), note="to itself")
    return c


def static_map():
    c = Case("map", ["map ip4 from 10.0.0.80 to any as 198.51.100.80", "map ip4 from 10.1.4.0/24 to any as 192.168.4.0/24",
                     "map tcp from 10.0.0.81 to 8.8.8.0/24 as 198.51.100.81"], own=["198.51.100.80/32", "198.51.100.81/32"])
    c.both(LAN, udp("10.0.0.80", R, 7, 9), WAN, udp("198.51.100.80", R, 7, 9))
    c.both(WAN, udp(R, "198.51.100.80", 70, 90), LAN, udp(R, "10.0.0.80", 70, 90))
    c.both(LAN, echo("10.0.0.80", R, 5), WAN, echo("198.51.100.80", R, 5))
    c.both(WAN, echo(R, "198.51.100.80", 6), LAN, echo(R, "10.0.0.80", 6))
    for proto in (47, 50, 89, 132):
        data = b"\0\1\0\2" + b"12345678"
        make = lambda a, b, proto=proto: Packet(proto, a, b, 1, 2, data)  # noqa: E731
        c.go(LAN, make("10.0.0.80", R), WAN, make("198.51.100.80", R))
        c.go(WAN, make(S, "198.51.100.80"), LAN, make(S, "10.0.0.80"))
    for last in (0, 1, 255):
        c.both(DMZ, tcp(f"10.1.4.{last}", R, 1, 2), WAN, tcp(f"192.168.4.{last}", R, 1, 2), note="a prefix")
        c.both(WAN, tcp(S, f"192.168.4.{last}", 1, 2), DMZ, tcp(S, f"10.1.4.{last}", 1, 2))
    c.both(LAN, tcp("10.0.0.81", R, 1, 2), WAN, tcp("198.51.100.81", R, 1, 2))
    c.go(LAN, tcp("10.0.0.81", S, 1, 2), WAN, tcp("10.0.0.81", S, 1, 2), note="to another host")
    c.both(WAN, tcp("8.8.8.1", "198.51.100.81", 1, 2), LAN, tcp("8.8.8.1", "10.0.0.81", 1, 2))
    c.gone(tcp(S, "198.51.100.81", 1, 2), "from another host")
    c.gone(udp(R, "198.51.100.81", 1, 2), "of another protocol")
    return c


def two_maps_in_vrfs():
    more = """
[[vrf]]
name = "blue"
[[interface]]
name = "blue-lan"
port = "null"
vrf = "blue"
address = "10.0.0.1/16"
[[interface]]
name = "blue-wan"
port = "null"
vrf = "blue"
address = ["198.51.100.1/24"]
nat = "edge"
"""
    c = Case("list-in-two-vrfs", [MASQUERADE, "destination tcp from any to interface port 80 as 10.0.0.9"], more=more)
    c.both(LAN, udp(A, R, 1, 53), WAN, udp(OUT, R, Var("p", HIGH), 53))
    c.both(WAN, tcp(R, OUT, 1, 80), LAN, tcp(R, WEB, 1, 80))
    return c


def one_armed():
    """The packet comes in and leaves by the outside interface."""
    c = Case("one-armed", ["source udp from 198.51.100.77 to any as interface port 6000-6009"])
    c.both(WAN, udp("198.51.100.77", R, 5000, 53), WAN, udp(OUT, R, Var("p", range(6000, 6010)), 53))
    return c


# IPv6

A6, B6, R6, OUT6 = "fd00:1::5", "fd00:1::6", "2001:db8:9::1", "2001:db8:1::1"


def source6():
    c = Case("source-6", ["source ip6 from fd00::/8 to any as interface", "destination tcp from any to interface port 443 as fd00:1::9 port 8443"])
    x, y = Var("p", HIGH), Var("e", range(65536))
    p, q = udp(A6, R6, 1000, 53, b"d" * 30), udp(OUT6, R6, x, 53, b"d" * 30)
    c.both(LAN, p, WAN, q)
    c.both(LAN, echo(A6, R6, 5), WAN, Packet(58, OUT6, R6, y, data=b"ping", kind=128))
    c.both(LAN, tcp(A6, R6, 1000, 80), WAN, tcp(OUT6, R6, Var("t", HIGH), 80))
    c.both(WAN, tcp(R6, OUT6, 5000, 443), LAN, tcp(R6, "fd00:1::9", 5000, 8443))
    for kind, code, rest in ((1, 4, 0), (2, 0, 1280), (3, 0, 0), (4, 1, 40)):
        for length in (48, 60, None):
            c.go(WAN, Error("2001:db8:77::1", OUT6, q, length, kind, code, rest), LAN, Error("2001:db8:77::1", A6, p, length, kind, code, rest))
            c.go(LAN, Error("fd00:1::77", R6, reply(p), length, kind, code, rest), WAN, Error(OUT6, R6, reply(q), length, kind, code, rest))
    for i in (0, 2, 1):
        c.step(LAN, Part(udp(A6, R6, 1000, 53, b"f" * 700), 256, i), [(WAN, Part(udp(OUT6, R6, x, 53, b"f" * 700, ttl=63), 256, i))])
    return c


def npt(address, a, b):
    """Translates an address from prefix `a` to prefix `b` (RFC 6296, 3.1 and 3.6). Returns None if it has no other."""
    a, b = ipaddress.ip_network(a), ipaddress.ip_network(b)
    bits = int(ipaddress.ip_address(address))
    assert ipaddress.ip_address(address) in a

    def words(x):
        return [x >> 112 - 16 * i & 0xffff for i in range(8)]

    def total(x):
        s = sum(words(x))
        while s >> 16:
            s = (s & 0xffff) + (s >> 16)
        return s
    host = bits & (1 << 128 - a.prefixlen) - 1
    moved = int(b.network_address) | host
    w = words(moved)
    longest = max(a.prefixlen, b.prefixlen)
    if longest <= 48:
        at = 3
    else:
        if not host & (1 << 64) - 1:
            return None
        at = next((i for i in range(4, 8) if w[i] != 0xffff), None)
        if at is None:
            return None
    if w[at] == 0xffff:
        return None
    adjust = total(int(a.network_address)) + (~total(int(b.network_address)) & 0xffff)
    s = w[at] + (adjust & 0xffff) + (adjust >> 16)
    s = (s & 0xffff) + (s >> 16)
    s = (s & 0xffff) + (s >> 16)
    w[at] = 0 if s == 0xffff else s
    return str(ipaddress.ip_address(sum(x << 112 - 16 * i for i, x in enumerate(w))))


def prefix6(a, b, addresses, name):
    c = Case(f"prefix6-{name}", [f"map ip6 from {a} to any as {b}"], more=f'[[route]]\nprefix = "{a}"\nvia = {{ address = "fd00:1::fe" }}\n')
    for address in addresses:
        out = npt(address, a, b)
        if out is None:
            c.drop(LAN, udp(address, R6, 7, 9), "nat-untranslated", note="has no other address")
            continue
        back = npt(out, b, a)
        if back != address:  # 0xffff and 0 are one number of ones' complement arithmetic
            continue
        for make in (lambda x, y: udp(x, y, 7, 9), lambda x, y: tcp(x, y, 7, 9, ACK), lambda x, y: echo(x, y, 7),
                     lambda x, y: Packet(GRE, x, y, data=b"12345678"), lambda x, y: Packet(132, x, y, 1, 2, b"sctp"),
                     lambda x, y: tcp(x, y, 7, 9, 4), lambda x, y: udp(x, y, 7, 9, spoil=9)):
            p, q = make(address, R6), make(out, R6)
            c.go(LAN, p, WAN, q)
            c.go(WAN, p.replace(src=R6, dst=out), LAN, p.replace(src=R6, dst=address))
        p, q = udp(address, R6, 7, 9, b"d" * 20), udp(out, R6, 7, 9, b"d" * 20)
        for length in (48, None):
            c.go(WAN, Error("2001:db8:77::1", out, q, length), LAN, Error("2001:db8:77::1", address, p, length))
            c.go(LAN, Error(address, R6, reply(p), length), WAN, Error(out, R6, reply(q), length))
        for i in (2, 0, 1):  # each for itself, in any order
            c.go(LAN, Part(udp(address, R6, 7, 9, b"f" * 700), 256, i), WAN, Part(udp(out, R6, 7, 9, b"f" * 700), 256, i))
    return c



def prefixes6():
    rng = random.Random(6)

    def some(a, count):
        n = ipaddress.ip_network(a)
        yield from (str(n.network_address + rng.getrandbits(128 - n.prefixlen)) for _ in range(count))
    yield lambda: prefix6("fd01:203:405::/48", "2001:db8:1::/48", ["fd01:203:405:1::1234", "fd01:203:405:ffff::1", "fd01:203:405::1", *some("fd01:203:405::/48", 4)], "48")
    yield lambda: prefix6("fd01:200::/32", "2a02:100::/32", list(some("fd01:200::/32", 4)), "32")
    yield lambda: prefix6("fd01:203:405:600::/56", "2001:db8:1:200::/56", ["fd01:203:405:601::", "fd01:203:405:601:ffff::7", "fd01:203:405:601:ffff:ffff:ffff:7",
                          "fd01:203:405:601:ffff:ffff:ffff:ffff", *some("fd01:203:405:600::/56", 4)], "56")
    yield lambda: prefix6("fd01:203:405:607::/64", "2001:db8:1:207::/64", ["fd01:203:405:607::1", "fd01:203:405:607:ffff:ffff::1", *some("fd01:203:405:607::/64", 4)], "64")


def hairpin6():
    a, b = "fd01:203:405::/48", "2001:db8:5::/48"
    c = Case("prefix6-hairpin", [f"map ip6 from {a} to any as {b}"], more=f'[[route]]\nprefix = "{a}"\nvia = {{ address = "fd00:1::fe" }}\n')
    x, y = "fd01:203:405:1::1", "fd01:203:405:2::2"
    x2, y2 = npt(x, a, b), npt(y, a, b)
    c.go(LAN, udp(x, y2, 7, 9), LAN, udp(x2, y, 7, 9))
    c.go(LAN, udp(y, x2, 9, 7), LAN, udp(y2, x, 9, 7))
    c.go(LAN, udp(x, x2, 9, 7), LAN, udp(x2, x, 9, 7), note="to itself")
    return c


def map6_session():
    """Maps with longer prefixes, protocols or destinations keep the bits behind the prefix, and have sessions."""
    c = Case("map6-session", ["map ip6 from fd00:1::80/124 to any as 2001:db8:1::f0/124", "map tcp from fd00:2::/64 to 2001:db8:9::/48 as 2001:db8:7::/64"])
    c.both(LAN, udp("fd00:1::85", R6, 7, 9), WAN, udp("2001:db8:1::f5", R6, 7, 9))
    c.both(WAN, tcp(R6, "2001:db8:1::f6", 7, 9), LAN, tcp(R6, "fd00:1::86", 7, 9))
    c.both(DMZ, tcp("fd00:2::85", R6, 7, 9), WAN, tcp("2001:db8:7::85", R6, 7, 9))
    c.go(DMZ, udp("fd00:2::85", R6, 7, 9), WAN, udp("fd00:2::85", R6, 7, 9), note="of another protocol")
    c.drop(DMZ, tcp("fd00:2::86", R6, 7, 9, 4), "nat-untranslated", "RST of no session")
    return c


def cases():
    yield from (forward, forward_order, forward_collision, forward_and_source, source_then_forward, both, hairpin, hairpin_limit, hairpin_plain, hairpin_rule,
                hairpin_map, static_map, two_maps_in_vrfs, one_armed, source6, hairpin6, map6_session)
    yield from prefixes6()
