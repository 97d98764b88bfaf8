"""A case: a configuration, steps (a packet with what has to leave), runs of `weir replay`, and the comparison.

Ports that weir draws are variables. A replay ends in front of the first packet with an unknown one; its output binds it, and the
next replay goes further. The same packets have to give the same output each time."""
import json
import os
import shutil
import subprocess

from packet import ACK, ICMP, ICMP6, REQUESTS, SYN, TCP, Unbound, Var, wire  # noqa: F401

START = 1_700_000_000_000_000_000
LAN, DMZ, WAN, WAN2 = "lan", "dmz", "wan", "wan2"
MACS = {LAN: 1, DMZ: 2, WAN: 3, WAN2: 4}
GAP = 1_000_000  # nanoseconds between packets: each is a vector by itself

TOPOLOGY = '''version = 1

[[interface]]
name = "lan"
port = "null"
mac = "02:00:00:00:00:01"
address = ["10.0.0.1/16", "fd00:1::1/64"]
{lan}
[[interface]]
name = "dmz"
port = "null"
mac = "02:00:00:00:00:02"
address = ["10.1.0.1/16", "fd00:2::1/64"]
{dmz}
[[interface]]
name = "wan"
port = "null"
mac = "02:00:00:00:00:03"
address = ["198.51.100.1/24", {own}"2001:db8:1::1/64"]
{wan}
[[interface]]
name = "wan2"
port = "null"
mac = "02:00:00:00:00:04"
address = ["203.0.113.1/24", "2001:db8:2::1/64"]
{wan2}
[icmp]
error-rate = 1000000
error-burst = 1000000
echo-rate = 1000000
echo-burst = 1000000

[[route]]
prefix = "0.0.0.0/0"
via = {{ address = "198.51.100.254" }}

[[route]]
prefix = "::/0"
via = {{ address = "2001:db8:1::fe" }}

[[route]]
prefix = "192.0.2.0/24"
via = {{ address = "203.0.113.254" }}
'''


def rows(rules):
    return "rules = [\n" + "".join(f"  '{r}',\n" for r in rules) + "]\n"


class Seen:
    """The line of a packet and the packets that left for it."""

    def __init__(self, line, frames):
        self.line, self.frames = line, frames


class Step:
    def __init__(self, time, interface, packet, out, verdict, reason, answer, note):
        self.time, self.interface, self.packet, self.out = time, interface, packet, out
        self.verdict, self.reason, self.answer, self.note = verdict, reason, answer, note


