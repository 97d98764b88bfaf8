"""Packets for the gateway: UDP 4500, fragments of ESP, nested ESP, interfaces of SAs, interfaces without an SPD."""
import random

import wire
from case import LAN, WAN, Case, Check, Clear, Esp, Together
from cases_alg import L4, L6, W4, data, echo_reply, transport, tunnel, tunnel_hosts
from sa import Sa

R4, R6 = tunnel_hosts(1)


def nothing(c, frames):
    return f"{len(frames)} packets left" if frames else None


def port_4500(six):
    """RFC 3948, 2.2 to 2.4: ESP, IKE behind the non-ESP marker, keepalives. No rule lets UDP 4500 in here."""
    sa, rules = tunnel(1, six=six, encap=(4500, 4500))
    case = Case(f"port-4500-{6 if six else 4}", [sa], rules)
    rng = random.Random(1)

    def udp(payload, sport=4500, dport=4500, src=None):
        return wire.udp(src or sa.remote, sa.local, sport, dport, payload)
    inner = wire.udp(R4, L4, 1, 2, data(rng, 30))
    case.decrypt(sa.from_peer(inner), inner)
    case.send(WAN, udp(b"\xff"), {"local", "drop"}, Together(nothing), note="keepalive")
    case.drop(WAN, udp(b"\0\0\0\0" + data(rng, 40)), "spd-no-match", note="IKE, and no rule for it")
    case.drop(WAN, udp(b"\0\0\0\0" + sa.esp(inner, 4)), "spd-no-match", note="ESP behind the non-ESP marker is IKE")
    for payload in (b"", b"\0", b"\0\0", b"\0\0\0", b"\0\0\0\0", b"\xff\xff", b"\x01", b"\xff\0\0", b"\xff\xff\xff\xff",
                    b"\0\0\0\1", b"\1\2\3\4\5\6\7"):
        case.send(WAN, udp(payload), {"drop", "local"}, Together(nothing), note=f"payload {payload.hex()}")
    case.drop(WAN, udp(sa.esp(inner, 4), sport=4501), {"spd-no-match", "esp-no-sa"},
              note="from another port than the SA's")
    case.drop(WAN, udp(sa.esp(inner, 4), dport=4501), "spd-no-match", note="to another port")
    inner2 = wire.udp(R4, L4, 1, 2, data(rng, 31))
    case.decrypt(sa.from_peer(inner2), inner2)
    return case


def ike_bypass():
    """IKE matches the SPD as any local packet does; ESP in UDP passes beside it."""
    sa, rules = tunnel(1, encap=(4500, 4500))
    case = Case("ike-bypass", [sa], ["bypass udp from any port 500 to any port 500",
                                     "bypass udp from any port 4500 to any port 4500"] + rules)
    rng = random.Random(2)
    # Nothing serves IKE here: port unreachable, which no rule covers on its way out.
    case.drop(WAN, wire.udp(sa.remote, W4, 500, 500, data(rng, 40)), "local-unhandled", note="UDP 500")
    case.drop(WAN, wire.udp(sa.remote, W4, 4500, 4500, b"\0\0\0\0" + data(rng, 40)), "local-unhandled",
              note="UDP 4500 with the marker")
    case.drop(WAN, wire.udp(sa.remote, W4, 500, 501, data(rng, 40)), "spd-no-match", note="UDP 501")
    inner = wire.udp(R4, L4, 1, 2, data(rng, 30))
    case.decrypt(sa.from_peer(inner), inner)
    case.bypass(LAN, wire.udp(L4, "203.0.113.9", 500, 500, data(rng, 40)), WAN, note="IKE of a host behind the gateway")
    case.bypass(WAN, wire.udp("203.0.113.9", L4, 500, 500, data(rng, 40)), LAN, note="and its answer")
    case.bypass(WAN, wire.udp("203.0.113.9", L4, 4500, 4500, sa.esp(inner, 4)), LAN,
                note="ESP in UDP in transit is not ours")
    return case


