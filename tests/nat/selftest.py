#!/usr/bin/python3
"""Compares packet.py with scapy. With weir as the argument, checks that cases and the model find wrong packets."""
import logging
import random
import sys
import tempfile

logging.getLogger("scapy").setLevel(logging.ERROR)
try:
    import scapy  # noqa: F401
except ImportError:
    sys.exit(f"{sys.executable} has no module `scapy`: install python3-scapy, and run this by /usr/bin/python3")
from scapy.layers.inet import ICMP as SIcmp
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6

from case import LAN, WAN, Case, Var, reply
from cases_destination import npt
from packet import ACK, SYN, Error, echo, sums, tcp, udp, wire
from random_nat import RandomCase

A, R, OUT = "10.0.0.5", "8.8.8.8", "198.51.100.1"


def check_packets(rng):
    for _ in range(200):
        d = rng.randbytes(rng.randrange(40))
        a, b = rng.randrange(65536), rng.randrange(65536)
        four = IP(src=A, dst=R, ttl=9, id=0)
        for mine, theirs in (
                (udp(A, R, a, b, d, ttl=9), four / UDP(sport=a, dport=b) / d),
                (tcp(A, R, a, b, SYN | ACK, d, ttl=9), four / TCP(sport=a, dport=b, seq=1, ack=1, flags="SA", window=4096) / d),
                (tcp(A, R, a, b, SYN, d, mss=1400, ttl=9),
                 four / TCP(sport=a, dport=b, seq=1, ack=1, flags="S", window=4096, options=[("MSS", 1400)]) / d),
                (echo(A, R, a, data=d, ttl=9), four / SIcmp(id=a, seq=1) / d),
                (echo("fd00::1", "fd00::2", a, data=d), IPv6(src="fd00::1", dst="fd00::2") / ICMPv6EchoRequest(id=a, seq=1, data=d)),
                (Error(R, A, udp(A, R, a, b, d), ttl=9),
                 IP(src=R, dst=A, ttl=9, id=0) / SIcmp(type=3, code=3) / wire.forwarded(udp(A, R, a, b, d).octets()))):
            assert mine.octets() == bytes(theirs), (mine.octets().hex(), bytes(theirs).hex())
            assert not list(sums(mine.octets())), "a right checksum is wrong"
        assert list(sums(udp(A, R, a, b, d, spoil=1 + a % 0xfffe).octets())), "a wrong checksum is right"


def check_prefixes():
    """The examples of RFC 6296 (3.1 to 3.4 and appendix B)."""
    assert npt("fd01:203:405:1::1234", "fd01:203:405::/48", "2001:db8:1::/48") == "2001:db8:1:d550::1234"
    assert npt("2001:db8:1:d550::1234", "2001:db8:1::/48", "fd01:203:405::/48") == "fd01:203:405:1::1234"
    assert npt("fd01:203:405:ffff::1", "fd01:203:405::/48", "2001:db8:1::/48") is None


def check_faults(weir):
    """Each wrong expectation of a case is a fault."""
    def case():
        return Case("faults", ["source udp from 10.0.0.5 to any as interface", "source tcp from any to any as interface port 7000"])

    def bad(note, fill):
        c = case()
        fill(c)
        with tempfile.TemporaryDirectory() as folder:
            assert c.run(weir, folder), f"no fault for {note}"
    p, q = udp(A, R, 1000, 53), udp(OUT, R, Var("p"), 53)
    t = tcp(A, R, 1000, 80)
    bad("another interface", lambda c: c.go(LAN, p, LAN, q))
    bad("a port out of range", lambda c: c.go(LAN, p, WAN, q.replace(sport=Var("p", range(10)))))
    bad("another source", lambda c: c.go(LAN, p, WAN, q.replace(src="198.51.100.2")))
    bad("another port", lambda c: c.go(LAN, t, WAN, tcp(OUT, R, 7001, 80)))
    bad("a wrong checksum", lambda c: c.go(LAN, t, WAN, tcp(OUT, R, 7000, 80, spoil=1)))
    bad("other data", lambda c: c.go(LAN, p, WAN, q.replace(data=b"other")))
    bad("a drop that passed", lambda c: c.drop(LAN, p, "nat-limit"))

    def twice(c):
        c.go(LAN, t, WAN, tcp(OUT, R, 7000, 80))
        c.drop(LAN, tcp(A, R, 1001, 80), "nat-limit")
    bad("another reason", twice)

    def equal(c):
        a, b = Var("a"), Var("b")
        c.go(LAN, p, WAN, q.replace(sport=a))
        c.go(LAN, p, WAN, q.replace(sport=b))
        c.different(a, b)
    bad("equal ports", equal)

    def lost(c):
        x = Var("x")
        c.go(LAN, p, WAN, q.replace(sport=x))
        c.go(WAN, reply(udp(OUT, R, x, 54)), LAN, reply(p))
    bad("a packet of another endpoint", lost)
    c = case()
    c.both(LAN, p, WAN, q)
    with tempfile.TemporaryDirectory() as folder:
        assert not (faults := c.run(weir, folder)), faults


