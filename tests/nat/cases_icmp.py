"""ICMP errors about packets of translations, outside and inside, either way, with quotes of any length; fragments; checksums."""
from case import DMZ, LAN, WAN, Case, Var, reply
from cases_source import A, B, HIGH, MASQUERADE, OUT, R, S
from packet import (ACK, DCCP, ESP, GRE, ICMP, SCTP, SYN, TCP, UDP, UDPLITE, Error, Packet, Part, echo, tcp, udp)

ROUTER, INNER = "203.0.113.77", "10.0.0.200"
SERVER = "10.0.0.8"
# A quote has at least eight octets behind the header (RFC 792). Ports are in the first four.
QUOTES = (28, 29, 32, 40, 60, None)
WHAT = ("udp", "tcp", "echo", "udplite", "dccp", "sctp", "gre")


def made(what, src, dst, a=4000, b=53, data=b"d" * 40):
    if what == "echo":
        return echo(src, dst, a, data=data)
    if what == "gre":
        return Packet(GRE, src, dst, data=b"\0\0\x08\0" + data)
    proto = {"udp": UDP, "tcp": TCP, "udplite": UDPLITE, "dccp": DCCP, "sctp": SCTP}[what]
    return Packet(proto, src, dst, a, b, data, flags=SYN)


def outside_error(what):
    """A router outside reports about a packet that a host inside sent (RFC 5508, REQ-4)."""
    c = Case(f"error-outside-{what}", [MASQUERADE])
    x = 4000 if what == "sctp" else Var("p", range(65536) if what == "echo" else HIGH)
    p, q = made(what, A, R), made(what, OUT, R, x)
    c.both(LAN, p, WAN, q)
    for length in QUOTES:
        for kind, code, rest in ((3, 3, 0), (3, 4, 1400), (11, 0, 0), (12, 0, 0x14000000), (3, 13, 0)):
            c.go(WAN, Error(ROUTER, OUT, q, length, kind, code, rest), LAN, Error(ROUTER, A, p, length, kind, code, rest))
    c.go(WAN, Error(R, OUT, q, None), LAN, Error(R, A, p, None), note="by the server itself")
    return c


def inside_error(what):
    """A router inside, or the host itself, reports about a reply. The error leaves with the outside address (RFC 5508, 4.2)."""
    c = Case(f"error-inside-{what}", [MASQUERADE])
    x = 4000 if what == "sctp" else Var("p", range(65536) if what == "echo" else HIGH)
    p, q = made(what, A, R), made(what, OUT, R, x)
    c.both(LAN, p, WAN, q)
    for length in QUOTES:
        for source in (A, INNER):
            for kind, code, rest in ((3, 1, 0), (3, 4, 1400), (11, 1, 0)):
                c.go(LAN, Error(source, R, reply(p), length, kind, code, rest), WAN,
                     Error(OUT, R, reply(q), length, kind, code, rest))
    c.go(DMZ, Error("10.1.0.9", R, reply(p)), WAN, Error(OUT, R, reply(q)), note="from another interface")
    return c


def forward_error():
    """Errors about connections from outside to a server inside, from both sides."""
    c = Case("error-forward", ["destination tcp from any to interface port 443 as 10.0.0.8 port 8443"])
    p, q = tcp(R, OUT, 5000, 443, data=b"d" * 40), tcp(R, SERVER, 5000, 8443, data=b"d" * 40)
    c.both(WAN, p, LAN, q)
    for length in QUOTES:
        for source in (SERVER, INNER):
            c.go(LAN, Error(source, R, q, length), WAN, Error(OUT, R, p, length), note="about a request")
        c.go(WAN, Error(ROUTER, OUT, reply(p), length, 11, 0), LAN, Error(ROUTER, SERVER, reply(q), length, 11, 0), note="about a response")
        c.go(WAN, Error(ROUTER, OUT, reply(p), length, 3, 4, 1280), LAN, Error(ROUTER, SERVER, reply(q), length, 3, 4, 1280))
    return c


