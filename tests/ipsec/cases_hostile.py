"""Packets of an attacker or of a broken peer are dropped with the right reason, and good packets between them pass."""
import random
import struct

import esp
import wire
from case import WAN, Case, Esp, Together
from cases_alg import L4, L6, W4, W6, data, ping, transport, tunnel, tunnel_hosts
from sa import Sa

R4, R6 = tunnel_hosts(1)
BROKEN = {"esp-malformed", "esp-auth", "esp-no-sa"}
ALGORITHMS = ("aes128gcm16", "aes256-sha512", "chacha20poly1305", "aes128ccm8", "aes192gmac", "null-sha1",
              "aes256ctr-sha256")


def good(case, sa, rng, note="a good one beside them"):
    inner = wire.udp(R4, L4, 1, 2, data(rng, rng.randrange(200)))
    case.decrypt(sa.from_peer(inner), inner, note=note)


def truncated(algorithm, six, udp):
    """Every truncation of an ESP packet: with a correct IP length, and with the IP length of the whole."""
    sa, rules = tunnel(1, six=six, algorithm=algorithm, encap=(4500, 4500) if udp else None, window=4096)
    case = Case(f"truncated-{algorithm}-{6 if six else 4}{'-udp' if udp else ''}", [sa], rules)
    rng = random.Random(algorithm)
    inner = wire.udp(R4, L4, 1, 2, data(rng, 40))
    whole = sa.esp(inner, 4)
    for n in range(len(whole)):
        if udp and n < 4:
            continue  # keepalives and the non-ESP marker: cases_inbound
        reasons = BROKEN | {"esp-malformed"} if n >= 8 else None
        case.drop(WAN, sa.wrap(whole[:n]), reasons, note=f"{n} of {len(whole)} octets of ESP")
        if n % 16 == 0:
            good(case, sa, rng)
    packet = sa.wrap(whole)
    for n in range(1, len(packet)):
        if n < 20:
            continue
        case.drop(WAN, packet[:n], None, note=f"frame with {n} of {len(packet)} octets")
    for n in (1, 4, 15):  # octets behind the IP packet are Ethernet padding
        inner = wire.udp(R4, L4, 1, 2, data(rng, 9))
        case.decrypt(sa.from_peer(inner) + bytes(n), inner, note="Ethernet padding")
    return case


def trailers(algorithm):
    """Trailers that are wrong although the ICV is right."""
    sa, rules = tunnel(1, algorithm=algorithm)
    case = Case(f"trailer-{algorithm}", [sa], rules)
    rng = random.Random(algorithm)
    a = sa.a
    inner = wire.udp(R4, L4, 1, 2, data(rng, 31))

    def sealed(text):
        return sa.wrap(esp.seal_text(a, sa.key_in, sa.spi_in, sa.number(None), sa.esn, text))
    for size in (16, 32, 64):
        for pad in {size - 1, size, size + 1, 128, 254, 255}:
            text = data(rng, size - 2) + bytes([pad, 4])
            case.drop(WAN, sealed(text), "esp-malformed", note=f"pad length {pad} in {size} octets of text")
    good(case, sa, rng)
    # The padding takes everything: no inner packet is left.
    text = bytes(range(1, 15)) + bytes([14, 4])
    case.drop(WAN, sealed(text), {"esp-malformed", "esp-selector"}, note="padding only")
    # Wrong padding octets (RFC 4303, 2.4): zero, constant, from 0, one bit.
    short = len(inner) + 2
    n = -short % a.align or a.align
    n += 2 * a.align if n < 3 else 0
    right = bytes(range(1, n + 1))
    for wrong in (bytes(n), b"\xff" * n, bytes(range(n)), right[:-1] + bytes([right[-1] ^ 1]), bytes([2]) + right[1:]):
        case.drop(WAN, sealed(inner + wrong + bytes([n, 4])), "esp-malformed", note=f"padding {wrong.hex()}")
    good(case, sa, rng)
    # More padding than needed is allowed, up to 255 octets.
    for extra in (a.align, 4 * a.align, 15 * a.align):
        k = -short % a.align + extra
        if k <= 255:
            p = bytes(range(1, k + 1))
            case.decrypt(sa.from_peer(inner, pad=p), inner, note=f"{k} octets of padding")
    # Dummy packets (2.6), with any content.
    for body in (b"", b"\0" * 14, data(rng, 30), inner):
        case.drop(WAN, sa.from_peer(body or b"\0", next_header=59) if body else sa.wrap(sa.esp(b"", 59)), "esp-dummy",
                  note=f"next header 59, {len(body)} octets")
    # Next headers that are no IP version in tunnel mode, or the other one.
    for nh, body in ((41, inner), (4, wire.udp(R6, L6, 1, 2, data(rng, 20))), (17, inner[20:]), (6, inner), (0, inner),
                     (50, inner), (255, inner), (1, inner[20:])):
        case.drop(WAN, sa.from_peer(body, next_header=nh) if nh else sa.wrap(sa.esp(body, 0)), None,
                  note=f"next header {nh}")
    good(case, sa, rng)
    return case


