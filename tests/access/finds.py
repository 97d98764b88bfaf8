"""Frames for sentences of the documentation that random cases leave out. An `open` case is a known defect: it may fail."""
import os
import time

import bridge
import packet
from bridge import BROADCAST, FIXED
from packet import AH, FRAGMENT, TCP, ethernet, fragment_header, mac, tag, wire
from replay import GAP, START, Gateway, replay
from steer import NEIGHBORS, OWN, STATION, TOPOLOGY

BRIDGE = "version = 1\n" + "".join(f'\n[[interface]]\nname = "{p}"\nport = "null"\n{{{p}}}' for p in ("p1", "p2", "p3"))
A, B = mac("02:00:00:00:01:0a"), mac("02:00:00:00:01:0b")


class Case:
    """Frames, each with its verdict, reason, egress interfaces, and the number of steer rules that match it."""

    def __init__(self, name, text, open_=False):
        self.name, self.text, self.steps, self.open = name, text, [], open_
        self.now = START

    def frame(self, interface, frame, verdict, reason=None, out=(), rules=None, after=GAP):
        self.now += after
        self.steps.append((self.now, interface, frame, (verdict, reason, sorted(out)), rules))

    def run(self, weir, folder):
        seen, _ = replay(weir, folder, self.text, [s[:3] for s in self.steps])
        faults = []
        for n, ((_, _, d, want, rules), (line, _)) in enumerate(zip(self.steps, seen), 1):
            got = line["verdict"], line["reason"], sorted(line["out"])
            if got != want:
                faults.append(f"frame {n} {d.hex()[:120]}: {got}, {want} expected")
            if rules not in (None, len(line.get("steer", []))):
                faults.append(f"frame {n} {d.hex()[:120]}: {len(line.get('steer', []))} rules matched, {rules} expected")
        return faults


def steered(name, *rules, **k):
    return Case(name, TOPOLOGY + NEIGHBORS + "\n[steer.edge]\nrules = [\n" + "".join(f'  "{r}",\n' for r in rules) + "]\n", **k)


def bridged(name, keys, more="", **k):
    ports = {p: k.pop(p, "") for p in ("p1", "p2", "p3")}
    return Case(name, BRIDGE.format(**ports) + f'\n[bridge.lan]\ninterfaces = ["p1", "p2", "p3"]\n{keys}\n{more}', **k)


def later_fragment():
    """Later fragments have no identifiers (docs/steer.md, Matches): their data is no AH, whatever the header in front says."""
    a, b = "2001:db8:a::1", "2001:db8:a::2"
    c = steered("steer-later-fragment", "drop ah from any to any spi 5")
    data = packet.ah(5, TCP, wire.tcp_part(a, b, 1, 80, b""))
    c.frame("wan", ethernet(OWN, STATION, wire.ip6(a, b, AH, data)), "drop", "steer-drop", rules=1)
    c.frame("wan", ethernet(OWN, STATION, wire.ip6(a, b, FRAGMENT, fragment_header(AH, 0, True, 9) + data)), "drop", "steer-drop", rules=1)
    c.frame("wan", ethernet(OWN, STATION, wire.ip6(a, b, FRAGMENT, fragment_header(AH, 8, True, 9) + data)), "forward", None, ["up"], rules=0)
    return c


def redirected_broadcast():
    """Packets that no gateway forwards are never redirected (docs/steer.md, Actions); these are broadcasts of links (RFC 2644)."""
    c = steered("steer-broadcast", "redirect interface dpi ip from any to any")
    for to in ("192.0.2.255", "198.51.100.255", "203.0.113.255"):
        c.frame("wan", ethernet(OWN, STATION, wire.udp("10.1.0.1", to, 1, 2, b"x")), "drop", "broadcast")
    return c