class Case:
    """`rules` is the list `edge` of wan, `lists` are further lists by name, `nat` the list of each further interface."""

    def __init__(self, name, rules=(), own=(), more="", keys="", lists=None, nat=None, extra=None, seed=0):
        self.name, self.rules, self.own, self.more, self.keys = name, list(rules), own, more, keys
        self.lists, self.nat, self.extra, self.seed = lists or {}, nat or {}, extra or {}, seed
        self.now, self.steps, self.groups = START, [], []
        self.refused = {}  # the rule that drops a packet, by its number

    def config(self):
        own = "".join(f'"{a}", ' for a in self.own)
        nat = {WAN: "edge", **self.nat} if self.rules else self.nat
        per = {i: (f'nat = "{nat[i]}"\n' if i in nat else "") + self.extra.get(i, "") for i in MACS}
        text = TOPOLOGY.format(own=own, **per)
        if self.rules:
            text += f"\n[nat.edge]\n{self.keys}" + rows(self.rules)
        return text + "".join(f"\n[nat.{n}]\n{rows(r)}" for n, r in self.lists.items()) + "\n" + self.more

    # Steps

    def wait(self, seconds):
        self.now += int(seconds * 1e9)

    def step(self, interface, packet, out=(), verdict="forward", reason=None, answer=None, note=""):
        """Adds a packet. `out`: pairs of interface and packet that leave for it, in order."""
        self.steps.append(Step(self.now, interface, packet, list(out), verdict, reason, answer, note))
        self.now += GAP

    def go(self, interface, packet, out, wanted, note=""):
        """Adds a packet that leaves by `out` as `wanted`, whose TTL is one less than that packet's says."""
        self.step(interface, packet, [(out, wanted.replace(ttl=wanted.ttl - 1))], note=note)

    def drop(self, interface, packet, reason, note=""):
        self.step(interface, packet, [], "drop", reason, note=note)

    def gone(self, packet, note=""):
        """Adds a packet from outside to an address of the gateway that belongs to no translation: the gateway takes it for
        itself."""
        self.step(WAN, packet, verdict="drop", reason="local-unhandled", note=note,
                  answer=lambda frames: "it passed" if any(i != WAN for i, _ in frames) else None)

    def both(self, inside, p, outside, q, back=None, note=""):
        """Adds a packet, with its translation, and the reply to the latter, with its translation."""
        self.go(inside, p, outside, q, note=note)
        self.go(outside, reply(q), inside, reply(p), note=f"{note} reply".strip())

    def different(self, *variables):
        """Demands that all these variables have different values."""
        self.groups.append(variables)

    # Runs

    def write(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(os.path.join(folder, "weir.toml"), "w") as f:
            f.write(self.config())

    def replay(self, weir, folder, packets):
        """Replays (time, interface, octets) in order of time. Returns a list of `Seen`, the summary, or the fault."""
        ins = []
        for name, number in MACS.items():
            own = [(t, wire.frame(d, bytes([2, 0, 0, 0, 0, number]))) for t, i, d in packets if i == name]
            if own:
                path = os.path.join(folder, f"{name}.pcap")
                wire.write_pcap(path, own)
                ins.append(f"--in={name}={path}")
        out = os.path.join(folder, "out")
        command = [weir, "replay", os.path.join(folder, "weir.toml"), "--json", f"--seed={self.seed}", "--out-dir", out,
                   *ins]
        with open(os.path.join(folder, "command"), "w") as f:
            f.write(" ".join(command) + "\n")
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
        for name, text in (("lines", done.stdout), ("summary", done.stderr)):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        if done.returncode:
            return None, f"weir replay ended with {done.returncode}: {(done.stderr + done.stdout)[:600]}"
        lines = {}
        for row in done.stdout.splitlines():
            line = json.loads(row)
            lines[line["n"]] = line
        left = {}
        for name in MACS:
            for time, data in wire.read_pcap(os.path.join(out, f"{name}.pcap")):
                if data[12:14] in (b"\x08\x00", b"\x86\xdd"):
                    left.setdefault(time, []).append((name, data[14:]))
        seen = [Seen(lines.get(n), left.pop(t, [])) for n, (t, _, _) in enumerate(packets, 1)]
        if left:
            return None, f"{sum(map(len, left.values()))} packets left without one that came in"
        if "every packet is accounted for" not in done.stderr:
            return None, "the sum of packets does not hold"
        return seen, done.stderr

    def run(self, weir, folder):
        """Runs the case and returns the list of faults."""
        self.write(folder)
        faults, judged, before = [], 0, []
        while judged < len(self.steps):
            packets = []
            for s in self.steps:
                try:
                    packets.append((s.time, s.interface, s.packet.octets()))
                except Unbound as e:
                    unknown = e
                    break
            if len(packets) == judged:
                return faults + [f"{unknown} is unknown in front of packet {judged + 1}"]
            seen, said = self.replay(weir, folder, packets)
            if seen is None:
                return faults + [said]
            for n, (a, b) in enumerate(zip(before, seen), 1):
                if a.frames != b.frames or a.line != b.line:
                    return faults + [f"packet {n} fares otherwise when further packets follow: {b.line} after {a.line}"]
            todo = list(range(judged, len(seen)))
            while todo:  # a later fragment may have come before the first, which binds the port
                later = []
                for n in todo:
                    try:
                        faults += [f"packet {n + 1} ({self.where(n)}): {f}" for f in self.step_faults(self.steps[n], seen[n])]
                        by = [x["by"]["rule"] for x in seen[n].line.get("nat", []) if x["effect"] == "dropped"]
                        if self.refused.get(n + 1) not in (None, *by):
                            faults.append(f"packet {n + 1} ({self.where(n)}): dropped by {by} instead of {self.refused[n + 1]}")
                    except Unbound as e:
                        later.append(n)
                        if len(later) == len(todo):
                            return faults + [f"packet {n + 1} ({self.where(n)}): {e} stays unknown"]
                todo = later
            judged, before = len(seen), seen
        for group in self.groups:
            values = [v.value for v in group]
            if len(set(values)) != len(values):
                faults.append(f"values that have to differ: {', '.join(map(str, group))}")
        return faults + list(self.summary_faults(said))

    def where(self, n):
        s = self.steps[n]
        return f"{s.interface}, {s.note + ': ' if s.note else ''}{s.packet}"

    def summary_faults(self, summary):
        """Compares the counts of drop reasons with the steps."""
        want = {}
        for s in self.steps:
            if isinstance(s.reason, str):
                want[s.reason] = want.get(s.reason, 0) + 1
            elif s.reason:
                return
        got, columns = {}, None
        for row in summary.splitlines():
            if row.startswith("Count "):
                columns = row.index("Reason"), row.index("Severity")
            elif columns and not row.strip():
                break
            elif columns:
                reason = row[columns[0]:columns[1]].strip()
                got[reason] = got.get(reason, 0) + int(row.split()[0])
        if got != want:
            yield f"the summary counts {got}, {want} expected"

    def step_faults(self, s, seen):
        line = seen.line
        if line is None:
            yield "no line"
            return
        verdicts = {s.verdict} if isinstance(s.verdict, str) else s.verdict
        if line["verdict"] not in verdicts:
            yield f"verdict {line['verdict']} {line['reason'] or ''} instead of {s.verdict} {s.reason or ''}"
        reasons = {s.reason} if s.reason is None or isinstance(s.reason, str) else s.reason
        if line["verdict"] == "drop" and s.reason is not None and line["reason"] not in reasons:
            yield f"reason {line['reason']} instead of {s.reason}"
        if s.answer is not None:
            if fault := s.answer(seen.frames):
                yield fault
            return
        if len(seen.frames) != len(s.out):
            got = ", ".join(f"{i} {d[:28].hex()}" for i, d in seen.frames[:3]) or "nothing"
            yield f"{len(seen.frames)} packets left ({got}) instead of {len(s.out)}"
            return
        for (out, wanted), (interface, got) in zip(s.out, seen.frames):
            if fault := compare(out, wanted, interface, got):
                yield fault


def compare(out, wanted, interface, got):
    """Binds the unknown fields of `wanted`, and returns the difference from the packet that left, or None."""
    if interface != out:
        return f"left by {interface} instead of {out}"
    try:
        fault = wanted.bind(got)
    except Exception as e:
        fault = f"cannot be read: {e!r}"
    if fault:
        return f"{fault} [{got[:60].hex()}]"
    want = wanted.octets()
    if got != want:
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        return (f"differs at octet {at} ({len(got)} octets, {len(want)} expected): {got[:80].hex()} instead of "
                f"{want[:80].hex()}")
    return None


def reply(p):
    """Returns the packet that answers: the other way round, of TCP with ACK, of ICMP the reply to the query."""
    if p.proto == ICMP:
        return p.replace(src=p.dst, dst=p.src, kind=REQUESTS[p.kind], ttl=64)
    if p.proto == ICMP6:
        return p.replace(src=p.dst, dst=p.src, kind=129, ttl=64)
    flags = (SYN | ACK if p.flags == SYN else ACK) if p.proto == TCP else 0
    return p.replace(src=p.dst, dst=p.src, sport=p.dport, dport=p.sport, flags=flags, ttl=64)
