#!/usr/bin/python3
"""Compares esp.py and wire.py with scapy. With weir as the argument, checks that cases find faults."""
import logging
import random
import sys
import tempfile

logging.getLogger("scapy").setLevel(logging.ERROR)
try:
    import scapy  # noqa: F401
except ImportError:
    sys.exit(f"{sys.executable} has no module `scapy`: install python3-scapy, and run this by /usr/bin/python3")
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.ipsec import ESP, SecurityAssociation

import esp
import wire
from case import LAN, WAN, Case, Clear
from sa import Sa

CRYPT = {"gcm": "AES-GCM", "ccm": "AES-CCM", "chacha": "CHACHA20-POLY1305", "cbc": "AES-CBC", "ctr": "AES-CTR",
         "null": "NULL"}
AUTH = {"sha1": "HMAC-SHA1-96", "sha256": "SHA2-256-128", "sha384": "SHA2-384-192", "sha512": "SHA2-512-256",
        None: "NULL"}


def scapy_sa(a, key, spi, seq, esn, tunnel=None, nat=None):
    """scapy's SA, or None: scapy 2.5 has no GMAC, no GCM with a short ICV, and leaves the high half of the
    sequence number out of an HMAC."""
    if a.kind == "gmac" or a.kind == "gcm" and a.icv != 16 or a.mac and esn:
        return None
    n = a.aes + a.salt
    return SecurityAssociation(
        ESP, spi=spi, seq_num=seq & 0xffffffff, crypt_algo=CRYPT[a.kind], crypt_key=key[:n] or None,
        crypt_icv_size=a.icv if a.kind in ("gcm", "ccm", "chacha") else None,
        auth_algo=AUTH[a.mac], auth_key=key[n:] or None, tunnel_header=tunnel, nat_t_header=nat,
        esn_en=esn, esn=seq >> 32)


def second_opinion(a, key, p, esn, high):
    """Where scapy has nothing: the ICV by another library or a longer one's beginning."""
    if a.mac:
        import hmac
        tail = high.to_bytes(4, "big") if esn else b""
        assert hmac.new(key[a.aes + a.salt:], p[:-a.icv] + tail, a.mac).digest()[:a.icv] == p[-a.icv:], a.name
    elif a.kind == "gcm":
        whole = esp.ALGORITHMS[a.name[:9] + "16"]
        _, seq, iv, text = esp.open_text(a, key, p, esn, high)
        assert esp.seal_text(whole, key, 0x1234, seq, esn, text, iv)[:len(p)] == p, a.name


def check_esp(rng):
    n = 0
    for name, a in esp.ALGORITHMS.items():
        for esn in (False, True):
            for length in (0, 1, 2, 3, 5, 16, 31, 200):
                key, seq = rng.randbytes(a.key), rng.randrange(1, 2**40 if esn else 2**32)
                high = seq >> 32 if esn else 0
                inner = wire.udp("10.0.0.1", "10.0.0.2", 5, 6, rng.randbytes(length))
                p = esp.seal(a, key, 0x1234, seq, esn, inner, 4)
                o = esp.open_packet(a, key, p, esn, high)
                assert (o.payload, o.next_header, o.seq) == (inner, 4, seq), name
                if a.icv:
                    for at in (0, 5, 8 + a.iv, len(p) - 1):
                        bad = bytearray(p)
                        bad[at] ^= 1
                        try:
                            esp.open_text(a, key, bytes(bad), esn, high)
                            raise SystemExit(f"{name}: a forged packet was opened")
                        except esp.EspError:
                            pass
                sa = scapy_sa(a, key, 0x1234, seq, esn, IP(src="192.0.2.1", dst="192.0.2.2"))
                if sa is None:
                    second_opinion(a, key, p, esn, high)
                    continue
                outer = wire.ip4("192.0.2.1", "192.0.2.2", 50, p)
                assert bytes(sa.decrypt(IP(outer))) == inner, f"{name} {esn} {length}: scapy differs"
                sealed = bytes(sa.encrypt(IP(inner), seq_num=seq & 0xffffffff, esn_en=esn, esn=high))
                assert esp.open_packet(a, key, sealed[20:], esn, high).payload == inner, f"{name}: scapy's packet"
                n += 1
    return n


def check_wire(rng):
    for _ in range(200):
        d = rng.randbytes(rng.randrange(50))
        for s, t, layer in (("10.0.0.1", "10.0.0.2", IP), ("2001:db8::1", "2001:db8::2", IPv6)):
            for mine, theirs in (
                (wire.udp(s, t, 7, 9, d, ttl=9), UDP(sport=7, dport=9) / d),
                (wire.ip(s, t, 6, wire.tcp_part(s, t, 7, 9, d), ttl=9),
                 TCP(sport=7, dport=9, seq=1, ack=1, flags="A", window=4096) / d)):
                want = (IP(src=s, dst=t, ttl=9, id=0) if layer is IP else IPv6(src=s, dst=t, hlim=9)) / theirs
                assert mine == bytes(want), (mine.hex(), bytes(want).hex())
        want = IP(src="10.0.0.1", dst="10.0.0.2", id=0) / ICMP(id=1, seq=2) / d
        assert wire.echo("10.0.0.1", "10.0.0.2", 1, 2, d) == bytes(want)
        whole = wire.udp("10.0.0.1", "10.0.0.2", 7, 9, rng.randbytes(700), ident=5)
        parts = wire.fragments(whole, 96)
        rng.shuffle(parts)
        assert wire.reassemble(parts) == whole


class Plain(Case):
    """A gateway without IPsec."""

    def config(self):
        return super().config().replace('[ipsec]\nstate = "state"\n', "")


def check_faults(weir):
    """Returns the faults of a case whose packets leave otherwise than expected: there has to be one for each packet."""
    c = Plain("faults")
    p = wire.udp("10.0.0.9", "192.168.1.9", 1, 2, b"x" * 40)
    c.bypass(LAN, p, LAN, note="by the wrong interface")
    c.drop(LAN, p, "spd-discard", note="passed")
    c.protect(p, Sa("t"), note="in clear")
    c.send(LAN, p, "forward", [Clear(WAN, wire.forwarded(p, 2))], note="another packet")
    with tempfile.TemporaryDirectory() as folder:
        faults = c.run(weir, folder)
    for note in ("by the wrong interface", "passed", "in clear", "LEFT IN CLEAR", "another packet"):
        assert any(note in fault for fault in faults), f"no fault for a packet that is {note}: {faults}"


if __name__ == "__main__":
    rng = random.Random(1)
    check_wire(rng)
    print(f"{check_esp(rng)} packets and {len(esp.ALGORITHMS)} algorithms agree with scapy")
    if len(sys.argv) > 1:
        check_faults(sys.argv[1])