def inner_broken():
    """Inner packets that are malformed or have martian addresses."""
    sa, _ = tunnel(1)
    rules = ["protect ip from any to any sa t1"]
    case = Case("inner-malformed", [sa], rules)

    def answer(c, frames):
        """An ICMP error may go back through the tunnel."""
        faults = (Esp(sa, None).wrong(c, *frame) for frame in frames)
        return next((fault for fault in faults if fault), None)
    rng = random.Random(11)
    p = wire.udp(R4, L4, 1, 2, data(rng, 40))
    q = wire.udp(R6, L6, 1, 2, data(rng, 40))
    bad_sum = bytes([p[0], p[1]]) + p[2:10] + bytes([p[10] ^ 1]) + p[11:]
    for note, body, nh in (
            ("empty", b"", 4), ("one octet", b"\x45", 4), ("19 octets", p[:19], 4),
            ("header only of a longer one", p[:20], 4),
            ("one octet short", p[:-1], 4), ("IPv6 one octet short", q[:-1], 41), ("39 octets of IPv6", q[:39], 41),
            ("checksum", bad_sum, 4),
            ("version 0", b"\x05" + p[1:], 4), ("version 15", b"\xf5" + p[1:], 4),
            ("header length 4", b"\x44" + p[1:], 4),
            ("header longer than packet", b"\x4f" + p[1:24], 4)):
        case.drop(WAN, sa.wrap(sa.esp(body, nh)), None, note=note)
        good(case, sa, rng)
    for src, dst in (("127.0.0.1", L4), ("0.0.0.0", L4), ("224.0.0.1", L4), ("255.255.255.255", L4), (R4, "127.0.0.1"),
                     (R4, "240.0.0.1"),
                     ("::1", L6), ("::", L6), ("ff02::1", L6), (R6, "::1"), ("::ffff:10.0.0.1", L6)):
        case.drop(WAN, sa.from_peer(wire.udp(src, dst, 1, 2, data(rng, 20))), None, note=f"{src} > {dst}")
    for src, dst in (("fe80::1", L6), (R6, "fe80::1"), (R4, "10.0.0.255"), ("fe80::1", "ff02::1"),
                     (R4, "255.255.255.255")):
        case.send(WAN, sa.from_peer(wire.udp(src, dst, 1, 2, data(rng, 20))), "drop", Together(answer),
                  note=f"not to be forwarded: {src} > {dst}")
    # Traffic flow confidentiality (RFC 4303, 2.7): octets behind the inner packet are no part of it.
    for n in (1, 7, 64, 500):
        inner = wire.udp(R4, L4, 1, 2, data(rng, 40))
        case.decrypt(sa.wrap(sa.esp(inner + data(rng, n), 4)), inner, note=f"TFC padding of {n}")
        inner = wire.udp(R6, L6, 1, 2, data(rng, 40))
        case.decrypt(sa.wrap(sa.esp(inner + data(rng, n), 41)), inner, note=f"IPv6 TFC padding of {n}")
    return case


