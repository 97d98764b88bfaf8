"""Packets with fields that may be unknown until weir chose them, their octets, and ICMP errors about them."""
import os
import struct
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ipsec"))
import wire  # noqa: E402

TCP, UDP, ICMP, ICMP6, GRE, ESP, DCCP, SCTP, UDPLITE = 6, 17, 1, 58, 47, 50, 33, 132, 136
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
PORTS = (TCP, UDP, DCCP, SCTP, UDPLITE)
# Types of ICMP that have a reply, with its type.
REQUESTS = {8: 0, 13: 14, 15: 16, 17: 18}


class Unbound(Exception):
    """The value of a variable is not known yet."""


class Var:
    """An address, port or identifier that weir chooses. The first packet that has it binds it."""

    def __init__(self, name="?", allowed=None):
        self.name, self.allowed, self.value = name, allowed, None

    def bind(self, value):
        """Binds the variable; returns the fault if the value is none of those allowed."""
        self.value = value
        if self.allowed is not None and value not in self.allowed:
            return f"{self.name} is {value}, which is not in {self.allowed}"
        return None

    def __str__(self):
        return f"{self.name}={self.value}"


def value(x):
    """Returns the value of a field; raises `Unbound` for a variable without one."""
    if isinstance(x, Var):
        if x.value is None:
            raise Unbound(x.name)
        return x.value
    return x


class Packet:
    """An IP packet. `sport` is the identifier of an ICMP query, whose type is `kind`. `spoil` is added to the checksum of
    the transport header; `check` false leaves it out (UDP). `cut` is the length to which the packet is shortened."""

    def __init__(self, proto, src, dst, sport=0, dport=0, data=b"", flags=ACK, kind=8, code=0, mss=None, seq=1,
                 check=True, spoil=0, ttl=64, cut=None, rest=0, **ip):
        self.proto, self.src, self.dst, self.sport, self.dport, self.data = proto, src, dst, sport, dport, data
        self.flags, self.kind, self.code, self.mss, self.seq, self.check = flags, kind, code, mss, seq, check
        self.spoil, self.ttl, self.cut, self.rest, self.ip = spoil, ttl, cut, rest, ip

    def replace(self, **changes):
        """Returns a copy with other fields."""
        p = Packet.__new__(type(self))
        p.__dict__.update(self.__dict__)
        p.__dict__.update(changes)
        return p

    def payload(self):
        src, dst = value(self.src), value(self.dst)
        a, b, data = value(self.sport), value(self.dport), self.data
        if self.proto in (ICMP, ICMP6):
            h = struct.pack("!BBHHH", self.kind, self.code, 0, a, self.seq)
            at, over = 2, h + data
            pseudo = wire.pseudo(wire.addr(src), wire.addr(dst), 58, len(over)) if self.proto == ICMP6 else b""
        elif self.proto == UDP:
            h = struct.pack("!HHHH", a, b, 8 + len(data), 0)
            at, over = 6, h + data
            pseudo = wire.pseudo(wire.addr(src), wire.addr(dst), UDP, len(over))
        elif self.proto == UDPLITE:  # RFC 3828: the checksum covers the header alone
            h = struct.pack("!HHHH", a, b, 8, 0)
            at, over = 6, h
            pseudo = wire.pseudo(wire.addr(src), wire.addr(dst), UDPLITE, len(h) + len(data))
        elif self.proto == TCP:
            options = struct.pack("!BBH", 2, 4, self.mss) if self.mss is not None else b""
            h = struct.pack("!HHIIBBHHH", a, b, self.seq, 1, 0x50 + len(options) * 4, self.flags, 4096, 0, 0) + options
            at, over = 16, h + data
            pseudo = wire.pseudo(wire.addr(src), wire.addr(dst), TCP, len(over))
        elif self.proto == DCCP:  # RFC 4340, 5.1: a DCCP-Data packet with short sequence numbers
            h = struct.pack("!HHBBHI", a, b, 3, 0, 0, 2 << 25)
            at, over = 6, h + data
            pseudo = wire.pseudo(wire.addr(src), wire.addr(dst), DCCP, len(over))
        elif self.proto == SCTP:
            return struct.pack("!HHII", a, b, 7, 0x12345678) + data
        else:
            return data
        if not self.check:
            return h + data
        c = wire.checksum(pseudo + over)
        if self.proto in (UDP, UDPLITE):
            c = c or 0xffff
        if self.spoil:
            c = spoiled(c, self.spoil)
        return h[:at] + struct.pack("!H", c) + h[at + 2:] + data

    def octets(self):
        p = wire.ip(value(self.src), value(self.dst), self.proto, self.payload(), ttl=self.ttl, **self.ip)
        return p if self.cut is None else p[:self.cut]

    def bind(self, packet):
        """Binds unknown fields from a packet that left; returns the fault or None."""
        got = wire.Ip(packet, skip=True)
        if got.proto != self.proto:
            return f"protocol {got.proto} instead of {self.proto}"
        if self.proto in PORTS:
            a, b = struct.unpack_from("!HH", got.payload)
        elif self.proto in (ICMP, ICMP6):
            a, b = struct.unpack_from("!H", got.payload, 4)[0], 0
        else:
            a = b = 0
        for want, have in ((self.src, got.src), (self.dst, got.dst), (self.sport, a), (self.dport, b)):
            if isinstance(want, Var) and want.value is None:
                if fault := want.bind(have):
                    return fault
        return None

    def fields(self):
        """Returns protocol, source, destination and ports; those of an ICMP query are its identifier and type."""
        return (self.proto, value(self.src), value(self.dst), value(self.sport),
                self.kind if self.proto in (ICMP, ICMP6) else value(self.dport))

    def __str__(self):
        def text(x):
            return str(x) if not isinstance(x, Var) or x.value is None else str(x.value)
        return f"{self.proto} {text(self.src)}:{text(self.sport)} > {text(self.dst)}:{text(self.dport)}"


