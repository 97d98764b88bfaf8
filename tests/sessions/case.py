"""A case: a setup, its configuration, packets with times, one run of `weir replay`, and the comparison with the model and with what
the case itself says."""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "nat"), os.path.join(HERE, "..", "ipsec")]

from fields import Fields  # noqa: E402
from lists import IN, OUT, Interface, Setup  # noqa: E402
from model import World, merge, outcomes  # noqa: E402
from packet import ICMP, ICMP6, TCP, Error, Part, Raw, wire  # noqa: E402
from questions import DEFECTS  # noqa: E402

START = 1_700_000_000_000_000_000
MS = 1_000_000
GAP = 200_000  # nanoseconds between packets: each is a vector by itself
LAN, DMZ, WAN = "lan", "dmz", "wan"
MACS = {LAN: 1, DMZ: 2, WAN: 3}
ADDRESSES = {LAN: ("10.0.0.1/16", "fd00:1::1/64"), DMZ: ("10.1.0.1/16", "fd00:2::1/64"), WAN: ("198.51.100.1/24", "2001:db8:1::1/64")}
GATES = {LAN: ("10.0.0.254", "fd00:1::fe"), WAN: ("198.51.100.254", "2001:db8:1::fe")}
HOSTS = {LAN: ("10.0.0.5", "10.0.0.6", "fd00:1::5", "fd00:1::6"), DMZ: ("10.1.0.5", "10.1.0.6", "fd00:2::5"),
         WAN: ("8.8.8.8", "9.9.9.9", "2001:db8:9::8", "2001:db8:9::9")}
BLACKHOLE, UNREACHABLE = "203.0.113.0/24", "192.0.2.0/24"
WORLDS = 256  # histories that are followed at most


def make_setup(names, lists, zones=None, **keys):
    """`lists`: (interface, direction): lists. With `LAN` alone the gateway has one arm."""
    interfaces = [Interface(n, (zones or {}).get(n, "default"), [a.split("/")[0] for a in ADDRESSES[n]], {d: lists.get((n, d), []) for d in (IN, OUT)})
                  for n in names]
    routes = [(a.split("/")[0], None) for n in names for a in ADDRESSES[n]]
    routes += [(a.replace("::1/", "::/").replace("0.1/16", "0.0/16").replace("100.1/24", "100.0/24"), n) for n in names for a in ADDRESSES[n]]
    last = WAN if WAN in names else LAN
    routes += [(BLACKHOLE, "blackhole"), (UNREACHABLE, "unreachable"), ("0.0.0.0/0", last), ("::/0", last)]
    return Setup(interfaces, routes, **keys)


def config(setup, flow_table=""):
    """Returns the text of the configuration of a setup."""
    text, known = "version = 1\n\n[icmp]\nerror-rate = 1000000\nerror-burst = 1000000\necho-rate = 1000000\necho-burst = 1000000\n", {}
    for i in setup.interfaces.values():
        text += f'\n[[interface]]\nname = "{i.name}"\nport = "null"\nmac = "02:00:00:00:00:0{MACS[i.name]}"\naddress = {json.dumps(ADDRESSES[i.name])}\n'
        if i.zone != "default":
            text += f'zone = "{i.zone}"\n'
        parts = [f"{d} = {json.dumps([x.name for x in i.lists[d]])}" for d in (IN, OUT) if i.lists[d]]
        if parts:
            text += f"acl = {{ {', '.join(parts)} }}\n"
        known.update({x.name: x for d in (IN, OUT) for x in i.lists[d]})
    last = WAN if WAN in setup.interfaces else LAN
    for prefix, gate in zip(("0.0.0.0/0", "::/0"), GATES[last]):
        text += f'\n[[route]]\nprefix = "{prefix}"\nvia = {{ address = "{gate}" }}\n'
    for prefix, kind in ((BLACKHOLE, "blackhole"), (UNREACHABLE, "unreachable")):
        text += f'\n[[route]]\nprefix = "{prefix}"\ntype = "{kind}"\n'
    for x in known.values():
        rules = "".join(f"  '{r.text()}',\n" for r in x.rules)
        text += f'\n[acl.{x.name}]\ndefault = "{x.default}"\n' + (f"rules = [\n{rules}]\n" if rules else "")
    return text + flow_table


