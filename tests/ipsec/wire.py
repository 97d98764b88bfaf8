"""IP packets as octets: building, parsing, checksums, captures. `selftest.py` compares the packets with scapy's."""
import ipaddress
import struct


def addr(text):
    return ipaddress.ip_address(text).packed


def v6(text):
    return ":" in text


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    s = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff


def pseudo(src, dst, proto, length):
    if len(src) == 4:
        return src + dst + struct.pack("!BBH", 0, proto, length)
    return src + dst + struct.pack("!II", length, proto)


def ip4(src, dst, proto, payload, ttl=64, tos=0, df=False, ident=0, offset=0, more=False, options=b""):
    assert len(options) % 4 == 0
    flags = (0x4000 if df else 0) | (0x2000 if more else 0) | offset // 8
    ihl = 5 + len(options) // 4
    h = struct.pack("!BBHHHBBH4s4s", 0x40 | ihl, tos, ihl * 4 + len(payload), ident, flags, ttl, proto, 0,
                    addr(src), addr(dst)) + options
    return h[:10] + struct.pack("!H", checksum(h)) + h[12:] + payload


def ip6(src, dst, proto, payload, ttl=64, tos=0, label=0):
    return struct.pack("!IHBB16s16s", 6 << 28 | tos << 20 | label, len(payload), proto, ttl, addr(src),
                       addr(dst)) + payload


def ip(src, dst, proto, payload, **k):
    if v6(src):
        for key in ("df", "ident"):
            k.pop(key, None)
        return ip6(src, dst, proto, payload, **k)
    k.pop("label", None)
    return ip4(src, dst, proto, payload, **k)


def udp(src, dst, sport, dport, data, **k):
    return ip(src, dst, 17, udp_part(src, dst, sport, dport, data), **k)


def udp_part(src, dst, sport, dport, data, check=True):
    h = struct.pack("!HHHH", sport, dport, 8 + len(data), 0)
    c = checksum(pseudo(addr(src), addr(dst), 17, len(h) + len(data)) + h + data) or 0xffff
    return h[:6] + struct.pack("!H", c if check else 0) + data


def tcp_part(src, dst, sport, dport, data, flags=0x10):
    h = struct.pack("!HHIIBBHHH", sport, dport, 1, 1, 0x50, flags, 4096, 0, 0)
    c = checksum(pseudo(addr(src), addr(dst), 6, len(h) + len(data)) + h + data)
    return h[:16] + struct.pack("!H", c) + h[18:] + data


def icmp_part(src, dst, kind, code, rest, data):
    """`rest` is the second word of the header. ICMPv6 for IPv6 addresses."""
    h = struct.pack("!BBHI", kind, code, 0, rest)
    p = pseudo(addr(src), addr(dst), 58, len(h) + len(data)) if v6(src) else b""
    return h[:2] + struct.pack("!H", checksum(p + h + data)) + h[4:] + data


def echo(src, dst, ident, seq, data, reply=False, **k):
    six = v6(src)
    kind = (129 if reply else 128) if six else (0 if reply else 8)
    return ip(src, dst, 58 if six else 1, icmp_part(src, dst, kind, 0, ident << 16 | seq, data), **k)


def ports(proto, src, dst, sport, dport, data, **k):
    """A packet of any protocol; for ICMP `sport` is type × 256 + code."""
    if proto == 17:
        return udp(src, dst, sport, dport, data, **k)
    if proto == 6:
        return ip(src, dst, 6, tcp_part(src, dst, sport, dport, data), **k)
    if proto in (1, 58):
        return ip(src, dst, proto, icmp_part(src, dst, sport >> 8, sport & 255, 0, data), **k)
    if proto == 132:
        return ip(src, dst, 132, struct.pack("!HHII", sport, dport, 0, 0) + data, **k)
    return ip(src, dst, proto, data, **k)


def forwarded(packet, hops=1, tos=None):
    """Returns the packet behind `hops` routers, with `tos` as DSCP and ECN if it is given."""
    p = bytearray(packet)
    if p[0] >> 4 == 6:
        p[7] -= hops
        if tos is not None:
            struct.pack_into("!I", p, 0, struct.unpack_from("!I", p)[0] & 0xf00fffff | tos << 20)
    else:
        p[8] -= hops
        if tos is not None:
            p[1] = tos
        n = (p[0] & 15) * 4
        p[10:12] = b"\0\0"
        p[10:12] = struct.pack("!H", checksum(bytes(p[:n])))
    return bytes(p)


