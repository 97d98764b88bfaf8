"""NAT between VRFs: tenants with equal addresses in VRFs of their own, whose routes lead outside (docs/nat.md, "Several VRFs")."""
from case import DMZ, LAN, WAN, Case, reply
from packet import ACK, GRE, SYN, Error, Packet, Part, Var, echo, tcp, udp

HIGH = range(1024, 65536)
A, B, SERVER, R, S = "10.0.0.5", "10.0.0.6", "10.0.0.8", "8.8.8.8", "8.8.4.4"
OUT, GATE = "198.51.100.1", "198.51.100.254"
MASQUERADE = "source ip4 from 10.0.0.0/8 to any as interface"
FORWARD = "destination tcp from any to interface port 443 as 10.0.0.8 port 8443"

ROUTES = '''
[[vrf]]
name = "red"

[[vrf]]
name = "blue"

[[route]]
prefix = "0.0.0.0/0"
vrf = "red"
via = { address = "198.51.100.254", vrf = "default" }

[[route]]
prefix = "0.0.0.0/0"
vrf = "blue"
via = { address = "198.51.100.254", interface = "wan", vrf = "default" }

[[route]]
prefix = "10.0.0.0/29"
via = { interface = "lan", vrf = "red" }

[[route]]
prefix = "10.0.0.8/32"
via = { interface = "lan", vrf = "red" }
'''


class Tenants(Case):
    """lan is of VRF `red`, dmz of VRF `blue`; both have the same addresses."""

    def __init__(self, name, rules, more="", **k):
        super().__init__(name, rules, more=ROUTES + more, extra={LAN: 'vrf = "red"\n', DMZ: 'vrf = "blue"\n'}, **k)

    def config(self):
        return super().config().replace('"10.1.0.1/16", "fd00:2::1/64"', '"10.0.0.1/16", "fd00:1::1/64"')


def equal_tuples():
    """One inside tuple in both VRFs: a translation each, and each reply goes back to its VRF."""
    c = Tenants("linked-equal-tuples", [MASQUERADE])
    made = []
    for n, p in enumerate((udp(A, R, 4000, 53), tcp(A, R, 4000, 80), echo(A, R, 4000))):
        one, two = Var(f"red{n}", HIGH if n < 2 else range(65536)), Var(f"blue{n}", HIGH if n < 2 else range(65536))
        for tenant, port in ((LAN, one), (DMZ, two)):
            q = p.replace(src=OUT, sport=port)
            c.go(tenant, p, WAN, q, note=tenant)
            made.append((tenant, p, q))
        c.different(one, two)
    for tenant, p, q in reversed(made):
        c.go(WAN, reply(q), tenant, reply(p), note=f"reply for {tenant}")
    for tenant, p, q in made:
        flags = ACK if p.flags else 0
        c.go(tenant, p.replace(flags=flags), WAN, q.replace(flags=flags), note=f"{tenant} again")
    return c


def portless():
    """A protocol without ports has one translation for each outside address and peer, whichever VRF it came from."""
    c = Tenants("linked-portless", [MASQUERADE])
    p = Packet(GRE, A, R, data=b"\0\0\x08\0abcd")
    c.both(LAN, p, WAN, p.replace(src=OUT))
    c.drop(DMZ, p, "nat-exhausted", note="the other tenant")
    other = p.replace(dst=S)
    c.both(DMZ, other, WAN, other.replace(src=OUT), note="another peer")
    return c


def errors():
    """ICMP errors about a tenant's packets go to that tenant; its own leave with the outside address."""
    c = Tenants("linked-errors", [MASQUERADE])
    made = []
    for tenant in (LAN, DMZ):
        p = udp(A, R, 4000, 53)
        q = p.replace(src=OUT, sport=Var(f"p-{tenant}", HIGH))
        c.both(tenant, p, WAN, q)
        made.append((tenant, p, q))
    for tenant, p, q in reversed(made):
        for size in (28, 40):
            c.go(WAN, Error(S, OUT, q, size), tenant, Error(S, A, p, size), note=f"about {tenant}'s")
        c.go(tenant, Error(A, R, reply(p)), WAN, Error(OUT, R, reply(q)), note=f"by {tenant}'s host")
    return c


def fragments():
    """Fragments of both tenants, in any order, both ways; those of equal identification are kept apart by VRF."""
    c = Tenants("linked-fragments", [MASQUERADE])
    data = bytes(range(200)) * 3
    made = {}
    for n, tenant in enumerate((LAN, DMZ)):
        port = Var(f"p-{tenant}", HIGH)
        p = udp(A, R, 4000, 53, data=data)
        q = p.replace(src=OUT, sport=port)
        made[tenant] = p, q
        for m, order in enumerate(((0, 1, 2), (0, 2, 1))):
            for index in order:
                c.step(tenant, Part(p, 256, index, 7 + m), [(WAN, Part(q.replace(ttl=63), 256, index, 7 + m))])
        for index in (0, 2, 1):
            c.step(WAN, Part(reply(q), 256, index, 9 + n), [(tenant, Part(reply(p).replace(ttl=63), 256, index, 9 + n))])
    for index in (0, 2, 1):
        for tenant, (p, q) in made.items():
            c.step(tenant, Part(p, 256, index, 30), [(WAN, Part(q.replace(ttl=63), 256, index, 30))], note="by turns")
    return c


