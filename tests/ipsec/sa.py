"""A pair of SAs: the configuration of the gateway, and the packets of the peer."""
import random
import struct

import esp
import wire

class Sa:
    """`local` and `remote` are those of the gateway. The peer seals with `spi_in` and opens with `spi_out`."""

    made = 0  # SPIs of a case count up from here

    def __init__(self, name, algorithm="aes128gcm16", mode="tunnel", local="198.51.100.1", remote="203.0.113.1",
                 esn=False, spi_out=None, spi_in=None, encap=None, extra=(), window=None, key_seed=None):
        Sa.made += 1
        self.name, self.mode, self.local, self.remote, self.esn = name, mode, local, remote, esn
        self.a = esp.ALGORITHMS[algorithm]
        self.spi_out = 0x1000 + Sa.made if spi_out is None else spi_out
        self.spi_in = 0x20000 + Sa.made if spi_in is None else spi_in
        self.encap, self.extra, self.window = encap, dict(extra), window
        r = random.Random(f"{name} {algorithm} {key_seed}")
        self.key_out, self.key_in = r.randbytes(self.a.key), r.randbytes(self.a.key)
        self.sent = 0          # the peer's sequence number
        self.files = {}        # of the key files, by name: (text, mode); filled by toml()

    def toml(self):
        rows = [f"[sa.{self.name}]", f'mode = "{self.mode}"', f'local = "{self.local}"', f'remote = "{self.remote}"',
                f'algorithm = "{self.a.name}"', f"esn = {str(self.esn).lower()}"]
        for way, spi, key in (("out", self.spi_out, self.key_out), ("in", self.spi_in, self.key_in)):
            if spi:
                if self.a.name == "null":
                    rows.append(f"{way} = {{ spi = {spi:#x} }}")
                    continue
                rows.append(f'{way} = {{ spi = {spi:#x}, key-file = "{self.name}-{way}.key" }}')
                self.files[f"{self.name}-{way}.key"] = (key.hex() + "\n", 0o600)
        if self.window is not None:
            rows.append(f"window = {self.window}")
        if self.encap:
            keep = f', keepalive = "{self.encap[2]}"' if len(self.encap) > 2 else ""
            rows.append(f"encapsulation = {{ local-port = {self.encap[0]}, remote-port = {self.encap[1]}{keep} }}")
        for k, v in self.extra.items():
            rows.append(f"{k} = {v}")
        return "\n".join(rows) + "\n"

    @property
    def six(self):
        return wire.v6(self.local)

    def header(self):
        """Octets of the outer headers before ESP: IP and UDP."""
        return (40 if self.six else 20) + (8 if self.encap else 0)

    def longest(self, mtu):
        """The longest inner packet whose ESP packet has `mtu` octets, in tunnel mode."""
        return self.a.overhead_fits(mtu - self.header())

    def number(self, seq):
        if seq is None:
            self.sent += 1
            return self.sent
        self.sent = seq
        return seq

    def wrap(self, packet, outer=None, src=None, dst=None, **k):
        """The peer's IP packet around ESP octets."""
        src, dst = src or self.remote, dst or self.local
        if self.encap:
            part = wire.udp_part(src, dst, self.encap[1], self.encap[0], packet, check=self.six)
            return wire.ip(src, dst, 17, part, **k)
        return wire.ip(src, dst, 50, packet, **k)

    def esp(self, payload, next_header, seq=None, **k):
        """ESP octets of the peer."""
        return esp.seal(self.a, self.key_in, self.spi_in, self.number(seq), self.esn, payload, next_header, **k)

    def from_peer(self, inner, seq=None, iv=None, pad=None, next_header=None, **outer):
        """Returns the peer's packet for `inner`: with all of it in tunnel mode, with its payload in transport mode."""
        if self.mode == "tunnel":
            body = self.esp(inner, next_header or (41 if inner[0] >> 4 == 6 else 4), seq, iv=iv, pad=pad)
            return self.wrap(body, **outer)
        p = wire.Ip(inner)
        body = self.esp(p.payload, next_header or p.proto, seq, iv=iv, pad=pad)
        outer.setdefault("ttl", p.ttl)
        outer.setdefault("tos", p.tos)
        return self.wrap(body, src=p.src, dst=p.dst, **outer)

    def from_gateway(self, packet):
        """Opens a packet that left: (outer header, esp.Opened, the IP packet within). Raises esp.EspError."""
        o = wire.Ip(packet)
        if o.version == 6:
            o = wire.Ip(packet, skip=True)
        if not o.sound:
            raise esp.EspError("outer IPv4 checksum")
        if o.total != len(packet):
            raise esp.EspError(f"outer length {o.total}, packet {len(packet)}")
        body = o.payload
        if self.encap:
            if o.proto != 17 or len(body) < 8:
                raise esp.EspError(f"protocol {o.proto} instead of UDP")
            sport, dport, n, c = struct.unpack("!HHHH", body[:8])
            if (sport, dport) != tuple(self.encap[:2]):
                raise esp.EspError(f"UDP ports {sport} > {dport}")
            if n != len(body):
                raise esp.EspError(f"UDP length {n}, datagram {len(body)}")
            if c and wire.checksum(wire.pseudo(wire.addr(o.src), wire.addr(o.dst), 17, n) + body):
                raise esp.EspError("UDP checksum")
            body = body[8:]
        elif o.proto != 50:
            raise esp.EspError(f"protocol {o.proto} instead of ESP")
        x = esp.open_packet(self.a, self.key_out, body, self.esn)
        if x.spi != self.spi_out:
            raise esp.EspError(f"SPI {x.spi:#x}")
        if len(x.pad) >= self.a.align:
            raise esp.EspError(f"{len(x.pad)} octets of padding, more than needed")
        if self.mode == "tunnel":
            if x.next_header not in (4, 41):
                raise esp.EspError(f"next header {x.next_header} in tunnel mode")
            return o, x, x.payload
        head = packet[:o.head]
        if o.version == 4:
            inner = wire.ip4(o.src, o.dst, x.next_header, x.payload, ttl=o.ttl, tos=o.tos, df=o.df, ident=o.ident,
                             options=o.options)
        else:
            # The last next-header field before ESP gets the one of the trailer.
            h = bytearray(head)
            at, kind, pos = 6, h[6], 40
            while kind in (0, 43, 60) and pos < len(h):
                at, kind, pos = pos, h[pos], pos + 8 + h[pos + 1] * 8
            h[at] = x.next_header
            struct.pack_into("!H", h, 4, len(h) - 40 + len(x.payload))
            inner = bytes(h) + x.payload
        return o, x, inner
