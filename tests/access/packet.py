"""Frames of Ethernet: building them, and reading the fields that rules match, as docs/steer.md and docs/acl.md name them."""
import os
import struct
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ipsec"))
import wire  # noqa: E402

ICMP, TCP, UDP, GRE, ESP, AH, ICMP6, L2TP, SCTP, IPIP = 1, 6, 17, 47, 50, 51, 58, 115, 132, 4
PORTS = (TCP, UDP, 33, SCTP)
HOP, ROUTING, FRAGMENT, OPTIONS, MOBILITY = 0, 43, 44, 60, 135
VXLAN, GTP_U, GTP_C, NAT_T = 4789, 2152, 2123, 4500


def mac(text):
    return bytes(int(x, 16) for x in text.split(":"))


def mac_text(octets):
    return ":".join(f"{x:02x}" for x in octets)


def tag(vlan, tpid=0x8100, priority=0):
    return struct.pack("!HH", tpid, priority << 13 | vlan)


def ethernet(to, source, payload, kind=None, tags=b""):
    """A frame; `kind` follows from the version of an IP packet."""
    if kind is None:
        kind = 0x86dd if payload[0] >> 4 == 6 else 0x800
    return to + source + tags + struct.pack("!H", kind) + payload


def vxlan(vni, inner, flags=8):
    return struct.pack("!II", flags << 24, vni << 8) + inner


def gtp_u(teid, data=b""):
    """GTPv1 (3GPP TS 29.281, 5.1): a G-PDU."""
    return struct.pack("!BBHI", 0x30, 255, len(data), teid) + data


def gtp_c(teid, data=b""):
    """GTPv2-C (3GPP TS 29.274, 5.1): with TEID, or without (`None`)."""
    if teid is None:
        return struct.pack("!BBHI", 0x40, 1, 4 + len(data), 0x100) + data
    return struct.pack("!BBHII", 0x48, 34, 8 + len(data), teid, 0x100) + data


def esp(spi, data=b"\0" * 24):
    return struct.pack("!II", spi, 1) + data


def ah(spi, following, data):
    """RFC 4302 with an ICV of 12 octets. Its length is a multiple of 4, and of 8 in IPv6 (24 octets)."""
    return struct.pack("!BBHII", following, 4, 0, spi, 1) + b"\x11" * 12 + data


def l2tp(session, data=b"\0" * 8):
    return struct.pack("!I", session) + data


def options(following, words=0):
    """A header of IPv6 options: PadN alone."""
    n = 6 + words * 8
    return struct.pack("!BBBB", following, words, 1, n - 2) + b"\0" * (n - 2)


def fragment_header(following, offset, more, ident):
    return struct.pack("!BBHI", following, 0, offset | more, ident)


class Fields:
    """The fields of a frame. What is not there is None."""

    def __init__(self, frame):
        self.frame, self.tags, at = frame, [], 12
        self.to, self.source = frame[:6], frame[6:12]
        self.kind = struct.unpack_from("!H", frame, at)[0]
        while self.kind in (0x8100, 0x88a8) and len(frame) >= at + 6:
            self.tags.append((self.kind, struct.unpack_from("!H", frame, at + 2)[0] & 4095))
            at += 4
            self.kind = struct.unpack_from("!H", frame, at)[0]
        self.l3 = at + 2
        self.version = {0x800: 4, 0x86dd: 6}.get(self.kind)
        self.sport = self.dport = self.type = self.code = self.flags = self.spi = self.vni = self.teid = self.session = None
        self.auth = None  # the SPI of an AH among extension headers
        self.later = self.fragment = False
        if self.version == 4:
            self.four(frame[self.l3:])
        elif self.version == 6:
            self.six(frame[self.l3:])

    def four(self, p):
        n, total = (p[0] & 15) * 4, struct.unpack_from("!H", p, 2)[0]
        self.dscp, self.ttl, self.proto, self.head, self.base = p[1] >> 2, p[8], p[9], n, p[9]
        self.src, self.dst = p[12:16], p[16:20]
        f = struct.unpack_from("!H", p, 6)[0]
        self.later, self.fragment = f & 0x1fff > 0, f & 0x3fff > 0
        self.extended = n > 20
        self.length, self.packet, self.label = total, p[:total], 0
        if not self.later:
            self.transport(p[n:total])

    def six(self, p):
        w, length, proto, self.ttl = struct.unpack_from("!IHBB", p)
        self.dscp, self.base, self.label = w >> 22 & 63, proto, w & 0xfffff
        self.src, self.dst, at = p[8:24], p[24:40], 40
        self.length, self.packet = length, p[:40 + length]
        p, self.extended = self.packet, False
        while proto in (HOP, ROUTING, FRAGMENT, AH, OPTIONS, MOBILITY):
            self.extended = True
            h = p[at:]
            if proto == FRAGMENT:
                f = struct.unpack_from("!H", h, 2)[0]
                self.fragment, self.later = f & 0xfff9 > 0, f & 0xfff8 > 0
                proto, at = h[0], at + 8
                if self.later:
                    break
            elif proto == AH:
                self.auth = struct.unpack_from("!I", h, 4)[0]
                proto, at = h[0], at + (h[1] + 2) * 4
            else:
                proto, at = h[0], at + (h[1] + 1) * 8
        self.proto, self.head = proto, at
        if not self.later:
            self.transport(p[at:])

    def transport(self, t):
        if self.proto in PORTS and len(t) >= 4:
            self.sport, self.dport = struct.unpack_from("!HH", t)
        if self.proto == TCP and len(t) >= 20:
            self.flags = t[13]
        if self.proto in (ICMP, ICMP6) and len(t) >= 2:
            self.type, self.code = t[0], t[1]
        if self.proto == ESP and len(t) >= 4:
            self.spi = struct.unpack_from("!I", t)[0]
        if self.proto == AH and len(t) >= 8:
            self.auth = struct.unpack_from("!I", t, 4)[0]
        if self.proto == L2TP and len(t) >= 4:
            self.session = struct.unpack_from("!I", t)[0]
        if self.proto != UDP or self.dport is None:
            return
        u = t[8:]
        if NAT_T in (self.sport, self.dport) and len(u) >= 4:  # RFC 3948, 2.2: four octets of 0 are no SPI
            self.spi = struct.unpack_from("!I", u)[0] or None
        if len(u) >= 8 and u[0] & 8:
            self.vni = struct.unpack_from("!I", u, 4)[0] >> 8
        if len(u) >= 8 and (u[0] & 0xf0 == 0x30 or u[0] & 0xe8 == 0x48):
            self.teid = struct.unpack_from("!I", u, 4)[0]

    def __str__(self):
        if self.version is None:
            return f"{mac_text(self.source)} > {mac_text(self.to)} {self.tags} {self.kind:#x}"
        a, b = (str(wire.ipaddress.ip_address(x)) for x in (self.src, self.dst))
        return f"{self.tags} {a} > {b} proto {self.proto} {self.sport} > {self.dport} {self.frame.hex()[:160]}"