def neighbor_discovery(interface):
    """Neighbour discovery out of a tunnel is not of the link, whatever its hop limit says (RFC 4861, 3.1 and 11.2): it
    gets no answer, and the gateway learns nothing from it."""
    sa, _ = tunnel(1, extra={"interface": '"east"'} if interface else {})
    case = Case("inner-neighbor-discovery" + ("-interface" if interface else ""), [sa],
                ["protect ip from any to any sa t1"],
                more='\n[[interface]]\nname = "east"\nport = "ipsec"\n' if interface else "")
    far, multicast = "2001:db8:1::fe", "ff02::1:ff00:1"
    link = b"\1\2\x66\x66\x66\x66\x66"  # the length of the option in 8 octets, and the address
    for kind, flags, src, dst, target, option in (
            (135, 0, far, W6, W6, b"\1" + link), (135, 0, far, multicast, W6, b"\1" + link),
            (135, 0, "::", multicast, W6, b""), (136, 0x60000000, far, W6, far, b"\2" + link),
            (136, 0x20000000, far, "ff02::1", W6, b"\2" + link)):
        part = wire.icmp_part(src, dst, kind, 0, flags, wire.addr(target) + option)
        # An interface without a link has no neighbours: there a message to all nodes is absorbed.
        case.send(WAN, sa.from_peer(wire.ip6(src, dst, 58, part, ttl=255)), {"drop", "local"} if interface else "drop",
                  note=f"type {kind}, {src} > {dst}")
    return case


def forged(algorithm, esn):
    """Any bit of an ESP packet changed."""
    sa, rules = tunnel(1, algorithm=algorithm, esn=esn, window=4096)
    case = Case(f"forged-{algorithm}{'-esn' if esn else ''}", [sa], rules)
    rng = random.Random(algorithm)
    inner = wire.udp(R4, L4, 1, 2, data(rng, 22))
    for at in range(len(sa.esp(inner, 4, 1))):
        body = bytearray(sa.esp(inner, 4, at + 1000))
        body[at] ^= 1 << rng.randrange(8)
        if at < 4:
            reason = "esp-no-sa"
        elif at < 8:
            reason = {"esp-auth", "esp-replay"}
        else:
            reason = "esp-auth"
        case.drop(WAN, sa.wrap(bytes(body)), reason, note=f"octet {at} changed")
        if at % 10 == 0:
            case.decrypt(sa.from_peer(inner, 500 + at), inner, note="good beside")
    other = Sa("t1", algorithm=algorithm, esn=esn, spi_in=sa.spi_in, key_seed="another key")
    case.drop(WAN, other.from_peer(inner, 5000), "esp-auth", note="another key")
    wrong_esn = Sa("t1", algorithm=algorithm, esn=not esn, spi_in=sa.spi_in)
    wrong_esn.key_in = sa.key_in
    case.drop(WAN, wrong_esn.from_peer(inner, 5001), "esp-auth", note="ESN the other way round")
    for _ in range(30):
        case.drop(WAN, sa.wrap(struct.pack("!II", sa.spi_in, 6000)
                               + rng.randbytes(rng.randrange(4) * 16 + sa.a.iv + 32 + sa.a.icv)), "esp-auth",
                  note="random octets")
    case.decrypt(sa.from_peer(inner, 999), inner, note="the window has not moved")
    return case


