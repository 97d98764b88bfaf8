"""Every algorithm, mode, family, ESN and UDP encapsulation, in both directions; lengths; many tunnels in one vector."""
import random

import esp
import wire
from case import LAN, WAN, Case, Esp
from sa import Sa

L4, L6, W4, W6 = "10.0.0.9", "2001:db8:a::9", "198.51.100.1", "2001:db8:1::1"


def peer(six, i):
    return f"2001:db8:ffff::{i:x}" if six else f"203.0.113.{i}"


def tunnel_nets(i):
    return f"192.168.{i}.0/24", f"2001:db8:b:{i:x}::/64"


def tunnel_hosts(i):
    return f"192.168.{i}.9", f"2001:db8:b:{i:x}::9"


def tunnel(i, name=None, six=False, **k):
    """An SA of tunnel number i, and its rules."""
    name = name or f"t{i}"
    sa = Sa(name, local=W6 if six else W4, remote=peer(six, i), **k)
    n4, n6 = tunnel_nets(i)
    return sa, [f"protect ip4 from 10.0.0.0/8 to {n4} sa {name}", f"protect ip6 from 2001:db8:a::/48 to {n6} sa {name}"]


def transport(i, six=False, **k):
    name = f"x{i}"
    sa = Sa(name, mode="transport", local=W6 if six else W4, remote=peer(six, i), **k)
    return sa, [f"protect ip from {sa.local} to {sa.remote} sa {name}"]


def data(rng, n):
    return rng.randbytes(n)


def echo_reply(request):
    """Checks the reply to an echo request, whatever identification and TOS it has."""
    q = wire.Ip(request)

    def check(inner):
        p = wire.Ip(inner)
        if (p.src, p.dst) != (q.dst, q.src):
            return f"reply {p.src} > {p.dst}"
        if p.ttl != 64:
            return f"reply with TTL {p.ttl}"
        want = wire.Ip(wire.echo(q.dst, q.src, int.from_bytes(q.payload[4:6], "big"),
                                 int.from_bytes(q.payload[6:8], "big"),
                                 q.payload[8:], reply=True)).payload
        if p.payload != want:
            return f"reply {p.payload[:40].hex()} instead of {want[:40].hex()}"
        return None
    return check


def ping(case, sa, n, rng, note="", seq=None, interface=WAN):
    """An encrypted ping in transport mode, and its encrypted answer."""
    q = wire.echo(sa.remote, sa.local, 7, n & 0xffff, data(rng, n))
    case.send(interface, sa.from_peer(q, seq), "local", [Esp(sa, echo_reply(q), interface=interface)], note=note)


def both_ways(case, sa, i, lengths, rng, note):
    """Packets of both families through a tunnel."""
    r4, r6 = tunnel_hosts(i)
    for n in lengths:
        case.protect(wire.udp(L4, r4, 1000 + n, 53, data(rng, n)), sa, note=f"{note} 4 out {n}")
        case.protect(wire.udp(L6, r6, 1000 + n, 53, data(rng, n)), sa, note=f"{note} 6 out {n}")
        for inner in (wire.udp(r4, L4, 53, 1000 + n, data(rng, n)), wire.udp(r6, L6, 53, 1000 + n, data(rng, n))):
            case.decrypt(sa.from_peer(inner), inner, note=f"{note} {inner[0] >> 4} in {n}")


def all_of(name):
    """One algorithm: mode × outer family × ESN × UDP encapsulation."""
    rng = random.Random("all " + name)
    sas, rules, plan = [], [], []
    for i, (six, esn, udp) in enumerate([(s, e, u) for s in (False, True) for e in (False, True)
                                         for u in (False, True)], 1):
        encap = (4500, 4500 if i % 4 else 40000 + i) if udp else None
        text = f"{'6' if six else '4'}{' esn' if esn else ''}{' udp' if udp else ''}"
        for make, number, mode in ((tunnel, i, "tunnel"), (transport, 100 + i, "transport")):
            sa, own = make(number, six=six, algorithm=name, esn=esn, encap=encap)
            sas.append(sa)
            rules += own
            plan.append((mode, number, sa, f"{mode} {text}"))
    case = Case(f"alg-{name}", sas, rules, insecure=name == "null")
    for mode, i, sa, note in plan:
        if mode == "tunnel":
            both_ways(case, sa, i, [0, 1, 2, 3] + [rng.randrange(4, 1200) for _ in range(3)], rng, note)
            continue
        for n in (0, 1, 2, 3, 17, rng.randrange(100, 1300)):
            ping(case, sa, n, rng, f"{note} ping {n}")
        case.tick()
        for n in (0, 5, 700):
            case.protect(wire.udp(sa.local, sa.remote, 5000, 53, data(rng, n)), sa, note=f"{note} out {n}")
            case.protect(wire.ip(sa.local, sa.remote, 6, wire.tcp_part(sa.local, sa.remote, 179, 4000, data(rng, n))),
                         sa,
                         note=f"{note} tcp out {n}")
        case.tick()
    return case