def frames_without_ip():
    """Rules with `frame` match frames that are not IP, and no others match these (docs/steer.md, Frames without IP)."""
    c = steered("steer-frames", "drop frame ethertype 0x88b5 mac-from 02:00:00:00:00:99", "redirect interface dpi vlan 10 frame ethertype lldp",
                "redirect interface v10 frame ethertype 0x88b6", "drop frame octets l3 0 5a", "drop ip from any to any", "count frame")
    data = b"\0" * 46
    c.frame("wan", ethernet(OWN, STATION, data, 0x88b5), "drop", "steer-drop", rules=1)
    c.frame("wan", ethernet(OWN, A, data, 0x88b5), "drop", "unhandled-ethertype", rules=1)
    c.frame("wan", ethernet(OWN, STATION, data, 0x88b6), "forward", None, ["v10"], rules=1)
    c.frame("wan", ethernet(OWN, STATION, data, 0x88cc, tag(10)), "forward", None, ["dpi"], rules=1)
    c.frame("wan", ethernet(OWN, STATION, data, 0x88cc), "drop", "unhandled-ethertype", rules=1)
    c.frame("wan", ethernet(OWN, STATION, b"\x5a" * 46, 0x88cc), "drop", "steer-drop", rules=1)
    c.frame("wan", ethernet(STATION, STATION, data, 0x88b5), "drop", "not-our-mac", rules=0)
    c.frame("wan", ethernet(OWN, STATION, wire.udp("10.1.0.1", "11.0.0.1", 1, 2, b"x")), "drop", "steer-drop", rules=1)
    return c


def configured_station():
    """A frame with the address of a configured station by another port is dropped (docs/bridges.md, Learning): also without
    learning."""
    for name, keys in (("bridge-static", ""), ("bridge-static-unlearned", "learn = false")):
        c = bridged(name, f'{keys}\nstatic = [{{ mac = "02:00:00:00:0f:01", interface = "p3" }}]')
        c.frame("p1", ethernet(BROADCAST, FIXED, b"\0" * 46, 0x88b5), "drop", "bridge-move")
        c.frame("p3", ethernet(BROADCAST, FIXED, b"\0" * 46, 0x88b5), "forward", None, ["p1", "p2"])
        yield c


def ethertypes():
    """Lists see the packet in a frame behind at most two tags (docs/bridges.md, Lists on ports): in both directions."""
    for way, open_ in (("in", False), ("out", False)):
        c = bridged(f"bridge-ethertypes-{way}", "", p2=f'ethertypes = {{ {way} = ["0x88b5"] }}\n', open_=open_)
        ports = ("p2", "p1") if way == "in" else ("p1", "p2")
        for tags in (b"", tag(77), tag(78, 0x88a8) + tag(79)):
            c.frame(ports[0], ethernet(BROADCAST, A, b"\0" * 46, 0x88b5, tags), "forward", None, ["p3", ports[1]])
            out = [] if way == "in" else ["p3"]
            c.frame(ports[0], ethernet(BROADCAST, A, b"\0" * 46, 0x88b6, tags), *(("forward", None, out) if out else ("drop", "acl-ethertype")))
        yield c


def groups():
    """Frames do not pass between ports of a split-horizon group; stations move; a frame to the port it came by is dropped."""
    c = Case("bridge-groups", BRIDGE.format(p1="", p2="", p3="")
             + '\n[bridge.lan]\ninterfaces = ["p1", { name = "p2", split-horizon = 5 }, { name = "p3", split-horizon = 5 }]\n')
    data = b"\0" * 46
    c.frame("p2", ethernet(BROADCAST, A, data, 0x88b5), "forward", None, ["p1"])
    c.frame("p3", ethernet(A, B, data, 0x88b5), "drop", "bridge-split-horizon")
    c.frame("p1", ethernet(A, mac("02:00:00:00:01:0c"), data, 0x88b5), "forward", None, ["p2"])
    c.frame("p1", ethernet(B, A, data, 0x88b5), "forward", None, ["p3"])
    c.frame("p1", ethernet(A, mac("02:00:00:00:01:0c"), data, 0x88b5), "drop", "bridge-same-port")
    return c