def map_error():
    c = Case("error-map", ["map ip4 from 10.0.0.80 to any as 198.51.100.80"], own=["198.51.100.80/32"])
    p, q = udp("10.0.0.80", R, 7, 9, b"d" * 30), udp("198.51.100.80", R, 7, 9, b"d" * 30)
    c.both(LAN, p, WAN, q)
    for length in QUOTES:
        c.go(WAN, Error(ROUTER, "198.51.100.80", q, length), LAN, Error(ROUTER, "10.0.0.80", p, length))
        c.go(LAN, Error(INNER, R, reply(p), length), WAN, Error("198.51.100.80", R, reply(q), length))
    return c


def both_error():
    """Source and destination translated: errors from either side have both."""
    c = Case("error-both", ["both udp from any to 198.51.100.9 port 80 as source 10.0.0.1 port 3000 destination 10.0.0.9 port 8080"],
             own=["198.51.100.9/32"])
    p, q = udp(R, "198.51.100.9", 5000, 80, b"d" * 30), udp("10.0.0.1", "10.0.0.9", 3000, 8080, b"d" * 30)
    c.both(WAN, p, LAN, q)
    for length in QUOTES:
        c.go(LAN, Error("10.0.0.9", "10.0.0.1", q, length), WAN, Error("198.51.100.9", R, p, length))
        c.go(WAN, Error(ROUTER, "198.51.100.9", reply(p), length), LAN, Error("10.0.0.1", "10.0.0.9", reply(q), length),
             note="the client's side is the gateway's address inside")
    return c


def error_to_nobody():
    """Errors whose quote belongs to no translation, or that are corrupt (RFC 5508, REQ-3), reach no host inside."""
    c = Case("error-to-nobody", [MASQUERADE])
    x = Var("p", HIGH)
    p, q = udp(A, R, 4000, 53, b"d" * 30), udp(OUT, R, x, 53, b"d" * 30)
    c.both(LAN, p, WAN, q)
    for quoted, note in ((q.replace(dport=54), "another port"), (q.replace(dst=S), "another server"), (q.replace(proto=TCP), "another protocol"),
                         (reply(q).replace(src=R, dst=OUT), "the reply")):
        c.gone(Error(ROUTER, OUT, quoted), note)
    for k, note in (({"spoil": 1}, "its checksum"), ({"corrupt": 1}, "the quoted header's checksum")):
        c.gone(Error(ROUTER, OUT, q, **k), note)
        c.drop(LAN, Error(A, R, reply(p), **k), "nat-untranslated", note=note)
    for length in (20, 23, 19, 8, 0):
        c.gone(Error(ROUTER, OUT, q, length), f"a quote of {length}")
    c.drop(LAN, Error(A, R, udp(R, A, 53, 4001)), "nat-untranslated", note="inside, another port")
    c.drop(LAN, Error(A, S, reply(p)), "nat-untranslated", note="to another host than the quote's source")
    for kind in (4, 5):
        c.drop(LAN, Error(A, R, reply(p), kind=kind, code=0), "nat-untranslated", note="source quench, redirect")
    return c


def own_errors():
    """Errors of the gateway itself quote the packet as it came in."""
    c = Case("own-errors", [MASQUERADE], extra={WAN: "mtu = 1280\n"})
    p = udp(A, R, 4000, 53, b"d" * 1400, df=True)
    c.step(LAN, p, [(LAN, Check(lambda got: quote_fault(got, p.octets(), (3, 4))))], "drop", "mtu-exceeded")
    t = udp(A, R, 4001, 53, b"d" * 30, ttl=1)
    c.step(LAN, t, [(LAN, Check(lambda got: quote_fault(got, t.octets(), (11, 0))))], "drop", "ttl-expired")
    x = Var("p", HIGH)
    c.both(LAN, udp(A, R, 4002, 53), WAN, udp(OUT, R, x, 53))
    late = reply(udp(OUT, R, x, 53)).replace(ttl=1)
    c.step(WAN, late, [(WAN, Check(lambda got: quote_fault(got, late.octets(), (11, 0))))], "drop", "ttl-expired")
    return c


