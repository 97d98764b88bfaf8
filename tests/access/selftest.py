#!/usr/bin/python3
"""Compares packet.py with scapy. With weir as the argument, checks that the models find wrong verdicts, frames and counters."""
import logging
import random
import sys
import tempfile

logging.getLogger("scapy").setLevel(logging.ERROR)
try:
    import scapy  # noqa: F401
except ImportError:
    sys.exit(f"{sys.executable} has no module `scapy`: install python3-scapy, and run this by /usr/bin/python3")
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.layers.ipsec import AH, ESP
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN

import bridge
import classify
import packet
import steer
from packet import Fields, ethernet, mac, tag, wire

TO, FROM = "02:00:00:00:00:01", "02:00:00:00:00:99"


def check_packets(rng):
    def sent(p, *tags):
        frame = Ether(dst=TO, src=FROM)
        for t in tags:
            frame = frame / t
        return bytes(frame / p)
    a4, b4, a6, b6 = "10.0.0.5", "10.0.0.6", "2001:db8::5", "2001:db8::6"
    for _ in range(50):
        n, s, d = rng.randrange(1, 2**24), rng.randrange(65536), rng.randrange(65536)
        f = Fields(sent(IP(src=a4, dst=b4, tos=184) / UDP(sport=s, dport=4789) / VXLAN(vni=n, flags=8) / b"inner", Dot1Q(vlan=10)))
        assert (f.vni, f.sport, f.dport, f.dscp, f.tags) == (n, s, 4789, 46, [(0x8100, 10)])
        f = Fields(sent(IPv6(src=a6, dst=b6) / IPv6ExtHdrDestOpt() / AH(spi=n, nh=6, payloadlen=4, icv=b"\x11" * 12) / TCP(sport=s, dport=d, flags="SF"), Dot1AD(vlan=20), Dot1Q(vlan=30)))
        assert (f.auth, f.proto, f.sport, f.dport, f.flags, f.extended) == (n, 6, s, d, 3, True), str(f)
        assert f.tags == [(0x88a8, 20), (0x8100, 30)]
        f = Fields(sent(IPv6(src=a6, dst=b6) / IPv6ExtHdrFragment(offset=3, m=1, nh=17) / b"data data "))
        assert f.later and f.sport is None and f.proto == 17
        assert Fields(sent(IP(src=a4, dst=b4) / ESP(spi=n, seq=1, data=b"x" * 8))).spi == n
        assert Fields(sent(IP(src=a4, dst=b4) / UDP(sport=s | 1, dport=4500) / ESP(spi=n, seq=1, data=b"x" * 8))).spi == n
        assert Fields(sent(IP(src=a4, dst=b4) / UDP(sport=1, dport=4500) / ESP(spi=0, seq=1, data=b"x" * 8))).spi is None
        mine = ethernet(mac(TO), mac(FROM), wire.udp(a4, b4, s, 4789, packet.vxlan(n, b"inner"), ttl=9), tags=tag(10))
        theirs = sent(IP(src=a4, dst=b4, ttl=9, id=0) / UDP(sport=s, dport=4789) / VXLAN(vni=n, flags=8) / b"inner", Dot1Q(vlan=10))
        assert mine == theirs, (mine.hex(), theirs.hex())
        theirs = bytes(IPv6(src=a6, dst=b6, hlim=255) / ICMPv6ND_NS(tgt=b6) / ICMPv6NDOptSrcLLAddr(lladdr=FROM))
        assert bridge.neighbor(a6, b6, 135, b6, mac(FROM)) == theirs
        theirs = bytes(ARP(hwsrc=FROM, psrc=a4, pdst=b4, hwdst="00:00:00:00:00:00"))
        assert bridge.arp(mac(FROM), a4, b4).rstrip(b"\0") == theirs.rstrip(b"\0")


class Replayed:
    """Lets `change` make one line, or the frames that left for it, wrong."""

    def __init__(self, module, change):
        self.module, self.change, self.done, self.true = module, change, None, module.replay

    def __enter__(self):
        def replay(*args):
            seen, said = self.true(*args)
            for n, (line, left) in enumerate(seen):
                if n >= 20 and self.change(line, left):
                    self.done = n + 1
                    break
            return seen, said
        self.module.replay = replay
        return self

    def __exit__(self, *_):
        self.module.replay = self.true


