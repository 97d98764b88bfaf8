"""Fragments in tunnels, under rules that compare ports, and fragments of ESP together with windows, ESN and ECN."""
import random

import wire
from case import LAN, WAN, Case, Clear, Esp, Together
from cases_alg import L4, L6, data, tunnel, tunnel_hosts
from cases_inbound import nothing

R4, R6 = tunnel_hosts(1)
PORTS = [
    "protect udp from any to any port 53 sa t1",
    "protect udp from any to any port 54 sa t2",
    "bypass udp from any to any port 55",
    "discard udp from any to any port 56",
]


def datagram(rng, src, dst, sport, dport, ident, size=1200):
    """Returns the fragments of a UDP datagram."""
    part = wire.udp_part(src, dst, sport, dport, data(rng, size))
    return wire.fragments(wire.ip(src, dst, 17, part, ident=ident), 504, ident)


def inner(six):
    """Without rules on ports, fragments match by their own fields, each for itself (docs/ipsec.md, Fragments)."""
    sa, rules = tunnel(1, six=not six, esn=True)
    case = Case(f"inner-fragments-{6 if six else 4}", [sa], rules)
    rng = random.Random(1)
    near, far = (L6, R6) if six else (L4, R4)
    for ident, order in enumerate(("012", "210", "120", "02", "2"), 1):
        out, into = datagram(rng, near, far, 7, 53, ident), datagram(rng, far, near, 53, 7, ident)
        for i in map(int, order):
            case.protect(out[i], sa, note=f"out, order {order}, fragment {i}")
            case.decrypt(sa.from_peer(into[i]), into[i], note=f"in, order {order}, fragment {i}")
            case.drop(WAN, into[i], "spd-unprotected", note=f"in clear, order {order}, fragment {i}")
    return case


def with_ports(six):
    """Rules with ports: each fragment matches with the fields of the first one, so a datagram has one verdict."""
    a, _ = tunnel(1)
    b, _ = tunnel(2)
    case = Case(f"inner-fragments-ports-{6 if six else 4}", [a, b], PORTS)
    rng = random.Random(2)
    near, far = (L6, R6) if six else (L4, R4)
    for ident, port in enumerate((53, 54, 55, 56, 57) * 2, 1):
        for i, p in enumerate(datagram(rng, near, far, 7, port, ident)):
            note = f"out to port {port}, fragment {i}"
            if port in (53, 54):
                case.protect(p, a if port == 53 else b, note=note)
            elif port == 55:
                case.bypass(LAN, p, WAN, note=note)
            else:
                case.drop(LAN, p, "spd-discard" if port == 56 else "spd-no-match", note=note, secret=True)
        case.tick()
        for i, p in enumerate(datagram(rng, far, near, port, 7, 100 + ident)):
            note = f"in clear from port {port}, fragment {i}"
            if port == 55:
                case.bypass(WAN, p, LAN, note=note)
            else:
                case.drop(WAN, p, {56: "spd-discard", 57: "spd-no-match"}.get(port, "spd-unprotected"), note=note)
        case.tick()
        for sa, number in ((a, 200), (b, 300)):
            for i, p in enumerate(datagram(rng, far, near, port, 7, number + ident)):
                note = f"in by {sa.name} from port {port}, fragment {i}"
                if (sa, port) in ((a, 53), (b, 54)):
                    case.decrypt(sa.from_peer(p), p, note=note)
                else:
                    case.drop(WAN, sa.from_peer(p), "esp-selector", note=note)
        case.tick()
    return case