class Check:
    """A packet that passes a function: octets → fault or None."""

    def __init__(self, function):
        self.function, self.got = function, b""

    def bind(self, packet):
        self.got = packet
        return self.function(packet)

    def octets(self):
        return self.got

    def __str__(self):
        return "a packet"


def quote_fault(got, quoted, kind):
    from packet import sums, wire
    p = wire.Ip(got)
    if p.proto != ICMP or (p.payload[0], p.payload[1]) != kind:
        return f"is no ICMP {kind}"
    if fault := next(sums(got), None):
        return fault
    if p.dst != wire.Ip(quoted).src:
        return f"goes to {p.dst}"
    quote = p.payload[8:]
    if len(quote) < 28 or not quoted.startswith(quote):
        return f"quotes {quote[:40].hex()} instead of {quoted[:40].hex()}"
    return None


def echo_errors():
    """Errors about echo requests and replies; the identifier in the quote is translated."""
    c = Case("error-echo-forward", ["map ip4 from 10.0.0.80 to any as 198.51.100.80"], own=["198.51.100.80/32"])
    p, q = echo(R, "198.51.100.80", 5), echo(R, "10.0.0.80", 5)
    c.both(WAN, p, LAN, q)
    c.go(LAN, Error("10.0.0.80", R, q), WAN, Error("198.51.100.80", R, p))
    return c


# Fragments

def fragments(order, name):
    c = Case(f"fragments-{name}", [MASQUERADE])
    x = Var("p", HIGH)
    p, q = udp(A, R, 4000, 53, bytes(range(256)) * 3), udp(OUT, R, x, 53, bytes(range(256)) * 3)
    for i in order:
        c.step(LAN, Part(p, 256, i), [(WAN, Part(q.replace(ttl=63), 256, i))])
    return c


def fragment_replies():
    """Fragments of a reply, in order and with the last one first, are put together right by their receiver."""
    c = Case("fragments-reply", [MASQUERADE])
    x = Var("p", HIGH)
    c.both(LAN, udp(A, R, 4000, 53), WAN, udp(OUT, R, x, 53))
    back, inside = udp(R, OUT, 53, x, b"q" * 600), udp(R, A, 53, 4000, b"q" * 600)
    for i in range(3):
        c.go(WAN, Part(back, 256, i), LAN, Part(inside, 256, i))
    return c


def fragment_replies_of_sessions():
    """Lists behind a translation match later fragments by what their first fragment has there: sessions permit all of them."""
    lists = '[acl.from-lan]\ndefault = "deny"\nrules = ["permit+reflect ip4 from 10.0.0.0/24 to any"]\n[acl.to-lan]\ndefault = "deny"\n'
    c = Case("fragments-reply-stateful", [MASQUERADE], more=lists, extra={LAN: 'acl = { in = "from-lan", out = "to-lan" }\n'})
    x, y = Var("p", HIGH), Var("i")
    c.both(LAN, udp(A, R, 4000, 53), WAN, udp(OUT, R, x, 53))
    c.both(LAN, echo(A, R, 7), WAN, echo(OUT, R, y))
    for back, inside in ((udp(R, OUT, 53, x, b"q" * 600), udp(R, A, 53, 4000, b"q" * 600)),
                         (echo(R, OUT, y, True, data=b"q" * 600), echo(R, A, 7, True, data=b"q" * 600))):
        for i in range(3):
            c.go(WAN, Part(back, 256, i), LAN, Part(inside, 256, i))
    return c