class Tampered(RandomCase):
    """What weir did, but for one translated packet that `change` makes wrong."""

    def __init__(self, seed, change):
        super().__init__(seed, rounds=3, packets=40)
        self.change, self.done = change, None

    def replay(self, weir, folder, packets):
        seen, said = super().replay(weir, folder, packets)
        for n, s in enumerate(seen or []):
            if self.done not in (None, n) or len(s.frames) != 1 or n < 40 or s.frames[0][1][40:] == packets[n][2][40:] == b"":
                continue
            if not any(x["effect"] == "translated" for x in s.line.get("nat", [])) or s.line["verdict"] != "forward":
                continue
            self.change(s, seen, n)
            self.done = n
            break
        return seen, said


def fix(data):
    """Corrects the checksum of the IPv4 header."""
    h = data[:10] + b"\0\0" + data[12:20]
    return data[:10] + wire.checksum(h).to_bytes(2, "big") + data[12:]


def check_model(weir):
    """The model finds a wrong address, checksum, interface, verdict, rule, data, and a lost packet."""
    def frame(change, out=None):
        def tamper(s, seen, n):
            interface, data = s.frames[0]
            s.frames[0] = (out or interface, change(data))
        return tamper

    def verdict(s, seen, n):
        s.line["verdict"], s.line["reason"] = "drop", "nat-untranslated"

    def exhausted(s, seen, n):
        s.line["verdict"], s.line["reason"] = "drop", "session-limit"
        s.frames.clear()

    def rule(s, seen, n):
        s.line["nat"][0]["by"]["rule"] = "keep ip from any to any"
    changes = {"source": frame(lambda d: fix(d[:15] + bytes([d[15] ^ 128]) + d[16:])),
               "destination": frame(lambda d: fix(d[:19] + bytes([d[19] ^ 128]) + d[20:])),
               "header checksum": frame(lambda d: d[:10] + bytes([d[10] ^ 1]) + d[11:]),
               "TTL": frame(lambda d: fix(d[:8] + bytes([d[8] - 1]) + d[9:])),
               "data": frame(lambda d: d[:-1] + bytes([d[-1] ^ 1])),
               "length": frame(lambda d: d[:-1]),
               "interface": frame(lambda d: d, "nowhere"), "verdict": verdict, "reason": exhausted, "rule": rule,
               "loss": lambda s, seen, n: s.frames.clear(), "copy": lambda s, seen, n: s.frames.append(s.frames[0])}
    found = 0
    for name, change in changes.items():
        for seed in (2, 3, 6):
            c = Tampered(seed, change)
            with tempfile.TemporaryDirectory() as folder:
                faults = c.run(weir, folder)
            if c.done is not None:
                assert faults, f"no fault for a wrong {name} of packet {c.done + 1}, seed {seed}"
                found += 1
                break
        else:
            raise SystemExit(f"no packet whose {name} could be changed")
    return found


if __name__ == "__main__":
    check_packets(random.Random(1))
    check_prefixes()
    print("packets agree with scapy, prefixes with RFC 6296")
    if len(sys.argv) > 1:
        check_faults(sys.argv[1])
        print(f"cases find faults; the model found {check_model(sys.argv[1])} kinds of wrong packets")
