"""ESP (RFC 4303) with the algorithms of docs/crypto.md, made of the primitives of `cryptography`.

An implementation of its own, without code of weir. `selftest.py` compares it with scapy's.
"""
import random
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, ChaCha20Poly1305


class EspError(Exception):
    """The reason why a receiver has to drop a packet."""


class Algorithm:
    """Sizes in octets. `key` is the length of the key file: key, then salt, then the key of the HMAC."""

    def __init__(self, name, kind, aes, salt, iv, icv, block, mac=None, mac_key=0):
        self.name, self.kind, self.aes, self.salt = name, kind, aes, salt
        self.iv, self.icv, self.block, self.mac, self.mac_key = iv, icv, block, mac, mac_key
        self.key = aes + salt + mac_key
        self.align = max(4, block)

    def overhead_fits(self, room):
        """The longest payload (the inner packet in tunnel mode) whose ESP packet has at most `room` octets."""
        text = (room - 8 - self.iv - self.icv) // self.align * self.align
        return text - 2

    def esp_length(self, payload):
        text = -(-(payload + 2) // self.align) * self.align
        return 8 + self.iv + text + self.icv


HMACS = {"sha1": (hashes.SHA1, 20, 12), "sha256": (hashes.SHA256, 32, 16),
         "sha384": (hashes.SHA384, 48, 24), "sha512": (hashes.SHA512, 64, 32)}


def _table():
    t = {}
    for bits in (128, 192, 256):
        n = bits // 8
        for icv in (8, 12, 16):
            t[f"aes{bits}gcm{icv}"] = Algorithm(f"aes{bits}gcm{icv}", "gcm", n, 4, 8, icv, 1)
            t[f"aes{bits}ccm{icv}"] = Algorithm(f"aes{bits}ccm{icv}", "ccm", n, 3, 8, icv, 1)
        t[f"aes{bits}gmac"] = Algorithm(f"aes{bits}gmac", "gmac", n, 4, 8, 16, 1)
        for h, (_, key, icv) in HMACS.items():
            t[f"aes{bits}-{h}"] = Algorithm(f"aes{bits}-{h}", "cbc", n, 0, 16, icv, 16, h, key)
            t[f"aes{bits}ctr-{h}"] = Algorithm(f"aes{bits}ctr-{h}", "ctr", n, 4, 8, icv, 1, h, key)
    for h, (_, key, icv) in HMACS.items():
        t[f"null-{h}"] = Algorithm(f"null-{h}", "null", 0, 0, 0, icv, 1, h, key)
    t["chacha20poly1305"] = Algorithm("chacha20poly1305", "chacha", 32, 4, 8, 16, 1)
    t["null"] = Algorithm("null", "null", 0, 0, 0, 0, 1)
    return t


ALGORITHMS = _table()
WITH_INTEGRITY = [n for n in ALGORITHMS if n != "null"]


def padding(algorithm, payload_len):
    """The default padding of RFC 4303, 2.4: 1, 2, 3 … up to the boundary."""
    n = -(payload_len + 2) % algorithm.align
    return bytes(range(1, n + 1))


def _aad(spi, seq, esn):
    """RFC 4106, 5: SPI, then the sequence number, with ESN all 64 bits of it."""
    return struct.pack("!IQ", spi, seq) if esn else struct.pack("!II", spi, seq & 0xffffffff)


def _mac(a, key, data, seq, esn):
    if a.mac is None:
        return b""
    h = hmac.HMAC(key[a.aes + a.salt:], HMACS[a.mac][0]())
    h.update(data + (struct.pack("!I", seq >> 32) if esn else b""))
    return h.finalize()[:a.icv]


def _keys(a, key):
    assert len(key) == a.key, (a.name, len(key))
    return key[:a.aes], key[a.aes:a.aes + a.salt]


def seal_text(a, key, spi, seq, esn, text, iv=None):
    """An ESP packet around `text`, which has payload, padding, pad length and next header already."""
    k, salt = _keys(a, key)
    iv = random.randbytes(a.iv) if iv is None else iv
    head = struct.pack("!II", spi, seq & 0xffffffff)
    aad = _aad(spi, seq, esn)
    if a.kind == "gcm":
        e = Cipher(algorithms.AES(k), modes.GCM(salt + iv, min_tag_length=8)).encryptor()
        e.authenticate_additional_data(aad)
        return head + iv + e.update(text) + e.finalize() + e.tag[:a.icv]
    if a.kind == "gmac":  # RFC 4543, 3.3: the IV and the text are authenticated too
        e = Cipher(algorithms.AES(k), modes.GCM(salt + iv)).encryptor()
        e.authenticate_additional_data(aad + iv + text)
        e.finalize()
        return head + iv + text + e.tag
    if a.kind == "ccm":
        return head + iv + AESCCM(k, tag_length=a.icv).encrypt(salt + iv, text, aad)
    if a.kind == "chacha":
        return head + iv + ChaCha20Poly1305(k).encrypt(salt + iv, text, aad)
    if a.kind == "cbc":
        assert len(text) % 16 == 0
        e = Cipher(algorithms.AES(k), modes.CBC(iv)).encryptor()
        text = e.update(text) + e.finalize()
    elif a.kind == "ctr":  # RFC 3686, 4: the counter block begins with nonce, IV and 1
        e = Cipher(algorithms.AES(k), modes.CTR(salt + iv + b"\0\0\0\1")).encryptor()
        text = e.update(text) + e.finalize()
    data = head + iv + text
    return data + _mac(a, key, data, seq, esn)


def seal(a, key, spi, seq, esn, payload, next_header, iv=None, pad=None):
    pad = padding(a, len(payload)) if pad is None else pad
    return seal_text(a, key, spi, seq, esn, payload + pad + bytes([len(pad), next_header]), iv)


class Opened:
    def __init__(self, spi, seq, iv, payload, pad, next_header):
        self.spi, self.seq, self.iv, self.payload = spi, seq, iv, payload
        self.pad, self.next_header = pad, next_header


def open_text(a, key, packet, esn, high=0):
    """Verifies the ICV and decrypts: (SPI, sequence number, IV, text with the trailer)."""
    if len(packet) < 8 + a.iv + 2 + a.icv:
        raise EspError("too short")
    spi, low = struct.unpack("!II", packet[:8])
    seq = high << 32 | low
    iv, end = packet[8:8 + a.iv], len(packet) - a.icv
    text, icv = packet[8 + a.iv:end], packet[end:]
    k, salt = _keys(a, key)
    aad = _aad(spi, seq, esn)
    try:
        if a.kind == "gcm":
            d = Cipher(algorithms.AES(k), modes.GCM(salt + iv, icv, min_tag_length=8)).decryptor()
            d.authenticate_additional_data(aad)
            text = d.update(text) + d.finalize()
        elif a.kind == "gmac":
            d = Cipher(algorithms.AES(k), modes.GCM(salt + iv, icv)).decryptor()
            d.authenticate_additional_data(aad + iv + text)
            d.finalize()
        elif a.kind == "ccm":
            text = AESCCM(k, tag_length=a.icv).decrypt(salt + iv, text + icv, aad)
        elif a.kind == "chacha":
            text = ChaCha20Poly1305(k).decrypt(salt + iv, text + icv, aad)
        else:
            if _mac(a, key, packet[:end], seq, esn) != icv:
                raise EspError("ICV")
            if a.kind == "cbc":
                if len(text) % 16:
                    raise EspError("text is no multiple of a block")
                d = Cipher(algorithms.AES(k), modes.CBC(iv)).decryptor()
                text = d.update(text) + d.finalize()
            elif a.kind == "ctr":
                d = Cipher(algorithms.AES(k), modes.CTR(salt + iv + b"\0\0\0\1")).decryptor()
                text = d.update(text) + d.finalize()
    except InvalidTag:
        raise EspError("ICV")
    return spi, seq, iv, text


def open_packet(a, key, packet, esn, high=0):
    spi, seq, iv, text = open_text(a, key, packet, esn, high)
    n, next_header = text[-2], text[-1]
    if n + 2 > len(text):
        raise EspError("pad length beyond the payload")
    end = len(text) - 2 - n
    pad = text[end:-2]
    if pad != bytes(range(1, n + 1)):
        raise EspError("padding " + pad.hex())
    if len(text) % 4:
        raise EspError("text is no multiple of 4")
    return Opened(spi, seq, iv, text[:end], pad, next_header)
