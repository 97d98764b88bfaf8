"""A running gateway with pcap ports: fast path on and off, one to four workers, changes of rules.

Rules and packets are those for which every port follows (`preserve` and free, fixed, or none), so that what leaves is known before.
`weir replay` checks each packet: only a running gateway takes the fast path."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))

from case import Case, rows  # noqa: E402
from packet import udp, wire  # noqa: E402
from random_nat import RandomCase  # noqa: E402
import gateway  # noqa: E402

IN_USE = ("10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8", "10.0.0.9", "10.0.0.77")
NEIGHBORS = [("lan", a) for a in (*IN_USE, "10.0.0.80", "fd00:1::5", "fd00:1::9", "fd00:1::fe")] + [("dmz", a) for a in ("10.1.0.5", "10.1.0.6", "10.1.0.77")] + [
    ("wan", "198.51.100.254"), ("wan", "2001:db8:1::fe"), ("wan2", "203.0.113.254")]
PAUSE = 200_000_000  # nanoseconds between rounds, in which a busy machine gets to all packets of the round before


class Fixed(RandomCase):
    """A random policy without chance: what leaves by `weir replay` leaves by a running gateway, in every octet."""

    def __init__(self, seed):
        super().__init__(seed, fixed=True, rounds=4, packets=50)
        self.name = f"live-{seed}"

    def make_round(self):
        out = super().make_round()
        self.now += PAUSE
        return out

    def run(self, weir, folder):
        faults = super().run(weir, folder)
        if faults:
            return faults
        want = {n: [] for n in ("lan", "dmz", "wan", "wan2")}
        drops, self.entries = {}, {}
        for s, (_, entry, _) in zip(self.seen, self.packets):
            for interface, data in s.frames:
                want[interface].append(data)
                self.entries[data] = entry
            if s.line["verdict"] == "drop":
                drops[s.line["reason"]] = drops.get(s.line["reason"], 0) + 1
        # With several workers, packets that a source rule sends out where they came in are dropped.
        plain = any(t.out == t.entry for t in self.model.live)
        for workers, enabled in ((1, "false"), (1, "true")) if plain else ((1, "false"), (1, "true"), (2, "true"), (4, "true"), (2, "false")):
            found = list(self.once(weir, folder, workers, enabled, want, drops, 1))
            if found:  # a worker that slept longer than a pause takes replies before what they answer
                found = list(self.once(weir, folder, workers, enabled, want, drops, 6))
            faults += [f"{workers} workers, fast path {enabled}: {f}" for f in found]
        return faults

    def flows(self, packets):
        """Returns the packets of each flow in their order, but for fragments, of which some waited."""
        flows = {}
        for d in packets:
            p = wire.Ip(d)
            if not p.fragment:
                flows.setdefault((self.entries[d], p.src, p.dst, p.proto, p.payload[:4] if p.proto != 1 else b""), []).append(d)
        return flows

    def once(self, weir, folder, workers, enabled, want, drops, stretch):
        start = self.packets[0][0]
        first = wire.udp("10.0.0.5", "10.1.0.5", 1, 1, b"first")
        macs = {"lan": 1, "dmz": 2, "wan": 3, "wan2": 4}
        inputs = {n: [] for n in macs}
        for n in macs:  # a port paces packets from its first one on
            inputs[n].append((start - 500_000_000, wire.frame(first, bytes([2, 0, 0, 0, 0, 99]))))
        late, last = 0, start
        for t, i, p in self.packets:
            if t - last >= PAUSE:
                late += PAUSE * (stretch - 1)
            last = t
            inputs[i].append((t + late, wire.frame(p.octets(), bytes([2, 0, 0, 0, 0, macs[i]]))))
        for n, packets in inputs.items():
            wire.write_pcap(os.path.join(folder, f"{n}-in.pcap"), packets)
        g = gateway.Gateway(weir, folder, self.config(), inputs, NEIGHBORS, workers, enabled)
        g.start()
        try:
            g.settle({n: len(w) for n, w in want.items()}, 5 + 3 * stretch)
            got_drops = g.errors()
            _, taken = g.ask("show", "flows", "--json")
            if enabled == "false" and '"hits":0' not in taken or enabled == "true" and len(self.model.live) > 8 and '"hits":0' in taken:
                yield f"packets that took the fast path: {taken[-300:]}"
        finally:
            g.stop()
        with open(os.path.join(folder, f"flows-{workers}-{enabled}"), "w") as f:
            f.write(taken)
        got_drops.pop("not-our-mac", None)
        for n in want:
            got = g.output(n)
            if sorted(got) != sorted(want[n]):
                missing = [d for d in want[n] if d not in got]
                more = [d for d in got if d not in want[n]]
                yield (f"{len(got)} packets left by {n}, {len(want[n])} expected; {len(missing)} missing {[d[:60].hex() for d in missing[:2]]}, "
                       f"{len(more)} others {[d[:60].hex() for d in more[:2]]}")
            elif workers == 1 and self.flows(got) != self.flows(want[n]):
                yield f"the packets of a flow left by {n} in another order"
        if workers == 1 and got_drops != drops:
            yield f"dropped {got_drops}, {drops} expected"


class Changes(Case):
    """Rules change under traffic. Each round of packets has what has to leave; commands run in front of it."""

    def __init__(self, name, rules, **k):
        super().__init__(name, rules, own=["198.51.100.50/32", "198.51.100.51/32", "198.51.100.81/32"], **k)
        self.rounds = []

    def round(self, steps, *commands):
        """Adds a round: commands (arguments of weir, or rules for a reload, each with a text that the answer has to contain),
        then packets (interface, packet, interface or None, packet)."""
        self.rounds.append((commands, steps))
        self.steps += steps

    def run(self, weir, folder):
        rules = self.rules
        for seconds in (4, 15):  # a worker that slept longer than the pauses takes replies before what they answer
            self.rules = rules
            faults = self.once(weir, folder, seconds)
            if not faults:
                break
        return faults

    def once(self, weir, folder, seconds):
        self.write(folder)
        macs = {"lan": 1, "dmz": 2, "wan": 3, "wan2": 4}
        first = wire.udp("10.0.0.5", "10.1.0.5", 1, 1, b"first")
        inputs = {n: [(0, wire.frame(first, bytes([2, 0, 0, 0, 0, 99])))] for n in macs}
        for r, (_, steps) in enumerate(self.rounds):
            for n, (entry, p, _, _) in enumerate(steps):
                inputs[entry].append((1_000_000_000 + r * seconds * 10**9 + n * seconds * 10_000_000,
                                      wire.frame(p.octets(), bytes([2, 0, 0, 0, 0, macs[entry]]))))
        for n, packets in inputs.items():
            wire.write_pcap(os.path.join(folder, f"{n}-in.pcap"), packets)
        g = gateway.Gateway(weir, folder, self.config(), inputs, NEIGHBORS)
        g.start()
        try:
            return list(self.judge(g, seconds * 2))
        finally:
            g.stop()

    def judge(self, g, seconds):
        want = {n: [] for n in g.inputs}
        for r, (commands, steps) in enumerate(self.rounds, 1):
            for words, answer in commands:
                if isinstance(words, list):
                    old, self.rules = rows(self.rules), words
                    g.text = g.text.replace(old, rows(words))
                    g.write(g.text)
                    words = ("reload",)
                code, text = g.ask(*words)
                if code or answer not in text:
                    yield f"in front of round {r}: weir {' '.join(words)} ended with {code}: {text[:600]!r}, and {answer!r} expected"
            for _, p, out, q in steps:
                if out is not None:
                    want[out].append(q.replace(ttl=q.ttl - 1).octets())
            g.settle({n: len(w) for n, w in want.items()}, seconds, lambda packets: sum(b"keep" in d for d in packets))
            for n in want:  # answers of the gateway itself, which are ICMP errors or resets from its own address, do not count
                got = [d for d in g.output(n) if d in want[n] or b"keep" in d]
                if got != want[n]:
                    yield f"round {r}: {len(got)} packets left by {n}: {[d[:40].hex() for d in got[-3:]]} instead of {[d[:40].hex() for d in want[n][-3:]]}"
                    return


def changes():
    """A reload, live rules and `weir clear nat` end the translations that they concern, and no others."""
    c = Changes("live-changes", ["source udp from 10.0.0.5 to any as 198.51.100.50 preserve", "source udp from any to any as interface preserve"])

    def out(host, source, port):
        return "lan", udp(host, "8.8.8.8", port, 53, b"keep"), "wan", udp(source, "8.8.8.8", port, 53, b"keep")

    def back(host, source, port):
        return "wan", udp("8.8.8.8", source, 53, port, b"keep"), "lan", udp("8.8.8.8", host, 53, port, b"keep")

    def lost(source, port):
        return "wan", udp("8.8.8.8", source, 53, port, b"lost"), None, None
    five, six, seven = "10.0.0.5", "10.0.0.6", "10.0.0.7"
    a, b, own, other = "198.51.100.50", "198.51.100.51", "198.51.100.1", "198.51.100.81"
    c.round([out(five, a, 5005), back(five, a, 5005), out(six, own, 5006), back(six, own, 5006), out(seven, own, 5007), back(seven, own, 5007)])
    changed = ["source udp from 10.0.0.5 to any as 198.51.100.51 preserve", c.rules[1]]
    c.round([back(six, own, 5006), lost(a, 5005), out(five, b, 5005), back(five, b, 5005), back(seven, own, 5007)], (changed, "1 translation"))
    c.round([back(seven, own, 5007), out(six, other, 5006), back(six, other, 5006), lost(own, 5006), back(five, b, 5005)],
            (("nat", "insert", "edge", "--at", "1", "source udp from 10.0.0.6 to any as 198.51.100.81 preserve"), ""))
    c.round([out(six, own, 5006), back(seven, own, 5007), lost(other, 5006), back(six, own, 5006)], (("nat", "delete", "edge", "--at", "1"), ""))
    c.round([lost(own, 5007), back(six, own, 5006), back(five, b, 5005), out(seven, own, 5007)],
            (("clear", "nat", "udp", "from", "10.0.0.7", "to", "any"), "1"))
    return c


class Logged(Changes):
    """A running gateway whose log has these lines about translations, in this order, and no others."""

    lines = ()

    def once(self, weir, folder, seconds):
        log = os.path.join(folder, "log")
        if os.path.exists(log):
            os.remove(log)
        faults = super().once(weir, folder, seconds)
        with open(log, errors="replace") as f:
            lines = [line[line.index("nat: "):].strip() for line in f if "nat: created" in line or "nat: ended" in line]
        if lines != list(self.lines):
            faults.append(f"the log says {lines}, {list(self.lines)} expected")
        return faults


def log():
    """The option `log` of a rule: a line when a translation begins, and one when it ends (docs/nat.md, Log of translations)."""
    rules = ["source udp from 10.0.0.6 to any as interface preserve", "source udp from any to any as interface preserve log"]
    c = Logged("live-log", rules)
    five, six, own = "10.0.0.5", "10.0.0.6", "198.51.100.1"

    def out(host, port):
        return "lan", udp(host, "8.8.8.8", port, 53, b"keep"), "wan", udp(own, "8.8.8.8", port, 53, b"keep")
    c.round([out(five, 5005), out(six, 5006), out(five, 5005)])
    c.round([out(five, 5007)], (("clear", "nat", "udp", "from", five, "to", "any"), "1"))
    ends = "udp from {0}:{1} to 8.8.8.8:53 as {2}:{1} to 8.8.8.8:53, nat edge rule 2"
    first, second = ends.format(five, 5005, own), ends.format(five, 5007, own)
    c.lines = [f"nat: created {first}", f"nat: ended {first}", f"nat: created {second}"]
    return c


def cases():
    yield changes
    yield log
    for seed in (1, 2, 3, 4, 6):  # 6 has hairpins without a translated source, by several workers
        yield lambda seed=seed: Fixed(seed)
