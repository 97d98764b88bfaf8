"""Endpoint-independent mapping and filtering (RFC 4787, 4.1 and 5; RFC 5382, REQ-1; RFC 5508), parity (RFC 4787, REQ-4), several VRFs."""
from case import DMZ, LAN, WAN, WAN2, Case, Var
from packet import ACK, SYN, echo, tcp, udp

A, B, C = "10.0.0.5", "10.0.0.6", "10.1.0.7"
R, S = "8.8.8.8", "9.9.9.9"
OUT = "198.51.100.1"
HIGH = range(1024, 65536)
MASQUERADE = "source ip4 from any to any as interface"
MAPPING = 'mapping = "endpoint-independent"\n'
OPEN = MAPPING + 'filtering = "endpoint-independent"\n'


def mapping():
    """An inside endpoint has one outside endpoint towards all destinations (RFC 4787, REQ-1; RFC 5382, REQ-1; RFC 5508, REQ-1)."""
    c = Case("mapping", [MASQUERADE], keys=MAPPING)
    p, q, t = (Var(name, HIGH) for name in "pqt")
    e, f = (Var(name, range(65536)) for name in "ef")
    for server, port in ((R, 53), (R, 54), (S, 53), (S, 9999)):
        c.both(LAN, udp(A, server, 1000, port), WAN, udp(OUT, server, p, port))
    c.both(LAN, udp(A, R, 1001, 53), WAN, udp(OUT, R, q, 53), note="another inside endpoint")
    for server in (R, S):
        c.both(LAN, tcp(A, server, 1000, 80), WAN, tcp(OUT, server, t, 80))
        c.both(LAN, echo(A, server, 7), WAN, echo(OUT, server, e))
    c.both(LAN, echo(A, R, 8), WAN, echo(OUT, R, f), note="another identifier")
    c.both(LAN, udp(A, S, 1001, 77), WAN, udp(OUT, S, q, 77))
    c.different(p, q)
    c.different(e, f)
    return c


def mapping_filtering():
    """Endpoint-dependent filtering: an inside endpoint hears those alone that it has sent to, by address and port."""
    c = Case("mapping-filtering", [MASQUERADE], keys=MAPPING)
    p = Var("p", HIGH)
    c.both(LAN, udp(A, R, 1000, 53), WAN, udp(OUT, R, p, 53))
    c.gone(udp(R, OUT, 54, p), "another port")
    c.gone(udp(S, OUT, 53, p), "another address")
    c.both(LAN, udp(A, S, 1000, 53), WAN, udp(OUT, S, p, 53))
    c.go(WAN, udp(S, OUT, 53, p), LAN, udp(S, A, 53, 1000), note="it has sent there now")
    c.gone(udp(S, OUT, 54, p), "another port of the second")
    return c


def open_filtering():
    """Endpoint-independent filtering: everybody reaches the inside endpoint of a mapping (RFC 4787, REQ-8; RFC 5382, REQ-3)."""
    c = Case("open-filtering", [MASQUERADE], keys=OPEN)
    p, t = Var("p", HIGH), Var("t", HIGH)
    c.both(LAN, udp(A, R, 1000, 53), WAN, udp(OUT, R, p, 53))
    for server, port in ((R, 54), (S, 53), (S, 9)):
        c.both(WAN, udp(server, OUT, port, p), LAN, udp(server, A, port, 1000), note="from outside")
    c.both(LAN, tcp(A, R, 1000, 80), WAN, tcp(OUT, R, t, 80))
    c.go(WAN, tcp(S, OUT, 4000, t, SYN), LAN, tcp(S, A, 4000, 1000, SYN), note="a connection from outside")
    c.go(LAN, tcp(A, S, 1000, 4000, SYN | ACK), WAN, tcp(OUT, S, t, 4000, SYN | ACK))
    c.go(WAN, tcp(S, OUT, 4000, t, ACK), LAN, tcp(S, A, 4000, 1000, ACK))
    return c


def open_queries():
    """Queries of ICMP from outside open nothing, whatever the filtering: the gateway answers for itself."""
    c = Case("open-queries", [MASQUERADE], keys=OPEN)
    e = Var("e", range(65536))
    c.both(LAN, echo(A, R, 7), WAN, echo(OUT, R, e))
    c.step(WAN, echo(S, OUT, e), verdict={"local", "deliver", "answered", "forward", "drop"},
           answer=lambda frames: "it passed" if any(i != WAN for i, _ in frames) else None)
    return c