def forwards():
    """A destination is looked up in the VRF of the outside interface, whose route leads to a tenant's server; so also for a client
    of another tenant, whose source is translated as for a hairpin."""
    c = Tenants("linked-forward", [FORWARD, MASQUERADE])
    p, q = tcp(R, OUT, 5000, 443), tcp(R, SERVER, 5000, 8443)
    c.both(WAN, p, LAN, q, note="from outside")
    for tenant in (DMZ, LAN):
        p = tcp(A, OUT, 6000, 443)
        q = tcp(OUT, SERVER, Var(f"p-{tenant}", HIGH), 8443)
        c.go(tenant, p, LAN, q, note=f"from {tenant}")
        c.go(LAN, reply(q), tenant, reply(p), note=f"from {tenant}, reply")
    # The server's own connections are translated as those of other hosts.
    p = tcp(SERVER, R, 9000, 80)
    c.both(LAN, p, WAN, p.replace(src=OUT, sport=Var("s", HIGH)), note="from the server")
    return c


def taken():
    """A forward whose replies would have the tuple of a tenant's translation is refused; the translation goes on."""
    c = Tenants("linked-taken", [FORWARD, MASQUERADE])
    own = tcp(SERVER, R, 8443, 5000)
    left = own.replace(src=OUT, sport=Var("p", HIGH))
    c.both(LAN, own, WAN, left)
    c.drop(WAN, tcp(R, OUT, 5000, 443), "nat-exhausted", note="its replies would be those packets")
    c.go(LAN, own.replace(flags=ACK), WAN, left.replace(flags=ACK), note="it goes on")
    c.go(WAN, reply(left).replace(flags=ACK), LAN, reply(own).replace(flags=ACK), note="it goes on")
    c.both(WAN, tcp(R, OUT, 5001, 443), LAN, tcp(R, SERVER, 5001, 8443), note="another port")
    return c


def both():
    """A `both` rule draws ports that are free in the VRF of the server, whichever VRF the client is in."""
    rule = "both tcp from any to interface port 443 as source interface port 7000-7003 destination 10.0.0.8 port 8443"
    c = Tenants("linked-both", [rule, MASQUERADE])
    ports = [Var(f"p{n}", range(7000, 7004)) for n in range(4)]
    for n, tenant in enumerate((LAN, DMZ, DMZ, WAN)):
        src = R if tenant == WAN else A
        p, q = tcp(src, OUT, 6000 + n, 443), tcp(OUT, SERVER, ports[n], 8443)
        c.go(tenant, p, LAN, q, note=f"from {tenant}")
        c.go(LAN, reply(q), tenant, reply(p), note=f"from {tenant}, reply")
    c.different(*ports)
    for tenant in (LAN, DMZ, WAN):
        c.drop(tenant, tcp(R if tenant == WAN else A, OUT, 6100, 443), "nat-exhausted", note=f"from {tenant}")
    return c


def maps():
    """A map gives a host of a tenant an outside address, and leads packets for it into the VRF that the route names."""
    c = Tenants("linked-map", ["map ip4 from 10.0.0.5 to any as 198.51.100.80", MASQUERADE], own=["198.51.100.80/32"])
    p = udp(A, R, 4000, 53)
    c.both(LAN, p, WAN, p.replace(src="198.51.100.80"), note="from inside")
    p = udp(S, "198.51.100.80", 700, 69)
    c.both(WAN, p, LAN, p.replace(dst=A), note="from outside")
    return c


def limits():
    """A limit per address is for an address of one VRF; time-outs and states are those of each translation."""
    c = Tenants("linked-limit", ["source ip4 from 10.0.0.0/8 to any as interface limit-per-address 2"])
    for tenant in (LAN, DMZ):
        for n in range(2):
            p = udp(A, R, 4000 + n, 53)
            c.both(tenant, p, WAN, p.replace(src=OUT, sport=Var(f"{tenant}{n}", HIGH)))
    for tenant in (LAN, DMZ):
        c.drop(tenant, udp(A, R, 4002, 53), "nat-limit", note=tenant)
        p = udp(B, R, 4002, 53)
        c.both(tenant, p, WAN, p.replace(src=OUT, sport=Var(f"{tenant} b", HIGH)), note="another address")
    c.wait(100)
    p = udp(A, R, 4000, 53)
    c.go(DMZ, p, WAN, p.replace(src=OUT, sport=Var("kept", HIGH)))
    c.wait(60)  # red's are over, blue's first is not
    p = udp(A, R, 4003, 53)
    c.both(LAN, p, WAN, p.replace(src=OUT, sport=Var("new", HIGH)))
    return c


def kept():
    """Packets of a `keep` rule, and of no rule, go from VRF to VRF as the routes say, with their addresses."""
    c = Tenants("linked-keep", ["keep ip4 from 10.0.0.5 to 8.8.4.4", "source ip4 from 10.0.0.5 to any as interface"])
    for p in (udp(A, S, 4000, 53), udp(B, R, 4000, 53)):
        c.go(LAN, p, WAN, p)
    c.go(WAN, udp(S, A, 53, 4000), LAN, udp(S, A, 53, 4000), note="by the route of the default VRF")
    p = tcp(A, R, 1, 80, SYN)
    c.both(DMZ, p, WAN, p.replace(src=OUT, sport=Var("p", HIGH)))
    return c


def cases():
    yield from (equal_tuples, portless, errors, fragments, forwards, taken, both, maps, limits, kept)