def lost_first():
    c = Case("fragments-no-first", [MASQUERADE])
    p = udp(A, R, 4000, 53, b"q" * 600)
    for i in (1, 2):
        c.step(LAN, Part(p, 256, i), verdict="drop", reason="acl-fragment")
    c.wait(5)
    c.both(LAN, udp(A, R, 4001, 53), WAN, udp(OUT, R, Var("p", HIGH), 53))
    return c


def fragment_map():
    """Fragments of a map and of echo requests."""
    c = Case("fragments-map", ["map ip4 from 10.0.0.80 to any as 198.51.100.80"], own=["198.51.100.80/32"])
    for make in (lambda a: udp(a, R, 1, 2, b"z" * 600), lambda a: echo(a, R, 7, data=b"z" * 600), lambda a: tcp(a, R, 1, 2, ACK, b"z" * 600),
                 lambda a: Packet(GRE, a, R, data=b"z" * 600)):
        for i in range(3):
            c.go(LAN, Part(make("10.0.0.80"), 256, i), WAN, Part(make("198.51.100.80"), 256, i))
    return c


def cut_here():
    """The gateway cuts a translated packet to the next link's MTU."""
    c = Case("fragments-cut", ["source udp from any to any as interface preserve"], extra={WAN: "mtu = 1280\n"})
    from packet import wire
    p, q = udp(A, R, 4000, 53, b"k" * 1400), udp(OUT, R, 4000, 53, b"k" * 1400, ttl=63)

    def whole(frames):
        got = wire.reassemble([d for _, d in frames])
        return None if got == q.octets() and len(frames) > 1 else f"{len(frames)} fragments do not make the packet"
    c.step(LAN, p, answer=whole)
    return c


# Checksums