def mapping_hairpin():
    """A packet from inside to the outside endpoint of a mapping goes back inside, with a translated source (RFC 4787, REQ-9)."""
    for keys, name in ((MAPPING, "mapping-hairpin"), (OPEN, "open-hairpin")):
        yield lambda keys=keys, name=name: hairpin_of(keys, name)


def hairpin_of(keys, name, rules=(MASQUERADE,)):
    c = Case(name, list(rules), keys=keys)
    p, q = Var("p", HIGH), Var("q", HIGH)
    c.both(LAN, udp(A, R, 1000, 53), WAN, udp(OUT, R, p, 53))
    c.both(LAN, udp(B, S, 2000, 53), WAN, udp(OUT, S, q, 53))
    c.go(LAN, udp(B, OUT, 2000, p), LAN, udp(OUT, A, q, 1000), note="to the mapping")
    c.go(LAN, udp(A, OUT, 1000, q), LAN, udp(OUT, B, p, 2000), note="and back")
    return c


def keep_hairpin():
    """The same behind a `keep` rule for packets between hosts inside: RFC 4787, REQ-9, has no exception for them."""
    inside = "keep ip4 from 10.0.0.0/8 to 10.0.0.0/8"
    for keys, name in ((MAPPING, "mapping-keep-hairpin"), (OPEN, "open-keep-hairpin")):
        yield lambda keys=keys, name=name: hairpin_of(keys, name, [inside, MASQUERADE])
    # To an outside address, no rule translates the source of `B`: the host would answer it inside, which is kept.
    yield lambda: kept_hairpin([f"keep udp from {B} to {OUT}", inside, MASQUERADE], "kept-hairpin")
    yield lambda: kept_hairpin([f"keep udp from {A} to {OUT}", MASQUERADE], "kept-hairpin-answer")


def kept_hairpin(rules, name):
    c = Case(name, rules, keys=OPEN)
    p = Var("p", HIGH)
    c.both(LAN, udp(A, R, 1000, 53), WAN, udp(OUT, R, p, 53))
    c.step(LAN, udp(B, OUT, 2000, p), verdict="drop", reason="local-unhandled",
           answer=lambda frames: "it passed" if any(i != LAN or f[23] == 17 for i, f in frames) else None)
    return c


def mapping_exclusive():
    """No other inside endpoint gets the outside endpoint of a mapping: not even towards another destination."""
    c = Case("mapping-exclusive", ["source udp from any to any as interface port 6000-6001"], keys=MAPPING)
    p, q = Var("p", range(6000, 6002)), Var("q", range(6000, 6002))
    c.both(LAN, udp(A, R, 1, 53), WAN, udp(OUT, R, p, 53))
    c.both(LAN, udp(A, R, 2, 53), WAN, udp(OUT, R, q, 53))
    c.drop(LAN, udp(A, S, 3, 53), "nat-exhausted")
    c.drop(LAN, udp(B, S, 1, 53), "nat-exhausted")
    c.both(LAN, udp(A, S, 1, 99), WAN, udp(OUT, S, p, 99), note="a mapping that is there")
    c.different(p, q)
    return c


def mapping_ends():
    """A mapping ends with its last translation (30 s after a datagram without an answer)."""
    c = Case("mapping-ends", ["source udp from any to any as interface port 6000"], keys=MAPPING)
    c.go(LAN, udp(A, R, 1, 53), WAN, udp(OUT, R, 6000, 53))
    c.wait(20)
    c.go(LAN, udp(A, S, 1, 53), WAN, udp(OUT, S, 6000, 53))
    c.wait(20)
    c.drop(LAN, udp(B, R, 1, 53), "nat-exhausted", note="the second translation holds it")
    c.wait(12)
    c.go(LAN, udp(B, R, 1, 53), WAN, udp(OUT, R, 6000, 53))
    return c


def mapping_keep():
    """A packet reaches the inside endpoint only if the rule would translate the answer, too."""
    c = Case("mapping-keep", [f"keep udp from any to {S}", MASQUERADE], keys=OPEN)
    p = Var("p", HIGH)
    c.both(LAN, udp(A, R, 1000, 53), WAN, udp(OUT, R, p, 53))
    c.gone(udp(S, OUT, 53, p), "kept")
    c.go(WAN, udp("9.9.9.10", OUT, 53, p), LAN, udp("9.9.9.10", A, 53, 1000))
    return c


