"""Fields of the outer and inner headers: TTL, DSCP, ECN (RFC 6040), DF, flow label (RFC 6438), hop limit, options."""
import random

import wire
from case import LAN, WAN, Case, Clear, Esp, Together, icmp_error
from cases_alg import L4, L6, W4, W6, data, echo_reply, transport, tunnel, tunnel_hosts

NOT, ECT1, ECT0, CE = 0, 1, 2, 3

# RFC 6040, figure 4: inner, outer → outgoing ECN; None: drop.
EGRESS = {
    NOT: {NOT: NOT, ECT0: NOT, ECT1: NOT, CE: None},
    ECT0: {NOT: ECT0, ECT0: ECT0, ECT1: ECT1, CE: CE},
    ECT1: {NOT: ECT1, ECT0: ECT1, ECT1: ECT1, CE: CE},
    CE: {NOT: CE, ECT0: CE, ECT1: CE, CE: CE},
}
FAMILIES = [(o, i) for o in (False, True) for i in (False, True)]


def pair(i, inner6):
    """Local and remote host of a tunnel, in the inner family."""
    r4, r6 = tunnel_hosts(i)
    return (L6, r6) if inner6 else (L4, r4)


def name(o, i):
    return f"{6 if i else 4}in{6 if o else 4}"


def dscp_ecn_out(outer6, inner6):
    sas, rules = [], []
    for i, extra in enumerate([{}, {"dscp": 46}, {"ecn": "false"}, {"dscp": 0, "ecn": "false"}], 1):
        sa, own = tunnel(i, six=outer6, extra=extra, esn=True)
        sas.append(sa)
        rules += own
    case = Case(f"dscp-ecn-out-{name(outer6, inner6)}", sas, rules)
    rng = random.Random(1)
    for i, sa in enumerate(sas, 1):
        mine, far = pair(i, inner6)
        for tos in range(256):
            dscp, ecn = sa.extra.get("dscp", tos >> 2), tos & 3 if sa.extra.get("ecn") != "false" else 0
            case.protect(wire.udp(mine, far, 1, 2, data(rng, 20), tos=tos), sa, outer={"tos": dscp << 2 | ecn},
                         note=f"{sa.extra} tos {tos}")
    return case


def dscp_ecn_in(outer6, inner6):
    sa, rules = tunnel(1, six=outer6)
    deaf, more = tunnel(2, six=outer6, extra={"ecn": "false"})
    case = Case(f"dscp-ecn-in-{name(outer6, inner6)}", [sa, deaf], rules + more)
    rng = random.Random(2)
    mine, far = pair(1, inner6)
    far2 = pair(2, inner6)[1]
    for inner in range(4):
        for outer in range(4):
            for d_in, d_out in ((0, 0), (46, 0), (0, 46), (10, 63)):
                p = wire.udp(far, mine, 1, 2, data(rng, 20), tos=d_in << 2 | inner)
                sealed = sa.from_peer(p, tos=d_out << 2 | outer)
                want = EGRESS[inner][outer]
                note = f"inner {d_in}/{inner} outer {d_out}/{outer}"
                if want is None:
                    case.drop(WAN, sealed, "esp-ecn", note=note)
                else:
                    case.decrypt(sealed, p, tos=d_in << 2 | want, note=note)
                p = wire.udp(far2, mine, 1, 2, data(rng, 20), tos=d_in << 2 | inner)
                case.decrypt(deaf.from_peer(p, tos=d_out << 2 | outer), p, note=note + ", ecn = false")
    return case


def transport_tos():
    """In transport mode the header stays: DSCP and ECN as they are, both ways."""
    rng = random.Random(3)
    made = [transport(101, six=False), transport(102, six=True)]
    case = Case("transport-tos", [s for s, _ in made], [r for _, own in made for r in own])
    for sa, _ in made:
        for tos in range(0, 256, 7):
            p = wire.udp(sa.local, sa.remote, 1, 2, data(rng, 20), tos=tos, df=tos % 2 == 0)
            case.protect(p, sa, outer={"tos": tos}, note=f"tos {tos}")
    return case