def checksums():
    """Every checksum is as right or as wrong as it came, and UDP without one stays without one."""
    c = Case("checksums", ["source ip4 from any to any as interface preserve"])
    for n, spoil in enumerate((0, 1, 0xff, 0x100, 0x7fff, 0xfffe)):
        for make in (lambda a, port: udp(a, R, port, 53, b"x" * 9, spoil=spoil), lambda a, port: tcp(a, R, port, 80, ACK, b"x" * 9, spoil=spoil),
                     lambda a, port: echo(a, R, port, spoil=spoil), lambda a, port: Packet(DCCP, a, R, port, 53, b"x", spoil=spoil),
                     lambda a, port: Packet(UDPLITE, a, R, port, 53, b"x", spoil=spoil)):
            c.go(LAN, make(A, 4000 + n), WAN, make(OUT, 4000 + n))
    c.both(LAN, udp(A, R, 4100, 53, check=False), WAN, udp(OUT, R, 4100, 53, check=False), note="UDP without a checksum")
    # Sums that become 0: UDP has 0xffff then.
    for n in range(300):
        data = bytes([n // 256, n % 256])
        c.go(LAN, udp(A, R, 5000, 53, data), WAN, udp(OUT, R, 5000, 53, data))
    return c


def zero_sum():
    """Data for which the translated checksum of UDP is 0xffff, as 0 means none (RFC 768)."""
    import struct
    from packet import wire
    c = Case("checksum-zero", ["source ip4 from any to any as interface preserve"])
    for port in range(6000, 6020):
        without = udp(OUT, R, port, 53, b"\0\0").octets()
        need = struct.unpack_from("!H", without, 26)[0]
        for data in (struct.pack("!H", need), struct.pack("!H", need ^ 1)):
            p, q = udp(A, R, port, 53, data), udp(OUT, R, port, 53, data)
            c.both(LAN, p, WAN, q)
    return c


def quoted_checksums():
    """The checksum in a quote stays as right or wrong as it was; UDP without one stays so."""
    c = Case("checksums-quoted", ["source ip4 from any to any as interface preserve"])
    for n, k in enumerate(({}, {"spoil": 1}, {"spoil": 0xfffe}, {"check": False})):
        p, q = udp(A, R, 4000 + n, 53, b"x" * 20, **k), udp(OUT, R, 4000 + n, 53, b"x" * 20, **k)
        c.both(LAN, p, WAN, q)
        for length in (None, 28, 27, 26):
            if length is None or length >= 28:
                c.go(WAN, Error(ROUTER, OUT, q, length), LAN, Error(ROUTER, A, p, length))
    return c


def clamp():
    """The MSS of translated segments with SYN is lowered in both directions; a smaller one, and other segments, stay."""
    c = Case("mss-number", ["keep tcp from any to 9.9.9.9", "source ip4 from any to any as interface preserve"], keys="mss-clamp = 1400\n")

    def seg(src, port, mss, flags=SYN, **k):
        return tcp(src, k.pop("dst", R), port, 80, flags, mss=mss, **k)
    for n, mss in enumerate((1460, 1401, 1400, 1399, 88, 65535, 0)):
        inside, outside = seg(A, 4000 + n, mss), seg(OUT, 4000 + n, min(mss, 1400))
        c.go(LAN, inside, WAN, outside)
        back = reply(outside).replace(mss=mss)
        c.go(WAN, back, LAN, reply(inside).replace(mss=min(mss, 1400)))
        c.go(LAN, seg(A, 4000 + n, mss, ACK), WAN, seg(OUT, 4000 + n, mss, ACK), note="without SYN")
    c.go(LAN, tcp(A, R, 4100, 80), WAN, tcp(OUT, R, 4100, 80), note="without the option")
    c.go(LAN, seg(A, 4200, 1460, dst=S), WAN, seg(A, 4200, 1460, dst=S), note="kept")
    c.go(LAN, seg(A, 4300, 1460, spoil=7), WAN, seg(OUT, 4300, 1400, spoil=7), note="a wrong checksum stays wrong")
    return c


def clamp_mtu():
    c = Case("mss-mtu", ["source ip4 from any to any as interface preserve", "source ip6 from any to any as interface preserve"],
             keys='mss-clamp = "mtu"\n', extra={WAN: "mtu = 1400\n", DMZ: "mtu = 1300\n"})
    for inside, source, six, mtu in ((LAN, A, "fd00:1::5", 1400), (DMZ, "10.1.0.5", "fd00:2::5", 1300)):
        port = 4000 + mtu
        for mss in (1460, 1300, 1200):
            p, q = tcp(source, R, port, 80, mss=mss), tcp(OUT, R, port, 80, mss=min(mss, mtu - 40))
            c.go(inside, p, WAN, q)
            c.go(WAN, reply(q).replace(mss=mss), inside, reply(p).replace(mss=min(mss, mtu - 40)))
            p, q = tcp(six, "2001:db8:9::1", port, 80, mss=mss), tcp("2001:db8:1::1", "2001:db8:9::1", port, 80, mss=min(mss, mtu - 60))
            c.go(inside, p, WAN, q)
            c.go(WAN, reply(q).replace(mss=mss), inside, reply(p).replace(mss=min(mss, mtu - 60)))
    return c


def truncated():
    """Packets that end before their ports or identifier open nothing."""
    c = Case("truncated", [MASQUERADE])
    from packet import Raw, wire
    for proto, data in ((UDP, b"\x0f\xa0"), (TCP, b"\x0f\xa0\0"), (ICMP, b"\x08\0\0\0"), (ICMP, b"\x08"), (SCTP, b"")):
        c.step(LAN, Raw(wire.ip4(A, R, proto, data)), verdict="drop", reason=("nat-untranslated", "acl-fragment"))
    return c


def cases():
    for what in WHAT:
        yield lambda what=what: outside_error(what)
        yield lambda what=what: inside_error(what)
    yield from (forward_error, map_error, both_error, error_to_nobody, own_errors, echo_errors)
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (3, 0, 1, 2)):
        yield lambda order=order: fragments(order, "".join(map(str, order)))
    yield from (fragment_replies, fragment_replies_of_sessions, lost_first, fragment_map, cut_here, checksums, zero_sum, quoted_checksums, clamp, clamp_mtu, truncated)