def wrong_sa():
    """Unknown and reserved SPIs, the wrong destination, the wrong outer family."""
    sa, rules = tunnel(1)
    six, more = tunnel(2, six=True)
    case = Case("wrong-sa", [sa, six], rules + more)
    rng = random.Random(12)
    inner = wire.udp(R4, L4, 1, 2, data(rng, 30))
    inner2 = wire.udp(tunnel_hosts(2)[0], L4, 1, 2, data(rng, 30))
    for spi in (0, 1, 2, 100, 255, 256, 0x7fffffff, 0xffffffff, sa.spi_in + 0x100, sa.spi_in ^ 0x80000000, sa.spi_out):
        body = esp.seal(sa.a, sa.key_in, spi, sa.number(None), False, inner, 4)
        case.drop(WAN, sa.wrap(body), "esp-no-sa", note=f"SPI {spi:#x}")
    # The SA of one local address is not that of another one (lan's address, reached by wan).
    case.drop(WAN, sa.from_peer(inner, dst="10.0.0.1"), {"esp-no-sa", "spd-no-match"},
              note="to another address of the gateway")
    body = sa.esp(inner, 4)
    case.drop(WAN, six.wrap(body), "esp-no-sa", note="the SPI of an IPv4 SA over IPv6")
    case.drop(WAN, sa.wrap(six.esp(inner2, 4)), "esp-no-sa", note="the SPI of an IPv6 SA over IPv4")
    # ESP that is not for the gateway is a packet like any other: no rule matches it.
    case.drop(WAN, sa.from_peer(inner, dst="10.0.0.77"), "spd-no-match", note="ESP in transit")
    # RFC 4301, 4.1: a unicast SA is found by its SPI and destination; another outer source is still this SA's packet.
    case.send(WAN, sa.from_peer(inner, src="203.0.113.77"), {"forward", "drop"}, Together(lambda c, f: None),
              note="another outer source (open)")
    case.decrypt(sa.from_peer(inner), inner)
    case.decrypt(six.from_peer(inner2), inner2)
    return case