def ttl():
    rng = random.Random(4)
    made = [tunnel(1), tunnel(2, six=True), tunnel(3, extra={"hop-limit": 17}),
            tunnel(4, six=True, extra={"hop-limit": 255})]
    case = Case("ttl", [s for s, _ in made], [r for _, own in made for r in own])
    for i, (sa, _) in enumerate(made, 1):
        want = sa.extra.get("hop-limit", 64)
        for inner6 in (False, True):
            mine, far = pair(i, inner6)
            for t in (2, 3, 64, 128, 255):
                case.protect(wire.udp(mine, far, 1, 2, data(rng, 20), ttl=t), sa, outer={"ttl": want},
                             note=f"out ttl {t}")
                p = wire.udp(far, mine, 1, 2, data(rng, 20), ttl=t)
                case.decrypt(sa.from_peer(p, ttl=1 if t == 3 else 64), p, note=f"in ttl {t}")
            error = icmp_error(LAN, 3, 0, dst=mine) if inner6 else icmp_error(LAN, 11, 0, dst=mine)
            case.tick()
            for t in (1, 0):
                case.drop(LAN, wire.udp(mine, far, 1, 2, data(rng, 20), ttl=t), "ttl-expired", [error],
                          note=f"out ttl {t}", secret=True)
                # The error to the far host has a source of the gateway, which no PROTECT rule covers.
                case.drop(WAN, sa.from_peer(wire.udp(far, mine, 1, 2, data(rng, 20), ttl=t)), "ttl-expired",
                          note=f"in ttl {t}")
            case.tick()
    return case


def ttl_errors_protected():
    """Errors about decrypted packets go back through the tunnel if a rule covers them."""
    rng = random.Random(5)
    sa, rules = tunnel(1, esn=True)
    r4, r6 = tunnel_hosts(1)
    rules = ["protect ip4 from any to 192.168.1.0/24 sa t1", "protect ip6 from any to 2001:db8:b:1::/64 sa t1"]
    case = Case("errors-protected", [sa], rules, ordered=False)  # errors and replies of a vector may change places

    def error(kind, proto):
        def check(inner):
            p = wire.Ip(inner)
            if p.proto != proto or p.payload[0] != kind:
                return f"protocol {p.proto}, ICMP type {p.payload[:1].hex()}"
            return None
        return check
    for t in (1, 0):
        case.drop(WAN, sa.from_peer(wire.udp(r4, L4, 1, 2, data(rng, 20), ttl=t)), "ttl-expired",
                  [Esp(sa, error(11, 1), outer={"tos": range(256)})])
        case.drop(WAN, sa.from_peer(wire.udp(r6, L6, 1, 2, data(rng, 20), ttl=t)), "ttl-expired",
                  [Esp(sa, error(3, 58), outer={"tos": range(256)})])
    # A ping through the tunnel to the gateway's address on lan.
    for far, own in ((r4, "10.0.0.1"), (r6, "2001:db8:a::1"), (r4, W4), (r6, W6)):
        q = wire.echo(far, own, 1, 2, data(rng, 40))
        case.send(WAN, sa.from_peer(q), "local", [Esp(sa, echo_reply(q))], note=f"ping {own} through the tunnel")
    return case


def df():
    rng = random.Random(6)
    sas, rules = [], []
    for i, v in enumerate((None, '"copy"', '"set"', '"clear"'), 1):
        sa, own = tunnel(i, extra={"df": v} if v else {})
        sas.append(sa)
        rules += own
    case = Case("df", sas, rules)
    for i, sa in enumerate(sas, 1):
        r4, r6 = tunnel_hosts(i)
        mode = sa.extra.get("df", '"copy"')
        for bit in (False, True):
            want = {'"copy"': bit, '"set"': True, '"clear"': False}[mode]
            case.protect(wire.udp(L4, r4, 1, 2, data(rng, 30), df=bit, ident=5), sa, outer={"df": want},
                         note=f"{mode} inner {bit}")
        want = mode != '"clear"'
        case.protect(wire.udp(L6, r6, 1, 2, data(rng, 30)), sa, outer={"df": want}, note=f"{mode} inner 6")
        p = wire.udp(r4, L4, 1, 2, data(rng, 30), df=False, ident=9)
        case.decrypt(sa.from_peer(p, df=True), p, note="in: outer DF does not touch the inner one")
    return case


