"""A running gateway with pcap ports. `weir replay` checks each packet: only a running gateway takes the fast path.

Conversations side by side, each with its own ports: a round has the next packet of each. What leaves by `weir replay`, which the model
judges, has to leave by a running gateway with the fast path off and on; and `weir show flows` has to have the sessions of the model."""
import json
import os
import random
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))

import gateway  # noqa: E402
import random_sessions
from case import DMZ, HOSTS, LAN, MACS, START, WAN, Case, config, make_setup, steps, wire
from fields import REQUESTS
from lists import IN, OTHER, OUT, List, Rule
from model import World
from packet import ACK, FIN, ICMP, ICMP6, PORTS, RST, SCTP, SYN, TCP, UDP, Error, Packet
from questions import DEFECTS

PAUSE = 150_000_000  # nanoseconds between rounds
NEIGHBORS = [(LAN, a) for a in (*HOSTS[LAN], "10.0.0.254", "fd00:1::fe")] + [(DMZ, a) for a in HOSTS[DMZ]] + [(WAN, "198.51.100.254"), (WAN, "2001:db8:1::fe")]
ENTRY = {a: n for n, hosts in HOSTS.items() for a in hosts}


class Counting(World):
    """Worlds differ if they count otherwise."""

    def frozen(self):
        return super().frozen(), tuple(sorted((s.zone, s.key, s.counts) for s in self.sessions))


class Live(Case):
    """`length` rounds of `count` conversations."""

    def __init__(self, seed, count=30, length=11):
        rng = self.rng = random.Random(f"live {seed}")
        d = rng.choice((IN, OUT))
        opens = List("opens", [Rule("permit+reflect", what) for what in ("tcp", "udp", "icmp", "icmp6", "ip")], "deny")
        answers = List("answers", [Rule("permit", "tcp", flags=("syn", "syn,ack"))] if rng.random() < 0.5 else [], rng.choice(("deny", "reject")))
        lists = {(WAN, d): [opens], (WAN, OTHER[d]): [answers]}
        zones = {}
        kind = rng.randrange(4)
        if kind == 3:
            lists = random_sessions.lists(rng, (LAN, DMZ, WAN))
            zones = {LAN: rng.choice(("default", "inside")), DMZ: rng.choice(("default", "inside"))}
        if kind == 1:  # two zones, each with its sessions
            zones = {LAN: "inside", DMZ: "inside"}
            lists[LAN, OTHER[d]], lists[LAN, d] = [List("inner", opens.rules, "deny")], [List("inner-answers", [], "deny")]
        elif kind == 2:
            lists[LAN, IN] = [List("plain", [Rule("deny", "tcp", dports=range(444, 445))], "permit")]
        super().__init__(f"live-{seed}", make_setup((LAN, DMZ, WAN), lists, zones, pickup=rng.random() < 0.6))
        self.ways, self.world_of = ("false",), Counting
        outside = (HOSTS[WAN][0], HOSTS[WAN][2])
        inside = (HOSTS[LAN][0], HOSTS[LAN][2])
        world, talks = World(self.setup), []
        for n in range(count):
            a, b = (inside, outside) if (d == OUT if kind != 3 else rng.random() < 0.6) else (outside, inside)
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
        opened = super().run(weir, folder)
        if opened and not getattr(self, "open", None):
            return opened
        faults = []
        with open(os.path.join(folder, "lines")) as f:
            lines = {x["n"]: x for x in map(json.loads, f)}
        self.judge(lines, DEFECTS)  # what a running gateway counts may show a known defect
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
        if faults:
            self.open = None
        return faults or opened

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
            time.sleep((last + late - START) / 10**9 + 0.6)
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


