"""Packets that do not fit with the overhead: ICMP with the right MTU, or fragments before encryption."""
import random

import wire
from case import LAN, WAN, Case, Clear, Esp, Together, icmp_error
from cases_alg import L4, L6, data, echo_reply, transport, tunnel, tunnel_hosts


def pieces(sa, whole, mtu):
    """The packets that left are ESP, none longer than the MTU; the inner fragments make up `whole`."""
    def check(case, frames):
        inner = []
        if len(frames) < 2:
            return f"{len(frames)} packets left instead of fragments"
        for interface, packet in frames:
            if len(packet) > mtu:
                return f"a packet of {len(packet)} octets, MTU {mtu}"
            fault = Esp(sa, lambda p: inner.append(p)).wrong(case, interface, packet)
            if fault:
                return fault
        back = wire.reassemble(inner)
        if back is None:
            return "the inner packets are no whole datagram: " + ", ".join(f"{wire.Ip(p).offset}+{len(p)}"
                                                                           for p in inner)
        return Clear(WAN, whole).wrong(case, WAN, back)
    return check


def outer_fragments(sa, inner, mtu=1500):
    """The packets that left are fragments of one packet of ESP around `inner`."""
    def check(case, frames):
        packets = [packet for _, packet in frames]
        if len(packets) < 2 or any(interface != WAN or len(packet) > mtu for interface, packet in frames):
            return f"left: {[(interface, len(packet)) for interface, packet in frames]}"
        whole = wire.reassemble(packets)
        if whole is None:
            return "no fragments of one packet: " + ", ".join(p[:40].hex() for p in packets[:2])
        return Esp(sa, inner).wrong(case, WAN, whole)
    return check


def mtu(algorithm, six, udp, link=1500):
    """IPv6 packets of up to 1280 octets always pass: if there is less room, ESP is fragmented (RFC 2473, 7.1)."""
    rng = random.Random(f"{algorithm}{six}{udp}")
    sa, rules = tunnel(1, six=six, algorithm=algorithm, encap=(4500, 4500) if udp else None)
    case = Case(f"mtu-{algorithm}-{6 if six else 4}{'-udp' if udp else ''}-{link}", [sa], rules, mtu=link, lan_mtu=9000)
    r4, r6 = tunnel_hosts(1)
    most = sa.longest(link)
    assert sa.header() + sa.a.esp_length(most) <= link < sa.header() + sa.a.esp_length(most + 1)
    for n in (most - 1, most):
        case.protect(wire.udp(L4, r4, 1, 2, data(rng, n - 28), df=True), sa, note=f"DF {n} fits")
        case.protect(wire.udp(L4, r4, 1, 2, data(rng, n - 28), ident=3), sa, note=f"{n} fits")
        case.protect(wire.udp(L6, r6, 1, 2, data(rng, n - 48)), sa, note=f"IPv6 {n} fits")
    case.tick()
    for n in (most + 1, most + 2, link, link + 1, max(3000, link + 2)):
        case.drop(LAN, wire.udp(L4, r4, 1, 2, data(rng, n - 28), df=True), "mtu-exceeded",
                  [icmp_error(LAN, 3, 4, mtu=most, dst=L4)], note=f"DF {n}", secret=True)
        p = wire.udp(L6, r6, 1, 2, data(rng, n - 48))
        if n > 1280:
            case.drop(LAN, p, "mtu-exceeded", [icmp_error(LAN, 2, 0, mtu=max(most, 1280), dst=L6)], note=f"IPv6 {n}",
                      secret=True)
        else:
            case.send(LAN, p, "forward", Together(outer_fragments(sa, wire.forwarded(p), link)), note=f"IPv6 {n}",
                      secret=True)
        case.tick()
        p = wire.udp(L4, r4, 1, 2, data(rng, n - 28), ident=n)
        case.send(LAN, p, "forward", Together(pieces(sa, wire.forwarded(p), link)), note=f"no DF {n}", secret=True)
        case.tick()
    case.drop(LAN, wire.udp(L4, r4, 1, 2, data(rng, 5000), df=True, ttl=1), "ttl-expired",
              [icmp_error(LAN, 11, 0, dst=L4)], note="TTL before MTU", secret=True)
    return case