def parity():
    """An even port gets an even one, and an odd port an odd one (RFC 4787, REQ-4)."""
    c = Case("parity", ["source ip4 from any to any as interface parity"])
    even, odd = range(1024, 65536, 2), range(1025, 65536, 2)
    for n in range(30):
        port = 40_000 + n
        own = odd if port % 2 else even
        c.both(LAN, udp(A, R, port, 53), WAN, udp(OUT, R, Var(f"p{n}", own), 53))
        c.both(LAN, tcp(A, R, port, 80), WAN, tcp(OUT, R, Var(f"q{n}", own), 80))
    return c


def parity_range():
    """Parity divides a range: one half may be exhausted while the other is not."""
    c = Case("parity-range", ["source udp from any to any as interface port 6000-6002 parity"])
    p, q = Var("p", (6000, 6002)), Var("q", (6000, 6002))
    c.both(LAN, udp(A, R, 10, 53), WAN, udp(OUT, R, p, 53))
    c.both(LAN, udp(A, R, 11, 53), WAN, udp(OUT, R, 6001, 53))
    c.drop(LAN, udp(A, R, 13, 53), "nat-exhausted", note="odd")
    c.both(LAN, udp(A, R, 12, 53), WAN, udp(OUT, R, q, 53))
    c.drop(LAN, udp(A, R, 14, 53), "nat-exhausted", note="even")
    c.both(LAN, udp(A, S, 13, 53), WAN, udp(OUT, S, 6001, 53), note="towards another server")
    c.different(p, q)
    return c


def parity_preserve():
    c = Case("parity-preserve", ["source udp from any to any as interface preserve parity"])
    c.both(LAN, udp(A, R, 40_001, 53), WAN, udp(OUT, R, 40_001, 53))
    c.both(LAN, udp(B, R, 40_001, 53), WAN, udp(OUT, R, Var("p", range(1025, 65536, 2)), 53), note="taken")
    return c


VRFS = '''
[[vrf]]
name = "b"

[[route]]
vrf = "b"
prefix = "0.0.0.0/0"
via = { address = "203.0.113.254" }

[[route]]
vrf = "b"
prefix = "10.0.0.0/16"
via = { address = "10.1.0.9" }
'''


def tenants():
    """Two tenants with the same addresses, each with an outside interface in its VRF."""
    c = Case("tenants", [MASQUERADE], nat={WAN2: "other"}, lists={"other": ["source ip4 from any to any as interface port 7000-7001"]},
             extra={DMZ: 'vrf = "b"\n', WAN2: 'vrf = "b"\n'}, more=VRFS)
    text = c.config
    c.config = lambda: text().replace('prefix = "192.0.2.0/24"', 'vrf = "b"\nprefix = "192.0.2.0/24"')  # behind wan2
    p, q, r = Var("p", HIGH), Var("q", range(7000, 7002)), Var("r", range(7000, 7002))
    c.both(LAN, udp(A, R, 1000, 53), WAN, udp(OUT, R, p, 53))
    c.both(DMZ, udp(A, R, 1000, 53), WAN2, udp("203.0.113.1", R, q, 53), note="the same endpoints, the other tenant")
    c.both(DMZ, udp(A, R, 1001, 53), WAN2, udp("203.0.113.1", R, r, 53))
    c.drop(DMZ, udp(A, R, 1002, 53), "nat-exhausted", note="the pool of one tenant")
    c.both(LAN, udp(A, R, 1002, 53), WAN, udp(OUT, R, Var("s", HIGH), 53), note="and not of the other")
    c.go(WAN, udp(R, OUT, 53, p), LAN, udp(R, A, 53, 1000))
    c.go(WAN2, udp(R, "203.0.113.1", 53, q), DMZ, udp(R, A, 53, 1000))
    c.different(q, r)
    return c


def cases():
    yield from (mapping, mapping_filtering, open_filtering, open_queries, mapping_exclusive, mapping_ends, mapping_keep, parity, parity_range,
                parity_preserve, tenants)
    yield from mapping_hairpin()
    yield from keep_hairpin()