class Times(Case):
    """Packets that take the fast path restart the time of their session, and those of another session do not: with time-outs of seconds. `shown` are
    packets with the interface that they have to leave by, or `None`."""

    def __init__(self, stretch=1):
        opens, answers = List("opens", [Rule("permit+reflect", "tcp"), Rule("permit+reflect", "udp")], "deny"), List("answers", [], "deny")
        self.stretch = stretch
        super().__init__("live-times", make_setup((LAN, WAN), {(WAN, OUT): [opens], (WAN, IN): [answers]}))
        self.groups = []
        self.want, n = {}, 0

        def send(at, entry, p, out):
            nonlocal n
            n += 1
            p = p.replace(data=b"time%06d" % n)
            self.groups.append([(START + int(at * stretch * 1e9), entry, p)])
            self.want[n] = (out, wire.forwarded(p.octets()))

        def talk(proto, port, ways, until, gap, last, alive):
            """Packets of the directions `ways` in turn every `gap` seconds until a time, then a reply at `last`."""
            a, b = Packet(proto, "10.0.0.5", "8.8.8.8", port, 443), Packet(proto, "8.8.8.8", "10.0.0.5", 443, port)
            if proto == TCP:
                send(0, LAN, a.replace(flags=SYN), WAN)
                send(0.1, WAN, b.replace(flags=SYN | ACK), LAN)
                send(0.2, LAN, a, WAN)
            else:
                send(0, LAN, a, WAN)
                send(0.1, WAN, b, LAN)
            at, turn = 0.3, 0
            while at < until:
                way = ways[turn % len(ways)]
                send(at, WAN if way else LAN, b if way else a, LAN if way else WAN)
                at, turn = at + gap, turn + 1
            send(at - gap + last, WAN, b, LAN if alive else None)
        for k, proto in enumerate((UDP, TCP)):
            for j, ways in enumerate(((0,), (1,), (0, 1))):
                port = 3000 + 100 * k + 10 * j
                talk(proto, port, ways, 4, 0.4, 1.5, True)
                talk(proto, port + 1, ways, 4, 0.4, 2.6, False)
                talk(proto, port + 2, ways, 0.5, 0.4, 2.6, False)
                talk(proto, port + 3, ways, 4, 1.5, 1.5, True)
        self.groups.sort(key=lambda g: g[0][0])

    def run(self, weir, folder):
        os.makedirs(folder, exist_ok=True)
        faults = list(self.once(weir, folder, "true", 1))
        if faults:  # a busy machine is late
            faults = list(Times(3).once(weir, folder, "true", 1))
        return faults

    def once(self, weir, folder, enabled, packets):
        inputs = {n: [(START - 1_000_000_000, wire.frame(Packet(UDP, "10.0.0.5", "8.8.8.8", 1, 1).octets(), bytes([2, 0, 0, 0, 0, 99])))] for n in self.setup.interfaces}
        for t, i, p in self.steps:
            inputs[i].append((t, wire.frame(p.octets(), bytes([2, 0, 0, 0, 0, MACS[i]]))))
        for n, frames in inputs.items():
            wire.write_pcap(os.path.join(folder, f"{n}-in.pcap"), frames)
        seconds = 2 * self.stretch
        g = gateway.Gateway(weir, folder, config(self.setup) + f'\n[flow-table.timeouts]\nudp = "{seconds}s"\nudp-stream = "{seconds}s"\ntcp-established = "{seconds}s"\n',
                            inputs, [x for x in NEIGHBORS if x[0] in inputs], 1, enabled, keys=f"packets = {packets}\n")
        g.start()
        want = [left for out, left in self.want.values() if out]
        try:
            g.settle({n: sum(out == n for out, _ in self.want.values()) for n in inputs}, 12 * self.stretch, lambda frames: sum(b"time" in d for d in frames))
            _, text = g.ask("show", "flows", "--json")
        finally:
            g.stop()
        hits = json.loads(text.splitlines()[0])["fast-path"]["hits"]
        if (hits > 60) != (enabled == "true"):
            yield f"fast path {enabled}: {hits} packets took it"
        got = [(n, d) for n in inputs for d in g.output(n)]
        for number, (out, left) in self.want.items():
            where = [n for n, d in got if d == left]
            if where != ([out] if out else []):
                yield f"fast path {enabled}: packet {number} {left[:28].hex()} left by {where} instead of {out}"