def fragments(six, udp):
    """ESP in fragments, in any order, with duplicates, of several packets at once."""
    sa, rules = tunnel(1, six=six, encap=(4500, 4500) if udp else None)
    x, more = transport(101, six=six)
    case = Case(f"esp-fragments-{6 if six else 4}{'-udp' if udp else ''}", [sa, x], rules + more)
    rng = random.Random(3)
    ident = 100
    for order in ("012", "210", "102", "120", "0012", "2201", "021"):
        ident += 1
        inner = wire.udp(R4, L4, 1, 2, data(rng, 1300))
        parts = wire.fragments(sa.from_peer(inner), 496, ident)
        assert len(parts) == 3
        for i, k in enumerate(order):
            last = i == len(order) - 1
            case.send(WAN, parts[int(k)], {"forward"} if last else {"held", "drop", "local", "forward"},
                      [Clear(LAN, wire.forwarded(inner))] if last else Together(nothing),
                      note=f"order {order}, fragment {k}", datagram=ident if udp else None)
        if order == "210":
            case.tick()
    # Two packets whose fragments are mixed, and a third one that is never complete.
    pairs = [wire.udp(R4, L4, 1, 2, data(rng, 900)) for _ in range(2)]
    a, b = (wire.fragments(sa.from_peer(p), 504, 200 + i) for i, p in enumerate(pairs))
    lost = wire.fragments(sa.from_peer(wire.udp(R4, L4, 1, 2, data(rng, 900))), 504, 300)
    for p, done, name in ((a[0], 0, "a"), (lost[0], 0, None), (b[1], 0, "b"), (a[1], 1, "a"), (b[0], 2, "b")):
        case.send(WAN, p, {"forward"} if done else {"held", "local", "drop"},
                  [Clear(LAN, wire.forwarded(pairs[done - 1]))] if done else Together(nothing),
                  note="two packets mixed", datagram=name if udp else None)
    # Forged in a fragment.
    bad = bytearray(sa.from_peer(wire.udp(R4, L4, 1, 2, data(rng, 900))))
    bad[-3] ^= 4
    for i, p in enumerate(wire.fragments(bytes(bad), 504, 400)):
        case.send(WAN, p, "drop" if i else {"held", "local", "drop"}, Together(nothing), {"esp-auth"} if i else None,
                  note="forged, in fragments")
    q = wire.echo(x.remote, x.local, 3, 4, data(rng, 1000))
    for i, p in enumerate(wire.fragments(x.from_peer(q), 600, 500)):
        case.send(WAN, p, "local" if i else {"held", "local"}, [Esp(x, echo_reply(q))] if i else Together(nothing),
                  note="transport, in fragments")
    inner = wire.udp(R4, L4, 1, 2, data(rng, 30))
    case.decrypt(sa.from_peer(inner), inner, note="a whole one behind them")
    return case


def nested(depth):
    """ESP in ESP, all to this gateway; at most four deep."""
    outer = Sa("outer", remote="203.0.113.50", algorithm="aes256gcm16")
    inner_sa, rules = tunnel(1, algorithm="aes128-sha256")
    rules = rules + [f"protect esp from {W4} to 203.0.113.50 sa outer",
                     f"protect esp from {W4} to {inner_sa.remote} sa outer"]
    case = Case(f"nested-{depth}", [outer, inner_sa], rules)
    rng = random.Random(4)
    for _ in range(5):
        packet = wire.udp(R4, L4, 1, 2, data(rng, 40))
        p = inner_sa.from_peer(packet)
        layers = []
        for _ in range(depth - 1):
            layers.append(len(p))
            p = outer.from_peer(p)
        if depth <= 4:
            # The layers of one SA are opened from the outside: their numbers descend within the window.
            case.decrypt(p, packet, note=f"{depth} layers")
        else:
            case.drop(WAN, p, "nesting-limit", note=f"{depth} layers")
        case.tick()
    if depth == 2:
        # An inner ESP packet that no rule of the outer SA covers.
        stray = Sa("stray", remote="203.0.113.60")
        p = outer.from_peer(stray.from_peer(wire.udp(R4, L4, 1, 2, data(rng, 20))))
        case.drop(WAN, p, "esp-selector", note="inner ESP that the outer SA does not cover")
        p = outer.from_peer(inner_sa.wrap(b"\0\0\x99\x99" + inner_sa.esp(b"x" * 20, 4)[4:]))
        case.drop(WAN, p, "esp-no-sa", note="inner ESP with an unknown SPI")
        # In clear, the inner ESP packet is the inner SA's packet as well.
        packet = wire.udp(R4, L4, 1, 2, data(rng, 20))
        case.decrypt(inner_sa.from_peer(packet), packet, note="the inner SA without the outer one")
    return case