def selectors():
    """A decrypted packet has to match a rule that names its SA (RFC 4301, 5.2, step 4)."""
    a, _ = tunnel(1)
    b, _ = tunnel(2)
    x, _ = transport(101)
    rules = [
        "protect tcp from 10.0.0.0/24 port 443 to 192.168.1.0/24 sa t1",
        "protect udp from 10.0.0.0/24 to 192.168.1.8-192.168.1.11 port 1000-2000 sa t1",
        "protect icmp from 10.0.0.0/24 to 192.168.1.0/24 type echo-request sa t1",
        "protect ip from any to 192.168.2.0/24 sa t2",
        "protect ip6 from 2001:db8:a::/48 to 2001:db8:b:2::/64 sa t2",
        f"protect icmp from {W4} to 203.0.113.101 sa x101",
        "bypass ip from 10.0.0.0/24 to 192.168.3.0/24",
        "discard ip from 10.0.0.0/24 to 192.168.4.0/24",
    ]
    case = Case("selectors", [a, b, x], rules)
    rng = random.Random(13)

    def tcp(src, dst, s, d):
        return wire.ip(src, dst, 6, wire.tcp_part(src, dst, s, d, data(rng, 20)))

    def udp(src, dst, s, d):
        return wire.udp(src, dst, s, d, data(rng, 20))
    for note, sa, inner, fits in (
            ("tcp from its port", a, tcp(R4, L4, 5000, 443), True),
            ("tcp of another port", a, tcp(R4, L4, 443, 5000), False),
            ("tcp from the wrong net", a, tcp("192.168.2.9", L4, 5000, 443), False),
            ("tcp to the wrong net", a, tcp(R4, "10.0.1.9", 5000, 443), False),
            ("addresses not swapped", a, tcp(L4, R4, 5000, 443), False),
            ("udp low edge", a, udp("192.168.1.8", L4, 1000, 7), True),
            ("udp high edge", a, udp("192.168.1.11", L4, 2000, 7), True),
            ("udp address below", a, udp("192.168.1.7", L4, 1000, 7), False),
            ("udp address above", a, udp("192.168.1.12", L4, 1000, 7), False),
            ("udp port below", a, udp("192.168.1.8", L4, 999, 7), False),
            ("udp port above", a, udp("192.168.1.8", L4, 2001, 7), False),
            ("udp ports not swapped", a, udp("192.168.1.8", L4, 7, 1500), False),
            ("echo request", a, wire.echo(R4, L4, 1, 1, data(rng, 20)), True),
            ("echo reply", a, wire.echo(R4, L4, 1, 1, data(rng, 20), reply=True), False),
            ("another protocol", a, wire.ip4(R4, L4, 47, data(rng, 20)), False),
            ("of the other SA", b, tcp(R4, L4, 5000, 443), False),
            ("of the other SA", a, udp("192.168.2.9", L4, 1, 2), False),
            ("any", b, wire.ip4("192.168.2.9", L4, 99, data(rng, 20)), True),
            ("IPv6", b, udp("2001:db8:b:2::9", L6, 1, 2), True),
            ("IPv6 from elsewhere", b, udp("2001:db8:b:3::9", L6, 1, 2), False),
            ("covered by BYPASS only", b, udp("192.168.3.9", L4, 1, 2), False),
            ("covered by DISCARD only", b, udp("192.168.4.9", L4, 1, 2), False),
            ("covered by nothing", b, udp("192.168.5.9", L4, 1, 2), False)):
        p = sa.from_peer(inner)
        if fits:
            case.decrypt(p, inner, note=note)
        else:
            case.drop(WAN, p, "esp-selector", note=note)
    # A later fragment has no ports: a rule with ports does not match it (RFC 4301, 4.4.1.1: OPAQUE).
    case.send(WAN, a.from_peer(wire.ip4("192.168.1.9", L4, 17, data(rng, 40), offset=1480, ident=4)), {"drop", "held"},
              note="later fragment")
    # Transport mode: selectors apply to the packet with the outer addresses.
    ping(case, x, 30, rng, "ping in transport mode")
    q = wire.udp(x.remote, W4, 1, 2, data(rng, 20))
    case.drop(WAN, x.from_peer(q), "esp-selector", note="transport: UDP where ICMP is the selector")
    # A tunnel packet in a transport SA, and the reverse.
    case.drop(WAN, wire.ip4(x.remote, W4, 50, x.esp(udp(R4, L4, 1, 2), 4)), None,
              note="a whole packet in a transport SA")
    return case


def sums():
    """Outer checksums: a wrong IPv4 header checksum is dropped before ESP; the UDP checksum may be zero or right."""
    sa, rules = tunnel(1, encap=(4500, 4500))
    case = Case("udp-checksums", [sa], rules)
    rng = random.Random(14)
    for check in (False, True):
        inner = wire.udp(R4, L4, 1, 2, data(rng, 40))
        p = wire.ip4(sa.remote, sa.local, 17, wire.udp_part(sa.remote, sa.local, 4500, 4500, sa.esp(inner, 4), check))
        case.decrypt(p, inner, note=f"UDP checksum {'right' if check else 'zero'}")
    inner = wire.udp(R4, L4, 1, 2, data(rng, 40))
    p = bytearray(sa.from_peer(inner))
    p[10] ^= 1
    case.drop(WAN, bytes(p), None, note="IPv4 header checksum")
    case.decrypt(sa.from_peer(inner), inner)
    return case


def cases():
    for a in ALGORITHMS:
        yield lambda a=a: truncated(a, False, False)
        yield lambda a=a: trailers(a)
        yield lambda a=a: forged(a, False)
        yield lambda a=a: forged(a, True)
    yield lambda: truncated("aes128gcm16", True, False)
    yield lambda: truncated("aes128gcm16", False, True)
    yield lambda: truncated("aes128-sha256", True, True)
    yield inner_broken
    yield lambda: neighbor_discovery(False)
    yield lambda: neighbor_discovery(True)
    yield wrong_sa
    yield selectors
    yield sums