class Changes(Case):
    """Lists change under traffic. A round has commands, and then packets: (interface, packet, the interface that it has to leave by or `None`)."""

    def __init__(self, name, keep=False, rules=None, more=None, zones=None):
        self.keep = keep
        opens = List("opens", rules or [Rule("permit+reflect", "udp", dports=range(53, 54)), Rule("permit+reflect", "udp"), Rule("permit+reflect", "tcp")], "deny")
        lists = {(WAN, OUT): [opens], (WAN, IN): [List("answers", [], "deny")], **(more or {})}
        super().__init__(name, make_setup((LAN, DMZ, WAN), lists, zones, pickup=False))
        self.rounds, self.groups = [], []

    def round(self, packets, *commands):
        """`commands`: words of weir, or a pair of a text of the configuration and another one, which a reload puts in its place."""
        out = []
        for entry, p, by in packets:
            p = p.replace(data=b"keep%06d" % len(self.groups))
            self.groups.append([(0, entry, p)])
            out.append((entry, p, by))
        self.rounds.append((commands, out))

    def run(self, weir, folder):
        os.makedirs(folder, exist_ok=True)
        for seconds in (1.5, 8):  # a busy machine is late
            faults = list(self.once(weir, folder, "true", seconds))
            if not faults:
                break
        return faults

    def once(self, weir, folder, enabled, seconds):
        inputs = {n: [(0, wire.frame(Packet(UDP, "10.0.0.5", "8.8.8.8", 1, 1).octets(), bytes([2, 0, 0, 0, 0, 99])))] for n in self.setup.interfaces}
        for r, (_, packets) in enumerate(self.rounds):
            for k, (entry, p, _) in enumerate(packets):
                at = 1_500_000_000 + int(r * seconds * 10**9) + k * 20_000_000
                inputs[entry].append((at, wire.frame(p.octets(), bytes([2, 0, 0, 0, 0, MACS[entry]]))))
        for n, frames in inputs.items():
            wire.write_pcap(os.path.join(folder, f"{n}-in.pcap"), frames)
        keys = f'packets = 1\ntcp-pickup = false\non-change = "{"keep" if self.keep else "recheck"}"\n'
        g = gateway.Gateway(weir, folder, config(self.setup), inputs, NEIGHBORS, 1, enabled, keys=keys)
        g.start()
        try:
            yield from self.judge_rounds(g, seconds)
        finally:
            g.stop()

    def judge_rounds(self, g, seconds):
        want = {n: [] for n in g.inputs}
        for r, (commands, packets) in enumerate(self.rounds, 1):
            for words in commands:
                if len(words) == 2 and words[0] in g.text:
                    g.text = g.text.replace(*words)
                    g.write(g.text)
                    words = ("reload",)
                code, text = g.ask(*words)
                if code:
                    yield f"in front of round {r}: weir {' '.join(words)} ended with {code}: {text[:400]!r}"
                    return
            for entry, p, by in packets:
                if by:
                    want[by].append(wire.forwarded(p.octets()))
            if all(by is None for _, _, by in packets):
                time.sleep(seconds)
            g.settle({n: len(w) for n, w in want.items()}, 2 * seconds + 2, lambda frames: sum(b"keep" in d for d in frames))
            time.sleep(0.1 + 0.02 * len(packets))
            for n, w in want.items():
                got = [d for d in g.output(n) if b"keep" in d]
                if sorted(got) != sorted(w):
                    yield (f"round {r}: {len(got)} packets left by {n}, {len(w)} expected; missing {[d.hex() for d in w if d not in got][:2]}, "
                           f"others {[d.hex() for d in got if d not in w][:2]}")
                    return