EAST = '''
[[interface]]
name = "east"
port = "ipsec"
acl = { in = "east-in" }
sav = "east"

[[interface]]
name = "west"
port = "ipsec"

[acl.east-in]
rules = ["deny udp from any to any port 7", "permit ip from any to any"]

[sav.east]
mechanism = "table"
rules = ["permit from 192.168.1.0/25 on east", "permit from 2001:db8:b:1::/64 on east"]
'''


def sa_interface():
    """Decrypted packets enter by the SA's interface: its source address validation and access lists apply."""
    a, rules = tunnel(1, extra={"interface": '"east"'})
    b, more = tunnel(2, extra={"interface": '"west"'})
    case = Case("sa-interface", [a, b], rules + more, more=EAST)
    rng = random.Random(5)

    def p(src, dst, dport):
        return wire.udp(src, dst, 1, dport, data(rng, 30))
    inner = p(R4, L4, 9)
    case.decrypt(a.from_peer(inner), inner, note="permitted")
    case.drop(WAN, a.from_peer(p(R4, L4, 7)), "acl-deny", note="denied by the list of east")
    case.drop(WAN, a.from_peer(p("192.168.1.200", L4, 9)), "sav-table", note="source not valid on east")
    case.drop(WAN, a.from_peer(p("192.168.2.9", L4, 9)), "esp-selector", note="selectors come first")
    inner = p("192.168.2.9", L4, 7)
    case.decrypt(b.from_peer(inner), inner, note="west has no list")
    inner = p(R6, L6, 9)
    case.decrypt(a.from_peer(inner), inner, note="IPv6")
    case.protect(p(L4, R4, 7), a, note="outbound packets do not pass the lists of east")
    return case


BLUE = '''
[[vrf]]
name = "blue"

[[interface]]
name = "east"
port = "ipsec"
vrf = "blue"

[[interface]]
name = "lanblue"
port = "null"
vrf = "blue"
mac = "02:00:00:00:00:03"
address = "10.0.0.1/24"
'''


def sa_vrf():
    """The SA's interface is in another VRF: decrypted packets are routed there."""
    a, rules = tunnel(1, extra={"interface": '"east"'})
    b, more = tunnel(2)
    case = Case("sa-vrf", [a, b], rules + more, more=BLUE, macs={"lanblue": 3})
    rng = random.Random(6)
    inner = wire.udp(R4, L4, 1, 2, data(rng, 30))
    case.send(WAN, a.from_peer(inner), "forward", [Clear("lanblue", wire.forwarded(inner))], note="by the VRF blue")
    inner = wire.udp("192.168.2.9", L4, 1, 2, data(rng, 30))
    case.decrypt(b.from_peer(inner), inner, note="by the default VRF")
    case.drop(WAN, a.from_peer(wire.udp(R4, "10.7.0.1", 1, 2, data(rng, 30))), "no-route", note="no route in blue")
    return case


WAN2 = '''
[[interface]]
name = "wan2"
port = "null"
mac = "02:00:00:00:00:03"
address = ["198.18.0.1/24", "2001:db8:2::1/64"]

[[route]]
prefix = "203.0.114.0/24"
via = { address = "198.18.0.254" }
'''