def flow_label():
    rng = random.Random(7)
    sas, rules = [], []
    for i, v in enumerate((None, '"flow"', '"zero"', '"copy"'), 1):
        sa, own = tunnel(i, six=True, extra={"flow-label": v} if v else {})
        sas.append(sa)
        rules += own
    case = Case("flow-label", sas, rules)
    seen = {}

    def labelled(sa, flow, note):
        """The packets of one flow have one label; RFC 6437: it is not 0 and differs between flows."""
        def check(c, frames):
            if len(frames) != 1:
                return f"{len(frames)} packets left"
            o, x, inner = sa.from_gateway(frames[0][1])
            c.sealed(sa, x, inner, frames[0][1])
            first = seen.setdefault((sa.name, flow), o.label)
            if first != o.label:
                return f"label {o.label:#x}, before {first:#x} in the same flow"
            labels = {v for (s, _), v in seen.items() if s == sa.name}
            flows = len([1 for s, _ in seen if s == sa.name])
            if flows == 32 and len(labels) < 24:
                return f"{len(labels)} labels for {flows} flows"
            return None
        return check
    for i, sa in enumerate(sas, 1):
        r4, r6 = tunnel_hosts(i)
        mode = sa.extra.get("flow-label", '"flow"')
        if mode == '"flow"':
            for _ in range(2):
                for flow in range(32):
                    src, dst = ((L4, r4), (L6, r6))[flow % 2]
                    p = wire.udp(src, dst, 1000 + flow, 53, data(rng, 30))
                    case.send(LAN, p, "forward", Together(labelled(sa, flow, mode)), note=f"{mode} flow {flow}")
            continue
        for label in (0, 1, 0xfffff, 0x12345):
            want = label if mode == '"copy"' else 0
            case.protect(wire.udp(L6, r6, 1, 2, data(rng, 30), label=label), sa, outer={"label": want},
                         note=f"{mode} {label:#x}")
        case.protect(wire.udp(L4, r4, 1, 2, data(rng, 30)), sa, outer={"label": 0} if mode == '"zero"' else {},
                     note=f"{mode} inner 4")
        p = wire.udp(r6, L6, 1, 2, data(rng, 30), label=0x54321)
        case.decrypt(sa.from_peer(p, label=0x999), p, note="in: the inner label stays")
    return case


def options4():
    """IPv4 options: inside only in tunnel mode, in front of ESP in transport mode."""
    rng = random.Random(8)
    t, rules = tunnel(1)
    x, more = transport(101)
    case = Case("ipv4-options", [t, x], rules + more)
    nops = b"\x94\x04\x00\x00"  # router alert
    for opts in (nops, b"\x01" * 8, b"\x07\x27\x04" + bytes(36) + b"\x00"):
        p = wire.ip4(L4, "192.168.1.9", 17, wire.udp_part(L4, "192.168.1.9", 1, 2, data(rng, 20)), options=opts)
        case.send(LAN, p, "forward", [Esp(t, wire.forwarded(p), outer={"options": b""})], note="tunnel")
        p = wire.ip4("192.168.1.9", L4, 17, wire.udp_part("192.168.1.9", L4, 1, 2, data(rng, 20)), options=opts)
        case.decrypt(t.from_peer(p), p, note="inner options in")
        p = wire.ip4(W4, x.remote, 17, wire.udp_part(W4, x.remote, 1, 2, data(rng, 20)), options=opts)
        case.send(LAN, p, "forward", [Esp(x, wire.forwarded(p), outer={"options": opts})], note="transport")
        q = wire.udp("192.168.1.9", L4, 1, 2, data(rng, 20))
        sealed = t.esp(q, 4)
        case.send(WAN, wire.ip4(t.remote, t.local, 50, sealed, options=opts), "forward",
                  [Clear(LAN, wire.forwarded(q))], note="outer options in")
    return case