def lengths(name, six):
    """All lengths to 300 octets, and some of each residue of 64 up to 1400."""
    rng = random.Random("lengths " + name)
    sa, rules = tunnel(1, six=six, algorithm=name)
    x, more = transport(101, six=six, algorithm=name)
    case = Case(f"lengths-{name}-{6 if six else 4}", [sa, x], rules + more, mtu=1600, lan_mtu=1600)
    r4, r6 = tunnel_hosts(1)
    for n in (*range(300), *range(300, 1401, 7)):
        case.protect(wire.udp(L4, r4, 1000, 53, data(rng, n)), sa, note=f"out {n}")
        inner = wire.udp(r6, L6, 53, 1000, data(rng, n)) if n % 3 == 0 else wire.udp(r4, L4, 53, 1000, data(rng, n))
        case.decrypt(sa.from_peer(inner), inner, note=f"in {n}")
        if n % 5 == 0:
            ping(case, x, n, rng, f"ping {n}")
    return case


def mixed_engines():
    """All algorithms with integrity in the packets of one vector, both directions."""
    rng = random.Random(5)
    names = esp.WITH_INTEGRITY
    made = [tunnel(i, algorithm=n, esn=i % 2 == 0, six=i % 3 == 0) for i, n in enumerate(names, 1)]
    case = Case("mixed-algorithms", [s for s, _ in made], [r for _, own in made for r in own])
    for turn in range(8):
        for i, (sa, _) in enumerate(made, 1):
            n = rng.randrange(1300)
            case.protect(wire.udp(L4, tunnel_hosts(i)[0], 1000, 53, data(rng, n)), sa, note=f"{sa.a.name} out")
        for i, (sa, _) in enumerate(made, 1):
            inner = wire.udp(tunnel_hosts(i)[0], L4, 53, 1000, data(rng, rng.randrange(1300)))
            if turn == 3:  # every other packet is forged: the others are not affected
                p = bytearray(sa.from_peer(inner))
                if i % 2:
                    p[-1] ^= 0x80
                    case.drop(WAN, bytes(p), "esp-auth", note=f"{sa.a.name} forged")
                    sa.sent -= 1
                else:
                    case.decrypt(bytes(p), inner, note=f"{sa.a.name} beside forged ones")
                continue
            case.decrypt(sa.from_peer(inner), inner, note=f"{sa.a.name} in")
    return case


def many_tunnels(count=100):
    rng = random.Random(6)
    made = [tunnel(i, algorithm=("aes128gcm16", "aes256gcm16", "chacha20poly1305", "aes128-sha256")[i % 4])
            for i in range(1, count + 1)]
    case = Case("100-tunnels", [s for s, _ in made], [r for _, own in made for r in own])
    case.step = 10
    for _ in range(10):
        for i, (sa, _) in enumerate(made, 1):
            case.protect(wire.udp(L4, tunnel_hosts(i)[0], 1000, 53, data(rng, 64)), sa, note=f"out {i}")
    case.tick()
    for _ in range(10):
        for i, (sa, _) in enumerate(made, 1):
            inner = wire.udp(tunnel_hosts(i)[0], L4, 53, 1000, data(rng, 64))
            case.decrypt(sa.from_peer(inner), inner, note=f"in {i}")
    return case


def asymmetric():
    """An SA with one direction only: the other drops. Two SAs to one peer."""
    a, rules = tunnel(1, spi_in=0)
    b, more = tunnel(2, spi_out=0)
    rng = random.Random(7)
    case = Case("one-direction", [a, b], rules + more)
    case.protect(wire.udp(L4, "192.168.1.9", 1, 2, data(rng, 30)), a)
    lonely = Sa("t1", remote=a.remote, spi_in=0x9999)
    case.drop(WAN, lonely.from_peer(wire.udp("192.168.1.9", L4, 1, 2, b"x" * 30)), "esp-no-sa", note="no inbound SA")
    case.drop(LAN, wire.udp(L4, "192.168.2.9", 1, 2, data(rng, 30)), "esp-no-outbound", note="no outbound SA", secret=True)
    inner = wire.udp("192.168.2.9", L4, 1, 2, data(rng, 30))
    case.decrypt(b.from_peer(inner), inner)
    return case


def engines_by_length():
    """AES-GCM at all lengths around blocks, each ICV and key length, in one vector of mixed lengths."""
    rng = random.Random(8)
    names = [n for n in esp.ALGORITHMS if "gcm" in n or "gmac" in n]
    made = [tunnel(i, algorithm=n, esn=i % 2 == 1) for i, n in enumerate(names, 1)]
    case = Case("gcm-mixed-lengths", [s for s, _ in made], [r for _, own in made for r in own])
    case.step = 50
    todo = [(i, n) for i in range(1, len(made) + 1) for n in list(range(0, 70)) + list(range(480, 530, 3))
            + [1000, 1399, 1400]]
    rng.shuffle(todo)
    for i, n in todo:
        sa = made[i - 1][0]
        case.protect(wire.udp(L4, tunnel_hosts(i)[0], 1000, 53, data(rng, n)), sa, note=f"{sa.a.name} out {n}")
        inner = wire.udp(tunnel_hosts(i)[0], L4, 53, 1000, data(rng, n))
        case.decrypt(sa.from_peer(inner), inner, note=f"{sa.a.name} in {n}")
    return case


def cases():
    for name in esp.ALGORITHMS:
        yield lambda name=name: all_of(name)
    for name, six in (("aes128gcm16", False), ("aes256gcm16", True), ("aes128gcm8", False), ("aes128-sha256", False),
                      ("aes256-sha1", True),
                      ("aes128ccm8", False), ("chacha20poly1305", False), ("aes128ctr-sha512", False),
                      ("aes128gmac", False),
                      ("null-sha384", True)):
        yield lambda name=name, six=six: lengths(name, six)
    yield mixed_engines
    yield many_tunnels
    yield asymmetric
    yield engines_by_length