def talk(port, proto=UDP, dport=99):
    """Returns functions that give a packet of a conversation with the interface that it has to leave by: from inside, and the reply."""
    a, b = Packet(proto, "10.0.0.5", "8.8.8.8", port, dport, flags=ACK), Packet(proto, "8.8.8.8", "10.0.0.5", dport, port, flags=ACK)

    def out(flags=ACK, by=WAN):
        return LAN, a.replace(flags=flags), by

    def reply(flags=ACK, by=LAN):
        return WAN, b.replace(flags=flags), by
    return out, reply


def rechecked(name, keep, *commands):
    """Conversations by each of three rules, of which a change takes that of UDP away: its sessions end, the others go on."""
    c = Changes(name, keep)
    (dns, answer), (other, back), (web, page) = talk(1000, UDP, 53), talk(1001), talk(1002, TCP, 80)
    c.round([dns(), answer(), dns(), answer(), other(), back(), other(), back(), web(SYN), page(SYN | ACK), web(), page(), web(), page()])
    by = (LAN, WAN) if keep else (None, None)
    c.round([answer(), dns(), back(by=by[0]), other(by=by[1]), page(), web(), back(by=by[0])], *commands)
    return c


def changes():
    yield lambda: rechecked("live-delete", False, ("acl", "delete", "opens", "permit+reflect udp from any to any"))
    yield lambda: rechecked("live-keep", True, ("acl", "delete", "opens", "permit+reflect udp from any to any"))
    yield lambda: rechecked("live-reload", False, ("  'permit+reflect udp from any to any',\n", ""))
    yield lambda: rechecked("live-deny", False, ("acl", "insert", "opens", "deny udp from any to any port 99", "--at", "1"))
    yield lambda: rechecked("live-plain", False, ("acl", "insert", "opens", "deny udp from any port 1001 to any", "--at", "1"))


def unchanged():
    """Changes that end no session: another rule permits it, a list of others, a reload of the same file."""
    c = Changes("live-unchanged")
    (dns, answer), (web, page) = talk(1000, UDP, 53), talk(1002, TCP, 80)
    both = [dns(), answer(), web(), page(), answer(), page()]
    c.round([dns(), answer(), web(SYN), page(SYN | ACK), web(), page(), *both])
    c.round(both, ("acl", "delete", "opens", "permit+reflect udp from any to any port 53"))
    c.round(both, ("acl", "insert", "answers", "deny ip from any to any"))
    c.round(both, ("reload",))
    return c


def two_directions():
    """A session that rules of both directions opened keeps the direction whose rule still matches."""
    inner, none = List("inner", [Rule("permit+reflect", "udp")], "deny"), List("inner-answers", [], "deny")
    c = Changes("live-two-directions", more={(LAN, IN): [inner], (LAN, OUT): [none]})
    out, back = talk(1000)
    c.round([out(), back(), out(), back()])
    c.round([back(by=None), out(by=None)], ("acl", "delete", "inner", "permit+reflect udp from any to any"))
    c.round([back(), out()], ("acl", "insert", "inner", "permit udp from any to any"), ("acl", "insert", "inner-answers", "permit udp from any to any"))
    return c


def ended():
    """A session ends as the zone of its interface changes, and by `weir clear flows`."""
    c = Changes("live-zone")
    out, back = talk(1000)
    c.round([out(), back(), out(), back()])
    c.round([back(by=None)], ('name = "wan"\n', 'name = "wan"\nzone = "outside"\n'))
    c.round([out(), back()])
    yield c
    c = Changes("live-clear")
    other, answer = talk(1001, UDP, 53)
    c.round([out(), back(), out(), back(), other(), answer()])
    c.round([back(by=None), answer(), other()], ("clear", "flows", "udp from any to any port 99"))
    c.round([answer(by=None)], ("clear", "flows"))
    yield c


def cases():
    for seed in (1, 7):  # 7 has two zones
        yield lambda seed=seed: Live(seed)
    yield Times
    yield from changes()
    yield from (unchanged, two_directions)
    yield from (lambda c=c: c for c in ended())