def held(six):
    """Fragments that come before the first one wait for it, and leave once, protected."""
    sa, _ = tunnel(1)
    case = Case(f"inner-fragments-held-{6 if six else 4}", [sa], PORTS[:1])
    case.ordered = False
    rng = random.Random(3)
    near, far = (L6, R6) if six else (L4, R4)

    def collect(got, want, final, opened):
        """The packets of a datagram that left so far; all of them have left when its last fragment has come."""
        def check(c, frames):
            for interface, packet in frames:
                fault = opened(c, got, interface, packet)
                if fault:
                    return fault
            whole = sorted(wire.forwarded(p) for p in want)
            return f"{len(got)} fragments left instead of {len(want)}" if final and sorted(got) != whole else None
        return check

    def protected(c, got, interface, packet):
        return Esp(sa, got.append).wrong(c, interface, packet)

    def clear(c, got, interface, packet):
        got.append(packet)
        return None if interface == LAN else f"left by {interface}"
    for ident, order in enumerate(("120", "210", "201", "102", "012"), 1):
        for way in ("out", "in"):
            parts = datagram(rng, *((near, far, 7, 53) if way == "out" else (far, near, 53, 7)), ident + 50)
            got = []
            for n, i in enumerate(map(int, order)):
                # A held fragment leaves at the time of the first one. Its own verdict is that of its release.
                check = Together(collect(got, parts, n == 2, protected if way == "out" else clear))
                case.send(LAN if way == "out" else WAN, parts[i] if way == "out" else sa.from_peer(parts[i]),
                          {"forward", "held"}, check, note=f"{way}, order {order}, fragment {i}",
                          secret=way == "out" or None)
            case.tick()
    lonely = datagram(rng, near, far, 7, 53, 99)[1:]
    for i, p in enumerate(lonely, 1):
        case.send(LAN, p, {"held", "drop"}, Together(nothing), note=f"fragment {i} without a first one", secret=True)
    for i, p in enumerate(datagram(rng, far, near, 53, 7, 98)[1:], 1):
        case.send(WAN, sa.from_peer(p), {"held", "drop"}, Together(nothing),
                  note=f"fragment {i} without a first one, in")
    case.tick(10)
    case.protect(datagram(rng, near, far, 7, 53, 99)[0], sa, note="the first one comes too late")
    return case


def borrowed():
    """A first fragment that came another way is no ticket: fragments of a datagram have to take the way of its rule.
    RFC 4301, 7.4: an attacker must not pass fragments by the ports of another one."""
    a, _ = tunnel(1)
    b, _ = tunnel(2)
    case = Case("inner-fragments-borrowed", [a, b], PORTS)
    rng = random.Random(4)

    def parts(port, ident):
        return datagram(rng, R4, L4, port, 7, ident)
    p = parts(55, 1)
    case.bypass(WAN, p[0], LAN, note="first fragment, bypass")
    case.drop(WAN, a.from_peer(p[1]), "esp-selector", note="later fragment by t1 under a bypass rule")
    p = parts(53, 2)
    case.decrypt(a.from_peer(p[0]), p[0], note="first fragment by t1")
    case.drop(WAN, p[1], "spd-unprotected", note="later fragment in clear")
    case.drop(WAN, b.from_peer(p[1]), "esp-selector", note="later fragment by t2")
    case.decrypt(a.from_peer(p[2]), p[2], note="later fragment by t1")
    p = parts(53, 3)
    case.drop(WAN, b.from_peer(p[0]), "esp-selector", note="first fragment by the wrong SA")
    case.drop(WAN, b.from_peer(p[1]), "esp-selector", note="later fragment by the wrong SA")
    p = parts(54, 4)
    case.drop(WAN, p[0], "spd-unprotected", note="first fragment of t2's in clear")
    case.drop(WAN, a.from_peer(p[1]), "esp-selector", note="later fragment by t1")
    return case


def rollover(udp):
    """Fragments of ESP: the number counts when the datagram is complete, on both sides of the end of 32 bits."""
    sa, rules = tunnel(1, esn=True, window=64, encap=(4500, 4500) if udp else None)
    case = Case(f"esp-fragments-esn{'-udp' if udp else ''}", [sa], rules)
    rng = random.Random(5)
    ident, e = 0, 2**32

    def packets(*numbers):
        nonlocal ident
        out = []
        for seq in numbers:
            ident += 1
            p = wire.udp(R4, L4, 1, 2, data(rng, 900))
            out.append((p, wire.fragments(sa.from_peer(p, seq), 504, ident)))
        return out

    def part(p, packet, last, reason=None):
        whole = p if udp else None
        if not last:
            case.send(WAN, packet, {"held", "local"}, Together(nothing), note="first part", datagram=whole)
        elif reason:
            case.send(WAN, packet, "drop", reason=reason, note="complete", datagram=whole)
        else:
            case.send(WAN, packet, "forward", [Clear(LAN, wire.forwarded(p))], note="complete", datagram=whole)
    for seq in (2**31, e - 2):
        (p, (x, y)), = packets(seq)
        part(p, x, False)
        part(p, y, True)
        case.tick()
    # The parts of two packets are mixed, and the later number is complete first.
    (p, (px, py)), (q, (qx, qy)) = packets(e - 1, e + 3)
    part(p, px, False)
    part(q, qx, False)
    part(q, qy, True)
    part(p, py, True)
    case.tick()
    for seq, reason in ((e - 1, "esp-replay"), (e + 3, "esp-replay"), (e - 3, None), (e, None), (e + 2, None)):
        (p, (x, y)), = packets(seq)
        part(p, y, False)
        part(p, x, True, reason)
        case.tick()
    # A packet of more than a window later completes while an older one waits for its second part.
    (p, (px, py)), (q, (qx, qy)) = packets(e + 4, e + 68)
    part(p, px, False)
    part(q, qx, False)
    part(q, qy, True)
    case.tick()
    part(p, py, True, {"esp-replay", "esp-auth"})
    return case