class Ip:
    """A parsed header. `proto` and `payload` are behind IPv6 extension headers when `skip` is true."""

    def __init__(self, data, skip=False):
        self.data, self.version = data, data[0] >> 4
        if self.version == 4:
            n = (data[0] & 15) * 4
            self.tos, total, self.ident, f = data[1], *struct.unpack_from("!HHH", data, 2)
            self.df, self.more, self.offset = bool(f & 0x4000), bool(f & 0x2000), (f & 0x1fff) * 8
            self.ttl, self.proto, self.label = data[8], data[9], 0
            self.src, self.dst = str(ipaddress.ip_address(data[12:16])), str(ipaddress.ip_address(data[16:20]))
            self.options, self.sound = data[20:n], checksum(data[:n]) == 0
            self.head = n
        else:
            w, length, self.proto, self.ttl = struct.unpack_from("!IHBB", data)
            self.tos, self.label, total = w >> 20 & 255, w & 0xfffff, 40 + length
            self.src, self.dst = str(ipaddress.ip_address(data[8:24])), str(ipaddress.ip_address(data[24:40]))
            self.df, self.more, self.offset, self.ident, self.sound, self.options = True, False, 0, 0, True, b""
            self.head = 40
            while skip and self.proto in (0, 43, 44, 60) and self.head + 8 <= len(data):
                h = data[self.head:]
                if self.proto == 44:
                    f, self.ident = struct.unpack_from("!HI", h, 2)
                    self.offset, self.more = f & 0xfff8, bool(f & 1)
                    self.proto, self.head = h[0], self.head + 8
                    if self.offset:
                        break
                else:
                    self.proto, self.head = h[0], self.head + 8 + h[1] * 8
        self.total, self.payload = total, data[self.head:total]
        self.fragment = self.more or self.offset > 0


def fragments(packet, size, ident=None):
    """IP fragments whose payload has at most `size` octets (a multiple of 8), in order."""
    p = Ip(packet)
    assert size % 8 == 0
    out = []
    for at in range(0, len(p.payload), size):
        part, more = p.payload[at:at + size], at + size < len(p.payload)
        if p.version == 4:
            out.append(ip4(p.src, p.dst, p.proto, part, ttl=p.ttl, tos=p.tos,
                           ident=p.ident if ident is None else ident, offset=at, more=more))
        else:
            h = struct.pack("!BBHI", p.proto, 0, at | more, 77 if ident is None else ident)
            out.append(ip6(p.src, p.dst, 44, h + part, ttl=p.ttl, tos=p.tos, label=p.label))
    return out


def reassemble(packets):
    """Returns the datagram of IP fragments in any order, or None. Its header is that of the first fragment."""
    parts = sorted((Ip(p, skip=True) for p in packets), key=lambda p: p.offset)
    if not parts or parts[0].offset or parts[-1].more:
        return None
    data = b""
    for p in parts:
        if p.offset != len(data):
            return None
        data += p.payload
    f = parts[0]
    if f.version == 4:
        return ip4(f.src, f.dst, f.proto, data, ttl=f.ttl, tos=f.tos, ident=f.ident, options=f.options)
    return ip6(f.src, f.dst, f.proto, data, ttl=f.ttl, tos=f.tos, label=f.label)


def frame(packet, mac):
    kind = b"\x86\xdd" if packet[:1] and packet[0] >> 4 == 6 else b"\x08\x00"
    return mac + b"\x02\x00\x00\x00\x00\x99" + kind + packet


def write_pcap(path, packets):
    """`packets`: (nanoseconds since the epoch, frame)."""
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 262144, 1))
        for ns, data in packets:
            f.write(struct.pack("<IIII", ns // 10**9, ns % 10**9, len(data), len(data)) + data)


def read_pcap(path):
    with open(path, "rb") as f:
        data = f.read()
    assert data[:4] == b"\x4d\x3c\xb2\xa1", "a pcap with nanoseconds"
    at, out = 24, []
    while at < len(data):
        s, ns, n, _ = struct.unpack_from("<IIII", data, at)
        out.append((s * 10**9 + ns, data[at + 16:at + 16 + n]))
        at += 16 + n
    return out