def spoiled(c, by):
    """Returns a checksum that is wrong by `by` in ones' complement arithmetic, 1 to 0xfffe."""
    c += by
    return (c & 0xffff) + (c >> 16)


class Error(Packet):
    """An ICMP or ICMPv6 error whose data is the beginning of `quoted`, `length` octets of it. `hops` are the routers that
    the quoted packet passed, `corrupt` is added to the checksum of its IPv4 header."""

    def __init__(self, src, dst, quoted, length=None, kind=None, code=None, rest=0, ttl=64, hops=1, spoil=0, corrupt=0,
                 **ip):
        six = wire.v6(value(src)) if not isinstance(src, Var) or src.value else False
        kind = kind if kind is not None else (1 if six else 3)
        code = code if code is not None else (4 if six else 3)
        super().__init__(ICMP6 if six else ICMP, src, dst, kind=kind, code=code, ttl=ttl, spoil=spoil, rest=rest, **ip)
        self.quoted, self.length, self.hops, self.corrupt = quoted, length, hops, corrupt

    def payload(self):
        quoted = self.quoted
        quote = wire.forwarded(quoted.octets() if isinstance(quoted, Packet) else quoted, self.hops)[:self.length]
        if self.corrupt:
            c = struct.unpack_from("!H", quote, 10)[0]
            quote = quote[:10] + struct.pack("!H", spoiled(c, self.corrupt)) + quote[12:]
        part = wire.icmp_part(value(self.src), value(self.dst), self.kind, self.code, self.rest, quote)
        if self.spoil:
            c = struct.unpack_from("!H", part, 2)[0]
            part = part[:2] + struct.pack("!H", spoiled(c, self.spoil)) + part[4:]
        return part

    def bind(self, packet):
        return None

    def __str__(self):
        return f"error {self.kind}/{self.code} from {value(self.src)} to {value(self.dst)} about {self.quoted}"


class Part:
    """The fragment number `index` of a packet whose payload is cut into `size` octets."""

    def __init__(self, packet, size, index, ident=77):
        self.packet, self.size, self.index, self.ident = packet, size, index, ident

    @property
    def ttl(self):
        return self.packet.ttl

    def replace(self, ttl):
        return Part(self.packet.replace(ttl=ttl), self.size, self.index, self.ident)

    def octets(self):
        return wire.fragments(self.packet.octets(), self.size, self.ident)[self.index]

    def bind(self, packet):
        return self.packet.bind(packet) if self.index == 0 else None

    def __str__(self):
        return f"fragment {self.index} of {self.packet}"


class Raw:
    """Octets."""

    def __init__(self, data):
        self.data = data

    def octets(self):
        return self.data

    def bind(self, packet):
        return None

    def __str__(self):
        return self.data[:28].hex()


def tcp(src, dst, sport, dport, flags=SYN, data=b"", **k):
    return Packet(TCP, src, dst, sport, dport, data, flags=flags, **k)


def udp(src, dst, sport, dport, data=b"weir", **k):
    return Packet(UDP, src, dst, sport, dport, data, **k)


def echo(src, dst, ident, reply=False, data=b"ping", **k):
    text = src if not isinstance(src, Var) else dst
    six = not isinstance(text, Var) and wire.v6(text)
    kind = (129 if reply else 128) if six else (0 if reply else 8)
    return Packet(ICMP6 if six else ICMP, src, dst, ident, data=data, kind=kind, **k)


def sums(packet):
    """Returns the faults of the checksums of a whole packet: those of IPv4, TCP, UDP, UDP-Lite, DCCP, ICMP and ICMPv6."""
    p = wire.Ip(packet, skip=True)
    if not p.sound:
        yield "the checksum of the IPv4 header is wrong"
    if p.fragment or p.total > len(packet):
        return
    d = p.payload
    pseudo = wire.pseudo(wire.addr(p.src), wire.addr(p.dst), p.proto, len(d))
    at = {TCP: 16, UDP: 6, UDPLITE: 6, DCCP: 6, ICMP: 2, ICMP6: 2}.get(p.proto)
    if at is None or len(d) < at + 2:
        return
    if p.proto == UDP and d[6:8] == b"\0\0":
        return
    over = d[:8] if p.proto == UDPLITE else d
    if wire.checksum((b"" if p.proto == ICMP else pseudo) + over) != 0:
        yield f"the checksum of protocol {p.proto} is wrong"