def congestion():
    """A congestion mark on one part marks the whole packet of ESP and the packet inside (RFC 3168, 5.3; RFC 6040)."""
    sa, rules = tunnel(1)
    case = Case("esp-fragments-ecn", [sa], rules)
    rng = random.Random(6)
    for ident, (inside, marks, want) in enumerate((
            (2, (2, 2, 2), 2), (2, (2, 3, 2), 3), (2, (3, 2, 2), 3), (1, (2, 2, 3), 3), (0, (0, 0, 0), 0),
            (3, (2, 2, 2), 3),
            (0, (2, 3, 2), None)), 1):
        p = wire.udp(R4, L4, 1, 2, data(rng, 1300), tos=46 << 2 | inside)
        parts = [wire.forwarded(x, 0, mark) for x, mark in zip(wire.fragments(sa.from_peer(p), 496, ident), marks)]
        for x in parts[:2]:
            case.send(WAN, x, {"held", "local"}, Together(nothing), note=f"inner {inside}, outer {marks}")
        if want is None:
            case.drop(WAN, parts[2], "esp-ecn", note=f"inner {inside}, outer {marks}")
        else:
            case.decrypt(parts[2], p, tos=46 << 2 | want, note=f"inner {inside}, outer {marks}")
        case.tick()
    return case


def large(six):
    """Datagrams of up to 65,000 octets in fragments of ESP. Decrypted IPv4 packets leave in fragments."""
    sa, rules = tunnel(1, six=six, algorithm="aes256-sha512" if six else "aes128gcm16")
    case = Case(f"esp-fragments-large-{6 if six else 4}", [sa], rules)
    rng = random.Random(7)
    for ident, size in enumerate((1500, 8000, 9300, 16384, 40000, 65000), 1):
        p = wire.udp(R4, L4, 1, 2, data(rng, size), ident=ident)
        parts = wire.fragments(sa.from_peer(p), 1400, ident)

        def whole(c, frames, want=wire.forwarded(p)):
            if any(interface != LAN or len(packet) > 1500 for interface, packet in frames):
                return "a packet left by another interface, or is too long"
            back = wire.reassemble([packet for _, packet in frames])
            return None if back == want else f"{len(frames)} packets are not the datagram"
        for x in parts[:-1]:
            case.send(WAN, x, {"held", "local"}, Together(nothing), note=f"{size} octets")
        case.send(WAN, parts[-1], "forward", Together(whole), note=f"{size} octets, last part")
        case.tick(0.01)
        p = wire.udp(R6, L6, 1, 2, data(rng, size))
        parts = wire.fragments(sa.from_peer(p), 1400, 100 + ident)
        for x in parts[:-1]:
            case.send(WAN, x, {"held", "local"}, Together(nothing), note=f"{size} octets, IPv6")
        # The error to the far host matches no rule: its source is the gateway.
        case.drop(WAN, parts[-1], "mtu-exceeded", note=f"{size} octets, IPv6, last part")
        case.tick(0.01)
    return case


def cases():
    for six in (False, True):
        yield lambda s=six: inner(s)
        yield lambda s=six: with_ports(s)
        yield lambda s=six: held(s)
    yield borrowed
    yield lambda: rollover(False)
    yield lambda: rollover(True)
    yield congestion
    yield lambda: large(False)
    yield lambda: large(True)