def identifications():
    """Outer IPv4 packets without DF may be fragmented: their identifications differ (RFC 6864, 4.1)."""
    rng = random.Random(10)
    sa, rules = tunnel(1, extra={"df": '"clear"'})
    case = Case("outer-identification", [sa], rules)
    seen = {}

    def distinct(c, frames):
        if len(frames) != 1:
            return f"{len(frames)} packets left"
        o, x, inner = sa.from_gateway(frames[0][1])
        c.sealed(sa, x, inner, frames[0][1])
        seen[o.ident] = seen.get(o.ident, 0) + 1
        return f"identification {o.ident} again" if seen[o.ident] > 1 else None
    for i in range(500):
        case.send(LAN, wire.udp(L4, "192.168.1.9", i, 2, data(rng, 40), ident=9), "forward", Together(distinct))
    return case


def ext(kind_next, body):
    """A hop-by-hop or destination options header of padding, or a routing header without segments left."""
    return bytes([kind_next, len(body) // 8]) + body


PADN = b"\x01\x04\0\0\0\0"


def extensions6():
    """Transport mode with IPv6 extension headers: hop-by-hop and routing stand before ESP (RFC 4303, 3.1.1)."""
    rng = random.Random(9)
    x, rules = transport(101, six=True)
    case = Case("ipv6-extensions-transport", [x], rules)

    def chain(kinds, src, dst, last, part):
        out, nxt = part, last
        for k in reversed(kinds):
            body = PADN if k != 43 else b"\x04\x00\0\0\0\0"
            out, nxt = ext(nxt, body) + out, k
        return wire.ip6(src, dst, nxt, out)

    def out_check(p):
        """The opened packet is the one that came in."""
        def check(inner):
            want = wire.forwarded(p)
            return None if inner == want else f"{inner[:80].hex()} instead of {want[:80].hex()}"
        return check

    for kinds in ((0,), (60,), (0, 60), (43,), (0, 43, 60), (0, 60, 43)):
        part = wire.udp_part(W6, x.remote, 1, 2, data(rng, 33))
        p = chain(kinds, W6, x.remote, 17, part)
        case.protect(p, x, inner=out_check(p), note=f"out {kinds}")
    case.tick()
    for outside in ((), (0,), (60,), (0, 60), (43,)):
        for inside in ((), (60,)):
            q = wire.echo(x.remote, W6, 1, 2, data(rng, 33))
            inner = chain(inside, x.remote, W6, 58, q[40:])
            esp_octets = x.esp(inner[40:], inner[6])
            p = chain(outside, x.remote, W6, 50, esp_octets)
            case.send(WAN, p, "local", [Esp(x, echo_reply(q))], note=f"in {outside} ESP {inside}")
    t, more = tunnel(1, six=True)
    case.sas.append(t)
    case.rules += more
    q = wire.udp("192.168.1.9", L4, 1, 2, data(rng, 20))
    case.send(WAN, chain((0, 60), t.remote, W6, 50, t.esp(q, 4)), "forward", [Clear(LAN, wire.forwarded(q))],
              note="tunnel: outer extension headers")
    p = chain((60,), L6, "2001:db8:b:1::9", 17, wire.udp_part(L6, "2001:db8:b:1::9", 1, 2, data(rng, 20)))
    case.protect(p, t, note="tunnel: inner extension headers")
    p = chain((60,), "2001:db8:b:1::9", L6, 17, wire.udp_part("2001:db8:b:1::9", L6, 1, 2, data(rng, 20)))
    case.decrypt(t.from_peer(p), p, note="tunnel: inner extension headers in")
    return case


def cases():
    for o, i in FAMILIES:
        yield lambda o=o, i=i: dscp_ecn_out(o, i)
        yield lambda o=o, i=i: dscp_ecn_in(o, i)
    for make in (transport_tos, ttl, ttl_errors_protected, df, flow_label, identifications, options4, extensions6):
        yield make
