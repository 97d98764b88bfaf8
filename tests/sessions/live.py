"""A running gateway with pcap ports. `weir replay` checks each packet: only a running gateway takes the fast path.

Conversations side by side, each with its own ports: a round has the next packet of each. What leaves by `weir replay`, which the model
judges, has to leave by a running gateway with the fast path off and on; and `weir show flows` has to have the sessions of the model."""
import json
import os
import random
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))

import gateway  # noqa: E402
from case import DMZ, HOSTS, LAN, MACS, START, WAN, Case, config, make_setup, steps, wire
from fields import REQUESTS
from lists import IN, OTHER, OUT, List, Rule
from model import World
from packet import ACK, FIN, ICMP, ICMP6, PORTS, RST, SCTP, SYN, TCP, UDP, Error, Packet

PAUSE = 150_000_000  # nanoseconds between rounds
NEIGHBORS = [(LAN, a) for a in (*HOSTS[LAN], "10.0.0.254", "fd00:1::fe")] + [(DMZ, a) for a in HOSTS[DMZ]] + [(WAN, "198.51.100.254"), (WAN, "2001:db8:1::fe")]
ENTRY = {a: n for n, hosts in HOSTS.items() for a in hosts}


class Live(Case):
    """`length` rounds of `count` conversations."""

    def __init__(self, seed, count=40, length=12):
        rng = self.rng = random.Random(f"live {seed}")
        d = rng.choice((IN, OUT))
        opens = List("opens", [Rule("permit+reflect", what) for what in ("tcp", "udp", "icmp", "icmp6", "ip")], "deny")
        answers = List("answers", [Rule("permit", "tcp", flags=("syn", "syn,ack"))] if rng.random() < 0.5 else [], rng.choice(("deny", "reject")))
        lists = {(WAN, d): [opens], (WAN, OTHER[d]): [answers]}
        zones = {}
        kind = rng.randrange(3)
        if kind == 1:  # two zones, each with its sessions
            zones = {LAN: "inside", DMZ: "inside"}
            lists[LAN, OTHER[d]], lists[LAN, d] = [List("inner", opens.rules, "deny")], [List("inner-answers", [], "deny")]
        elif kind == 2:
            lists[LAN, IN] = [List("plain", [Rule("deny", "tcp", dports=range(444, 445))], "permit")]
        super().__init__(f"live-{seed}", make_setup((LAN, DMZ, WAN), lists, zones, pickup=rng.random() < 0.6))
        self.ways = ("false",)
        outside = (HOSTS[WAN][0], HOSTS[WAN][2])
        inside = (HOSTS[LAN][0], HOSTS[LAN][2])
        world, talks = World(self.setup), []
        for n in range(count):
            a, b = (inside, outside) if d == OUT else (outside, inside)
            v6 = rng.random() < 0.4
            talks.append((rng.choice((TCP, TCP, TCP, TCP, UDP, UDP, SCTP, ICMP)), a[v6], b[v6], 2000 + n))
        tag = 0
        for turn in range(length):
            for proto, a, b, port in talks:
                way = rng.choice((0, 1)) if turn else 0
                for repeat in range(rng.choice((1, 1, 1, 3))):
                    tag += 1
                    p = self.packet(world, proto, a, b, port, way, turn, b"live%06d" % tag)
                    if repeat and p.proto == TCP:  # perhaps in one vector: their order is left open
                        p = p.replace(flags=ACK)
                    if repeat and (last.proto != p.proto or last.proto == TCP and last.flags != ACK):
                        break
                    last = p
                    group = [(self.now, ENTRY[p.src], p)]
                    self.groups.append(group)
                    steps(world, group)
                    self.now += 200_000
            self.now += PAUSE
        self.talks = talks

    def packet(self, world, proto, a, b, port, way, turn, data):
        rng = self.rng
        src, dst = (b, a) if way else (a, b)
        if proto == ICMP:
            v6 = ":" in src
            kind = 128 if v6 else 8
            return Packet(ICMP6 if v6 else ICMP, src, dst, port, data=data, kind=REQUESTS[ICMP6 if v6 else ICMP, kind] if way else kind)
        p = Packet(proto, src, dst, *((443, port) if way else (port, 443)), data)
        if proto == TCP:
            s, _ = next(((s, 0) for s in world.sessions if s.key[3] == port), (None, 0))
            state = s.state if s else None
            likely = {None: (SYN,), "syn-sent": (SYN | ACK,) if way else (SYN, ACK), "syn-recv": (ACK,), "established": (ACK,) * 8 + (ACK | FIN, RST, SYN), "unreplied": (ACK,)}
            p = p.replace(flags=rng.choice(likely.get(state, (ACK, ACK, ACK, ACK | FIN, SYN, SYN | ACK))))
        if turn > 2 and rng.random() < 0.04:
            return Error(dst, src, p.replace(src=src, dst=dst)) if ENTRY[dst] != ENTRY[src] and proto in PORTS else p
        return p

    def run(self, weir, folder):
        faults = super().run(weir, folder)
        if faults:
            return faults
        with open(os.path.join(folder, "lines")) as f:
            lines = {x["n"]: x for x in map(json.loads, f)}
        want, known = {n: [] for n in self.setup.interfaces}, set()
        for n, (_, _, p) in enumerate(self.steps, 1):
            left = wire.forwarded(p.octets())
            known.add(left)
            if lines[n]["verdict"] == "forward":
                want[lines[n]["out"][0]].append(left)
        for enabled, packets in (("false", 2), ("true", 1)):
            found = self.once(weir, folder, enabled, packets, want, known, 1)
            if found:  # a worker that slept longer than a pause takes replies before what they answer
                found = self.once(weir, folder, enabled, packets, want, known, 5)
            faults += [f"fast path {enabled}, packets {packets}: {f}" for f in found]
        return faults

    def once(self, weir, folder, enabled, packets, want, known, stretch):
        return list(self.differences(weir, folder, enabled, packets, want, known, stretch))

    def differences(self, weir, folder, enabled, packets, want, known, stretch):
        inputs = {n: [(START - 500_000_000, wire.frame(Packet(UDP, "10.0.0.5", "8.8.8.8", 1, 1).octets(), bytes([2, 0, 0, 0, 0, 99])))] for n in want}
        late, last = 0, START
        for t, i, p in self.steps:
            if t - last >= PAUSE:
                late += PAUSE * (stretch - 1)
            last = t
            inputs[i].append((t + late, wire.frame(p.octets(), bytes([2, 0, 0, 0, 0, MACS[i]]))))
        for n, frames in inputs.items():
            wire.write_pcap(os.path.join(folder, f"{n}-in.pcap"), frames)
        g = gateway.Gateway(weir, folder, config(self.setup), inputs, NEIGHBORS, 1, enabled,
                            keys=f"packets = {packets}\ntcp-pickup = {str(self.setup.pickup).lower()}\n")
        g.start()
        try:
            g.settle({n: len(w) for n, w in want.items()}, 6 * stretch, lambda frames: sum(d in known for d in frames))
            _, text = g.ask("show", "flows", "--json", "--limit", "10000")
        finally:
            g.stop()
        with open(os.path.join(folder, f"flows-{enabled}-{packets}"), "w") as f:
            f.write(text)
        for n, w in want.items():
            got = [d for d in g.output(n) if d in known]
            if sorted(got) != sorted(w):
                missing, more = [d for d in w if d not in got], [d for d in got if d not in w]
                yield f"{len(got)} packets left by {n}, {len(w)} expected; missing {[d.hex() for d in missing[:2]]}, others {[d.hex() for d in more[:2]]}"
        shown = json.loads(text.splitlines()[0])
        yield from self.sessions(shown)

    def sessions(self, shown):
        """Compares the sessions with those of the worlds that are left."""
        got = {}
        for x in shown["sessions"]:
            icmp = x["icmp-identifier"] is not None
            key = (x["protocol-number"], x["source"], x["destination"], x["icmp-identifier"] if icmp else x["source-port"], x["icmp-type"] if icmp else x["destination-port"])
            got[x["zone"], key] = x
        faults = []
        for w in self.worlds:
            fault = next(self.compare(w, got), None)
            if fault is None:
                return []
            faults.append(fault)
        return faults[:1]

    def compare(self, world, got):
        want = {(s.zone, s.key): s for s in world.sessions}
        if set(want) != set(got):
            yield f"sessions {sorted(set(got) - set(want))[:3]} are there, {sorted(set(want) - set(got))[:3]} are not"
            return
        for key, s in want.items():
            x, seconds = got[key], s.timeout(self.setup) / 10**9
            have = (x["state"], x["half-open"], (x["packets"], x["reply-packets"]), {o["direction"] for o in x["opened-by"]})
            if have != (s.state, world.half_open(s), s.counts, set(s.openers)):
                yield f"session {key} is {have} instead of {(s.state, world.half_open(s), s.counts, set(s.openers))}"
            if not seconds - 9 < x["expires"] <= seconds:
                yield f"session {key} in {s.state} ends in {x['expires']} s instead of {seconds} s behind its last packet"


def cases():
    for seed in (1, 3):  # 3 has two zones
        yield lambda seed=seed: Live(seed)