def mtu_fragment_of_fragment():
    """A fragment that is too long itself is cut once more; the pieces with the others make up the datagram."""
    rng = random.Random(3)
    sa, rules = tunnel(1)
    case = Case("mtu-fragment-again", [sa], rules, mtu=1280, lan_mtu=9000)
    r4, _ = tunnel_hosts(1)
    whole = wire.udp(L4, r4, 1, 2, data(rng, 5900), ident=77)
    got = []

    def last(final):
        def check(c, frames):
            for interface, packet in frames:
                if len(packet) > 1280:
                    return f"{len(packet)} octets, MTU 1280"
                fault = Esp(sa, lambda p: got.append(p)).wrong(c, interface, packet)
                if fault:
                    return fault
            if final and wire.reassemble(got) != wire.forwarded(whole):
                return "the pieces are not the datagram"
            return None
        return check
    parts = wire.fragments(whole, 2960)
    for i, p in enumerate(parts):
        case.send(LAN, p, "forward", Together(last(i == len(parts) - 1)), note=f"fragment {i}", secret=True)
        case.tick()
    return case


def mtu_transport():
    """Transport mode never encrypts fragments (RFC 4303, 3.3.4): packets of ESP are fragmented behind encryption."""
    rng = random.Random(4)
    made = [transport(101), transport(102, six=True)]
    case = Case("mtu-transport", [s for s, _ in made], [r for _, own in made for r in own], lan_mtu=9000)
    case.gaps = True

    for sa, _ in made:
        most = sa.a.overhead_fits(1500 - sa.header()) + sa.header()  # the IP packet before ESP
        for n in (most, most - 1):
            case.protect(wire.udp(sa.local, sa.remote, 1, 2, data(rng, n - (48 if sa.six else 28)), df=True), sa,
                         note=f"{n} fits")
        for n in (most + 1, 1500, 2000):
            p = wire.udp(sa.local, sa.remote, 1, 2, data(rng, n - (48 if sa.six else 28)), df=True)
            # The source is the gateway itself here, so the error has no host to go to.
            case.send(LAN, p, "drop", Together(lambda c, f: None), "mtu-exceeded", note=f"{n} DF", secret=True)
        q = wire.echo(sa.remote, sa.local, 1, 2, data(rng, 1450))
        first, rest = wire.fragments(sa.from_peer(q), 1000, 7)
        case.send(WAN, first, {"held", "local"}, note="a long ping in fragments")
        case.send(WAN, rest, "local", Together(outer_fragments(sa, echo_reply(q))), note="reply longer than the MTU",
                  secret=q[-12:])
    # Fragments are neither encrypted in transport mode nor leave in clear.
    for sa, _ in made:
        whole = wire.udp(sa.local, sa.remote, 1, 2, data(rng, 1200), ident=9)
        for p in wire.fragments(whole, 608):
            case.drop(LAN, p, "esp-transport", note="fragment to a transport SA", secret=True)
    return case


def cases():
    for algorithm in ("aes128gcm16", "aes256-sha512", "aes128-sha1", "aes128ccm8", "chacha20poly1305", "null-sha256",
                      "aes192ctr-sha384"):
        for six in (False, True):
            for udp in (False, True):
                yield lambda a=algorithm, s=six, u=udp: mtu(a, s, u)
    for link in (1280, 1499, 1501, 8999):
        yield lambda link=link: mtu("aes128gcm16", False, False, link)
        yield lambda link=link: mtu("aes256-sha256", True, True, link)
    yield mtu_fragment_of_fragment
    yield mtu_transport