def forwarded(line, left):
    return line["verdict"] == "forward" and len(line["out"]) == 1 and any(i == line["out"][0] for i, _ in left)


def own(line, left):
    """The index of the frame that left."""
    return next(n for n, (i, _) in enumerate(left) if i == line["out"][0])


def lost(line, left):
    if forwarded(line, left):
        left.pop(own(line, left))
        return True


def dropped(line, left):
    if forwarded(line, left):
        line.update(verdict="drop", reason="acl-deny", out=[])
        left.clear()
        return True


def passed(line, left):
    if line["verdict"] == "drop" and line["reason"] in ("steer-drop", "classify-deny", "bridge-same-port", "mac-ip", "bridge-split-horizon"):
        line.update(verdict="forward", reason=None, out=["up"])
        return True


def elsewhere(line, left):
    if forwarded(line, left):
        line["out"] = ["nowhere"]
        return True


def bit(line, left):
    if forwarded(line, left):
        n = own(line, left)
        d = left[n][1]
        left[n] = (left[n][0], d[:-1] + bytes([d[-1] ^ 1]))
        return True


def copied(line, left):
    if forwarded(line, left):
        left.append(left[own(line, left)])
        return True


def rule(line, left):
    for x in line.get("steer", []) + line.get("classify", []):
        name, at = x["by"]["place"].rsplit(":", 1)
        x["by"]["place"] = f"{name}:{int(at) + 1}"
        return True


def unmatched(line, left):
    return any(line.pop(key, None) for key in ("steer", "classify"))


def unmarked(line, left):
    return any(x.pop("mark", None) is not None for x in line.get("steer", []))


def action(line, left):
    for x in line.get("classify", []):
        x["action"] = "deny" if x["action"] == "permit" else "permit"
        return True


def taken(line, left):
    if any(b["effect"] == "own" for b in line.get("bridges", [])):
        line["bridges"] = []
        return True


def check_models(weir):
    """Each kind of wrong line or frame is found. Returns how many."""
    both = (lost, dropped, passed, elsewhere, bit, copied)
    found = 0
    for module, changes in ((steer, both + (rule, unmatched, unmarked)), (classify, both + (rule, unmatched, action)), (bridge, both + (taken,))):
        for change in changes:
            for seed in range(1, 30):
                with tempfile.TemporaryDirectory() as folder, Replayed(module, change) as r:
                    faults = module.random_case(seed).run(weir, folder)
                if r.done:
                    assert faults, f"{module.__name__} {seed}: no fault though frame {r.done} is wrong ({change.__name__})"
                    found += 1
                    break
            else:
                raise SystemExit(f"{module.__name__}: no frame to be changed ({change.__name__})")
    return found


def check_counters(weir):
    """A counter, a session and a station that are shown and are not there are found."""
    def tampered(module, change):
        class Gateway(module.Gateway):
            def show(self, *words):
                shown = super().show(*words)
                change(shown)
                return shown
        true, module.Gateway = module.Gateway, Gateway
        return true

    def rules(shown):
        for r in shown.get("steer", [{"rules": []}])[0]["rules"][:1]:
            r["packets"] += 1

    def sessions(shown):
        for t in shown.get("tables", []):
            for s in t["rows"][:1]:
                s["packets"] += 1

    def stations(shown):
        for s in shown.get("macs", [])[:1]:
            s["interface"] = "nowhere"
    found = 0
    for module, change, case in ((steer, rules, steer.SteerCase), (classify, sessions, classify.ClassifyCase), (bridge, stations, bridge.BridgeCase)):
        true = tampered(module, change)
        with tempfile.TemporaryDirectory() as folder:
            assert case(101, live=True).run(weir, folder), f"no fault for a wrong number of {module.__name__}"
        module.Gateway = true
        found += 1
    return found


if __name__ == "__main__":
    check_packets(random.Random(1))
    print("packets agree with scapy")
    if len(sys.argv) > 1:
        print(f"models found {check_models(sys.argv[1]) + check_counters(sys.argv[1])} kinds of wrong output")