def flow_table(setup, timeouts, enabled='"auto"', packets=2, half_open=None, more=""):
    text = f"\n[flow-table]\nenabled = {enabled}\npackets = {packets}\nsessions = {setup.sessions}\ntcp-pickup = {str(setup.pickup).lower()}\n{more}"
    if half_open is not None:
        text += f"half-open = {half_open}\n"
    if timeouts:
        text += "\n[flow-table.timeouts]\n" + "".join(f'{k} = "{v}s"\n' for k, v in timeouts.items())
    return text


class Case:
    """`groups`: lists of packets that belong together, (time, interface, packet) each: one packet, or the fragments of one."""

    def __init__(self, name, setup, timeouts=None, half_open=None, more="", packets=2):
        self.name, self.setup, self.timeouts, self.half_open, self.more, self.learn = name, setup, timeouts or {}, half_open, more, packets
        self.groups, self.now, self.wanted, self.world_of = [], START, {}, World
        self.answers, self.ways, self.modelled = {}, ("false", "true"), True

    @property
    def steps(self):
        return [x for g in self.groups for x in g]

    # Packets, with what has to become of them

    def wait(self, seconds):
        self.now += round(seconds * 1e9)

    def send(self, entry, *packets, want=None, note=""):
        """Adds a packet, or fragments. `want`: an interface, a drop reason, "local", or `None` for what the model says."""
        group = []
        for p in packets:
            group.append((self.now, entry, p))
            self.now += GAP
        self.groups.append(group)
        self.wanted[len(self.groups) - 1] = (want, note)

    # Runs

    def replay(self, weir, folder, enabled):
        """Returns a list of lines by number, or the fault."""
        with open(os.path.join(folder, "weir.toml"), "w") as f:
            f.write(config(self.setup, flow_table(self.setup, self.timeouts, enabled, self.learn, self.half_open, self.more)))
        ins = []
        for name, mac in MACS.items():
            own = [(t, wire.frame(p.octets(), bytes([2, 0, 0, 0, 0, mac]))) for t, i, p in self.steps if i == name]
            if own:
                path = os.path.join(folder, f"{name}.pcap")
                wire.write_pcap(path, own)
                ins.append(f"--in={name}={path}")
        command = [weir, "replay", os.path.join(folder, "weir.toml"), "--json", *ins]
        with open(os.path.join(folder, "command"), "w") as f:
            f.write(" ".join(command) + "\n")
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
        for name, text in (("lines", done.stdout), ("summary", done.stderr)):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        if done.returncode:
            return None, f"weir replay ended with {done.returncode}: {(done.stderr + done.stdout)[:900]}"
        if "every packet is accounted for" not in done.stderr:
            return None, "the sum of packets does not hold"
        lines = {}
        for row in done.stdout.splitlines():
            line = json.loads(row)
            lines[line["n"]] = line
        return lines, None

    def run(self, weir, folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        first = None
        for enabled in self.ways:
            lines, fault = self.replay(weir, folder, enabled)
            if fault:
                return [fault]
            if first is None:
                first = lines
                faults = self.judge(lines)
                if faults:
                    known = next((d for d in (*([d] for d in DEFECTS), DEFECTS) if not self.judge(lines, d)), None)
                    if known is not None:
                        self.open = ", ".join(known)
                        faults = [f"[{self.open}] {f}" for f in faults]
                    return faults
            else:
                for n in first:
                    a, b = ({k: v for k, v in x[n].items() if k != "fast-path"} for x in (first, lines))
                    if a != b:
                        return [f"packet {n} fares otherwise with the fast path: {b} after {a}"]
        return []

    # The comparison

    def judge(self, lines, defects=()):
        """Returns the faults. `defects`: known ones that the model may have."""
        worlds, n = [self.world_of(self.setup)], 0
        worlds[0].defects = defects
        for index, group in enumerate(self.groups):
            numbers = list(range(n + 1, n + 1 + len(group)))
            n += len(group)
            got = [lines.get(k) for k in numbers]
            where = f"packet {numbers[0]} ({group[0][1]}, {describe(group[0][2])})"
            want, note = self.wanted.get(index, (None, ""))
            if note:
                where += f" [{note}]"
            if None in got:
                return [f"{where}: no line"]
            if want is not None:
                for line in got:
                    have = line["reason"] or ",".join(line["out"]) or line["verdict"]
                    if have != want:
                        return [f"{where}: {line['verdict']} {have} instead of {want}"]
            if not self.modelled:
                continue
            left, said = [], []
            for w in worlds:
                for results, after in outcomes(w, lambda w: steps(w, group)):
                    fault = next(filter(None, (differs(r, line) for r, line in zip(results, got))), None)
                    if fault is None:
                        left.append(after)
                    elif fault not in said:
                        said.append(fault)
            if not left:
                return [f"{where}: {' | '.join(said[:3])}"]
            worlds = merge(left)
            if len(worlds) > WORLDS:
                self.answers = {}
                self.given_up = numbers[-1]
                return []
        self.worlds = worlds
        answers = [w.answers for w in worlds]
        self.answers = {q: a for q, a in answers[0].items() if all(x.get(q) == a for x in answers)}
        return []


def describe(p):
    if isinstance(p, Raw):
        return f"octets {p}"
    if isinstance(p, Part):
        return f"fragment {p.index} of {describe(p.packet)}"
    if isinstance(p, Error):
        return str(p)
    text = f"{p}"
    if p.proto == TCP:
        text += " " + (",".join(n for n, b in (("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16)) if p.flags & b) or "no flags")
    if p.proto in (ICMP, ICMP6):
        text += f" type {p.kind}"
    return text + (f" ttl {p.ttl}" if p.ttl != 64 else "")


def steps(world, group):
    """Moves packets that belong together; fragments in front of the first one wait for it."""
    if not isinstance(group[0][2], Part):
        return [world.step(Fields(p), entry, time) for time, entry, p in group]
    at = next(k for k, (_, _, p) in enumerate(group) if p.index == 0)
    results, first = [None] * len(group), None
    for k in [at, *range(at), *range(at + 1, len(group))]:
        time, entry, p = group[k]
        f = Fields(p.packet, later=p.index > 0)
        f.fragment = True
        results[k] = world.step(f, entry, max(time, group[at][0]))
        if k == at:
            first = results[k]
        elif first.reason in ("session-limit", "session-pickup"):  # a packet passes or is dropped as a whole
            results[k].verdict, results[k].reason, results[k].out, results[k].acl = "drop", first.reason, [], None
    return results


def differs(r, line):
    """Returns the difference between a result and a line of `weir replay`, or `None`."""
    reason = line["reason"] or ""
    reasons = {r.reason or ""} | ({"acl-fragment"} if r.acl is None else set())  # the text names no reason for these fragments
    if line["verdict"] != r.verdict or reason not in reasons:
        return f"{line['verdict']} {reason or ','.join(line['out'])} instead of {r}"
    if r.verdict == "forward" and line["out"] != r.out:
        return f"left by {line['out']} instead of {r.out}"
    if r.answers is not None and line["answer"] != r.answers:
        return f"answered by {line['answer']} instead of {r.answers} ({r})"
    if r.acl is None:
        return None
    got = [(x["interface"], x["direction"], x["action"], x["by"]["rule"] if x.get("by") else None) for x in line.get("acl", [])]
    if len(got) != len(r.acl):
        return f"lists {got} instead of {r}"
    for (i, d, action, rule), (wi, wd, waction, texts) in zip(got, r.acl):
        if (i, d) != (wi, wd) or action.split("+")[0] != waction or rule not in texts:
            return f"{i} {d} {action} by {rule} instead of {wi} {wd} {waction} by {' or '.join(sorted(texts))}"
    return None