def limit_at_the_start():
    """In any period pass at most the burst and what the rate gives, rounded up to a packet (docs/acl.md, What rules do)."""
    text = TOPOLOGY.replace('steer = "edge"\n', 'acl = { in = "a" }\n', 1).replace('steer = "edge"\n', "") + NEIGHBORS
    c = Case("limit-start", text + '\n[acl.a]\nrules = ["permit udp from any to any limit 1pps burst 1"]\n')
    packet_ = ethernet(OWN, STATION, wire.udp("10.1.0.1", "11.0.0.1", 1, 2, b"x"))
    c.frame("wan", ethernet(STATION, STATION, b"\x45" + b"\0" * 30), "drop", "not-our-mac")
    c.frame("wan", packet_, "forward", None, ["up"], after=17_000_000)
    c.frame("wan", packet_, "drop", "acl-rate-limit", after=1_000)
    c.frame("wan", packet_, "forward", None, ["up"], after=1_100_000_000)
    c.frame("wan", packet_, "drop", "acl-rate-limit", after=1_000)
    return c


class Held:
    """Encapsulated copies wait for the neighbour of their route, and leave by it when it answers. They are no frames of the bridge."""

    name, steps = "bridge-held", (1, 2, 3, 4)

    def run(self, weir, folder):
        far, own = mac("02:00:00:00:00:fe"), mac("02:00:00:00:00:03")
        text = BRIDGE.format(p1="", p2="", p3='mac = "02:00:00:00:00:03"\naddress = "198.51.100.1/24"\n')
        text += '\n[[interface]]\nname = "vx"\nport = { vxlan = { local = "198.51.100.1", remote = "198.51.100.2", vni = 7 } }\n'
        text += '\n[[interface]]\nname = "gw"\nport = { bridge = "lan" }\naddress = "10.0.0.1/24"\n[bridge.lan]\ninterfaces = ["p1", "p2", "vx"]\n'
        first = ethernet(STATION, STATION, b"\x45" + b"\0" * 30)  # a port paces frames from its first one on
        inner = [ethernet(BROADCAST, A, bytes([n]) * 46, 0x88b5) for n in (1, 2)]
        answer = ethernet(own, far, bridge.arp(far, "198.51.100.2", "198.51.100.1", 2)[:18] + own + wire.addr("198.51.100.1") + b"\0" * 18, 0x806)
        frames = [(START, p, d) for p, d in (("p1", ethernet(A, B, b"\0" * 46, 0x88b5)), ("p3", first))]
        frames += [(START + 10**9 + n * GAP, "p1", d) for n, d in enumerate(inner)] + [(START + 1_300_000_000, "p3", answer)]
        os.makedirs(folder, exist_ok=True)
        with Gateway(weir, folder, text, frames, paced=True, names=("p1", "p2", "p3")) as g:
            g.received(len(frames))
            time.sleep(0.2)
            macs = [s["mac"] for s in g.show("bridge", "lan", "macs")["macs"] if s["kind"] == "learned"]
        left = {p: [d for _, d in wire.read_pcap(os.path.join(folder, f"{p}-out.pcap"))] for p in ("p2", "p3")}
        carried = [packet.Fields(d).packet[36:] for d in left["p3"] if packet.Fields(d).dport == 4789]
        faults = []
        if macs != [packet.mac_text(A), packet.mac_text(B)]:
            faults.append(f"stations {macs}, those of the frames expected")
        if [d for d in carried if d[12:14] == b"\x88\xb5"][-2:] != inner:
            faults.append(f"the tunnel carried {[d[:40].hex() for d in carried]}")
        if [d for d in left["p2"] if d[6:12] == A][-2:] != inner or any(d[12:14] == b"\xc6\x33" for d in left["p2"]):
            faults.append(f"by p2 left {[d[:40].hex() for d in left['p2']]}")
        return faults


def all_cases():
    yield Held()
    yield later_fragment()
    yield redirected_broadcast()
    yield frames_without_ip()
    yield from configured_station()
    yield from ethertypes()
    yield groups()
    yield limit_at_the_start()


def cases():
    for n in range(len(list(all_cases()))):
        yield lambda n=n: list(all_cases())[n]