def without_spd():
    """ESP that comes in by an interface without an SPD is decrypted, and checked against the rules that name its SA."""
    sa, rules = tunnel(1)
    case = Case("interface-without-spd", [sa], rules, more=WAN2, macs={"wan2": 3})
    rng = random.Random(7)
    inner = wire.udp(R4, L4, 1, 2, data(rng, 30))
    case.send("wan2", sa.from_peer(inner), "forward", [Clear(LAN, wire.forwarded(inner))], note="ESP by wan2")
    case.drop("wan2", sa.from_peer(wire.udp("192.168.9.9", L4, 1, 2, data(rng, 30))), "esp-selector",
              note="selectors hold there too")
    clear = wire.udp("203.0.114.9", L4, 1, 2, data(rng, 30))
    case.send("wan2", clear, "forward", [Clear(LAN, wire.forwarded(clear))],
              note="clear packets by wan2 are not matched")
    clear = wire.udp(L4, "203.0.114.9", 1, 2, data(rng, 30))
    case.send(LAN, clear, "forward", [Clear("wan2", wire.forwarded(clear))], note="and outbound ones")
    case.drop("wan2", wire.ip4(sa.remote, sa.local, 50, b"\0\0\x55\x55" + data(rng, 60)), "esp-no-sa")
    case.protect(wire.udp(L4, R4, 1, 2, data(rng, 30)), sa)
    return case


SAV = '''
[sav.outside]
mechanism = "table"
rules = ["permit from 203.0.113.0/24 on wan"]
'''


def sav_of_the_outer_interface():
    """Without an interface of its own, the selectors of the SA replace source address validation of the outer one."""
    sa, rules = tunnel(1)
    case = Case("sav-and-selectors", [sa], ["bypass ip from any to 203.0.113.0/24",
                                            "bypass ip from any to 192.168.50.0/24"] + rules, more=SAV)
    case.wan_extra = 'sav = "outside"\n'
    rng = random.Random(8)
    inner = wire.udp(R4, L4, 1, 2, data(rng, 30))
    case.decrypt(sa.from_peer(inner), inner, note="inner source that is not valid in clear")
    clear = wire.udp("203.0.113.9", L4, 1, 2, data(rng, 30))
    case.bypass(WAN, clear, LAN)
    case.drop(WAN, wire.udp("192.168.50.9", L4, 1, 2, data(rng, 30)), "sav-table", note="the same source in clear")
    return case


def hub(families):
    """A hub: packets out of one tunnel leave by another one, in one vector with other traffic."""
    six1, six2 = families
    a, _ = tunnel(1, six=six1, algorithm="aes128gcm16", esn=True)
    b, _ = tunnel(2, six=six2, algorithm="aes256-sha256", encap=(4500, 4500))
    rules = [f"protect ip4 from any to 192.168.{i}.0/24 sa t{i}"
             for i in (1, 2)] + [f"protect ip6 from any to 2001:db8:b:{i}::/64 sa t{i}" for i in (1, 2)] \
        + ["bypass udp from any to 172.16.0.0/12"]
    case = Case(f"hub-{6 if six1 else 4}-{6 if six2 else 4}", [a, b], rules)
    rng = random.Random(9)
    (p4, p6), (q4, q6) = tunnel_hosts(1), tunnel_hosts(2)
    for n in (0, 1, 50, 500, 1200):
        for src, dst, come, go in ((p4, q4, a, b), (q4, p4, b, a), (p6, q6, a, b), (q6, p6, b, a),
                                   (p4, p4[:-1] + "7", a, a)):
            inner = wire.udp(src, dst, 1, 2, data(rng, n))
            case.send(WAN, come.from_peer(inner), "forward", [Esp(go, wire.forwarded(inner))],
                      note=f"{come.name} to {go.name}", secret=inner[-12:] if n > 12 else None)
        inner = wire.udp(p4, "172.16.0.9", 1, 2, data(rng, n))
        case.send(WAN, a.from_peer(inner), "forward", [Clear(WAN, wire.forwarded(inner))],
                  note="out of a tunnel, on in clear")
        inner = wire.udp(p4, L4, 1, 2, data(rng, n))
        case.decrypt(a.from_peer(inner), inner)
        case.protect(wire.udp(L4, q4, 1, 2, data(rng, n)), b)
    case.tick()
    big = wire.udp(p4, q4, 1, 2, data(rng, 1400), df=True)  # fits the first tunnel's MTU, but not the second one's
    most = b.longest(1500)
    if len(big) > most and len(a.from_peer(big, 5000)) <= 1500:
        def reports(inner):
            p = wire.Ip(inner)
            if p.proto != 1 or p.payload[:2] != b"\x03\x04" or int.from_bytes(p.payload[6:8], "big") != most:
                return f"no ICMP 3/4 with MTU {most}: {inner[:36].hex()}"
            return None
        case.drop(WAN, a.from_peer(big, 5001), "mtu-exceeded", [Esp(a, reports, outer={"tos": range(256)})],
                  note="too long for the second tunnel")
    case.ordered = False
    return case


def same_spi():
    """An SA is found by destination and SPI: equal SPIs of several local addresses are different SAs."""
    made = [tunnel(1, spi_in=0x7000), tunnel(2, spi_in=0x7000, six=True), tunnel(3, spi_in=0x7000, encap=(4500, 4500))]
    made[2][0].local = "10.0.0.1"
    case = Case("same-spi", [s for s, _ in made], [r for _, own in made for r in own])
    rng = random.Random(10)
    for _ in range(3):
        for i, (sa, _) in enumerate(made, 1):
            inner = wire.udp(tunnel_hosts(i)[0], L4, 1, 2, data(rng, 30))
            case.decrypt(sa.from_peer(inner), inner, note=sa.name)
            for other, _ in made:
                if other is not sa:
                    case.drop(WAN, other.wrap(sa.esp(inner, 4)), {"esp-auth", "esp-replay"},
                              note=f"packet of {sa.name} to the address of {other.name}")
                    sa.sent -= 1
        case.tick()
    return case


LISTS = """
[acl.wan-in]
rules = ["deny esp from 203.0.113.2 to any", "deny udp from 203.0.113.4 to any port 4500", "permit ip from any to any"]

[acl.wan-out]
rules = ["deny udp from any to any port 7", "deny esp from any to 203.0.113.3",
         "deny udp from any to 203.0.113.5 port 4500", "permit ip from any to any"]
"""


def lists():
    """Access lists of the outer interface apply to packets of ESP, and to packets before they are encrypted."""
    made = [tunnel(i, encap=(4500, 4500) if i > 3 else None) for i in range(1, 6)]
    case = Case("esp-and-lists", [s for s, _ in made], [r for _, own in made for r in own], more=LISTS)
    case.wan_extra = 'acl = { in = "wan-in", out = "wan-out" }\n'
    case.gaps = True
    rng = random.Random(11)
    for i, (sa, _) in enumerate(made, 1):
        inner = wire.udp(tunnel_hosts(i)[0], L4, 1, 2, data(rng, 30))
        if i in (2, 4):
            case.drop(WAN, sa.from_peer(inner), "acl-deny", note=f"ESP of t{i} is denied")
        else:
            case.decrypt(sa.from_peer(inner), inner)
        out = wire.udp(L4, tunnel_hosts(i)[0], 1, 2, data(rng, 30))
        if i in (3, 5):
            case.drop(LAN, out, "acl-deny", note=f"ESP of t{i} is denied on its way out", secret=True)
        else:
            case.protect(out, sa)
        case.drop(LAN, wire.udp(L4, tunnel_hosts(i)[0], 1, 7, data(rng, 30)), "acl-deny", note="denied before the SPD",
                  secret=True)
    return case


TWO_VRFS = BLUE.replace("""port = "ipsec"
""", """port = "null"
mac = "02:00:00:00:00:04"
address = "198.51.100.1/24"
spd = "edge"
""") + """
[[route]]
vrf = "blue"
prefix = "0.0.0.0/0"
via = { address = "198.51.100.254" }
"""


def equal_in_two_vrfs():
    """An SA is found by its VRF, too: local address and SPI are equal in two VRFs."""
    a, rules = tunnel(1, spi_in=0x7000)
    b, more = tunnel(2, spi_in=0x7000, extra={"vrf": '"blue"'})
    case = Case("same-spi-vrf", [a, b], rules + more, more=TWO_VRFS, macs={"lanblue": 3, "east": 4})
    rng = random.Random(12)
    for _ in range(3):
        p, q = wire.udp(R4, L4, 1, 2, data(rng, 30)), wire.udp("192.168.2.9", L4, 1, 2, data(rng, 30))
        case.decrypt(a.from_peer(p), p, note="t1")
        case.send("east", b.from_peer(q), "forward", [Clear("lanblue", wire.forwarded(q))], note="t2 in blue")
        out = wire.udp(L4, "192.168.2.9", 1, 2, data(rng, 30))
        case.send("lanblue", out, "forward", [Esp(b, wire.forwarded(out), interface="east")], note="out by blue")
        case.tick()
        case.drop("east", a.from_peer(p), {"esp-auth", "esp-replay"}, note="packet of t1 in blue")
        case.drop(WAN, b.from_peer(q), {"esp-auth", "esp-replay"}, note="packet of t2 in the first VRF")
        a.sent, b.sent = a.sent - 1, b.sent - 1
        case.tick()
    return case


NAT = """
[nat.outside]
rules = ["keep ip4 from 10.0.0.0/8 to 192.168.1.0/24", "source ip4 from 10.0.0.0/8 to any as interface"]
"""


def behind_nat(udp):
    """SPDs see addresses as they are on the wire in clear: behind the translation of sources, before that of
    destinations. ESP itself is not translated."""
    sa, rules = tunnel(1, encap=(4500, 4500) if udp else None)
    b, _ = tunnel(2)
    rules = rules + ["protect udp from 198.51.100.1 to 192.168.2.0/24 sa t2",
                     "bypass udp from 198.51.100.1 to 8.8.8.0/24",
                     "discard udp from 10.0.0.0/8 to 8.8.8.0/24 priority 5"]
    case = Case(f"nat{'-udp' if udp else ''}", [sa, b], rules, more=NAT)
    case.wan_extra = 'nat = "outside"\n'
    rng = random.Random(13)
    port = {}

    def translated(packet, flow, far, dport):
        p = wire.Ip(packet)
        if (p.src, p.dst, int.from_bytes(p.payload[2:4], "big")) != (W4, far, dport):
            return f"translated to {p.src} > {p.dst}"
        port.setdefault(flow, int.from_bytes(p.payload[:2], "big"))
        want = wire.Ip(wire.udp(W4, far, port[flow], dport, payloads[flow])).payload
        return None if p.payload == want else "another port or payload"

    payloads = {flow: data(rng, 30) for flow in range(6)}
    for turn in range(2):
        for flow in range(6):
            near = wire.udp(L4, "192.168.1.9", 7000 + flow, 53, payloads[flow])
            case.protect(near, sa, note="kept")
            case.send(LAN, wire.udp(L4, "192.168.2.9", 7000 + flow, 53, payloads[flow]), "forward",
                      [Esp(b, lambda p, f=flow: translated(p, f, "192.168.2.9", 53))], note="translated, protected",
                      secret=payloads[flow][-12:])
            case.send(LAN, wire.udp(L4, "8.8.8.8", 7000 + flow, 53, payloads[flow]), "forward",
                      [Check(WAN, lambda p, f=flow: translated(p, f + 100, "8.8.8.8", 53))],
                      note="translated, in clear")
            payloads[flow + 100] = payloads[flow]
            inner = wire.udp("192.168.1.9", L4, 53, 7000 + flow, data(rng, 30))
            case.decrypt(sa.from_peer(inner), inner, note="kept, in")
        case.tick()
    case.drop(WAN, wire.udp("192.168.2.9", W4, 53, 7000, data(rng, 30)), "spd-unprotected", note="t2's, in clear")
    return case


def cases():
    yield lambda: port_4500(False)
    yield lambda: port_4500(True)
    yield ike_bypass
    for six in (False, True):
        for udp in (False, True):
            yield lambda s=six, u=udp: fragments(s, u)
    for depth in (1, 2, 3, 4, 5, 6):
        yield lambda d=depth: nested(d)
    for make in (sa_interface, sa_vrf, without_spd, sav_of_the_outer_interface, same_spi, lists, equal_in_two_vrfs):
        yield make
    yield lambda: behind_nat(False)
    yield lambda: behind_nat(True)
    for six1 in (False, True):
        for six2 in (False, True):
            yield lambda f=(six1, six2): hub(f)
