"""Classifier tables, by docs/classify.md: random masks, chains, sessions and edits. A session is looked for by comparing octets."""
import os
import random

import packet
from packet import Fields, ethernet, mac, wire
from replay import GAP, START, Gateway, replay
from steer import HOPS, NEIGHBORS, OWN, STATION, TAGS, TOPOLOGY, ip

EGRESS = ("up", "dpi", "red1")
MORE = '''
[[vrf]]
name = "red"

[[interface]]
name = "red1"
port = "null"
vrf = "red"
address = ["198.18.0.1/24", "2001:db8:9::1/64"]
{red1}
[[route]]
prefix = "0.0.0.0/0"
vrf = "red"
via = {{ address = "198.18.0.254" }}

[[route]]
prefix = "::/0"
vrf = "red"
via = {{ address = "2001:db8:9::fe" }}

[[neighbor]]
interface = "red1"
address = "198.18.0.254"
mac = "02:00:00:00:03:00"

[[neighbor]]
interface = "red1"
address = "2001:db8:9::fe"
mac = "02:00:00:00:03:01"
'''
# Fields of a header: first octet, octets, shift of the first bit that counts, bits.
FOUR = {"dscp": (1, 1, 0, 6), "length": (2, 2, 0, 16), "ttl": (8, 1, 0, 8), "proto": (9, 1, 0, 8), "src": (12, 4, 0, 32), "dst": (16, 4, 0, 32),
        "sport": (20, 2, 0, 16), "dport": (22, 2, 0, 16)}
SIX = {"dscp": (0, 2, 4, 6), "flow-label": (1, 3, 4, 20), "length": (4, 2, 0, 16), "proto": (6, 1, 0, 8), "ttl": (7, 1, 0, 8),
       "src": (8, 16, 0, 128), "dst": (24, 16, 0, 128), "sport": (40, 2, 0, 16), "dport": (42, 2, 0, 16)}
LINK = {"dst": (0, 6, 0, 48), "src": (6, 6, 0, 48), "ethertype": (12, 2, 0, 16)}
PORTS = {"sport": (0, 2, 0, 16), "dport": (2, 2, 0, 16)}
# What is known of a packet beside its octets: the mark, and names with zeros behind them.
META = {"mark": (0, 4, 0, 32), "interface": (4, 31, 0, 248), "vrf": (35, 31, 0, 248)}
KINDS = {"l3 ip4": FOUR, "l3 ip6": SIX, "l2": LINK, "l4": PORTS, "meta": META}
MARKS = (1, 7, 70000)


def named(text):
    return text.encode().ljust(31, b"\0")


def header(f, start, egress):
    """The octets from a header of a packet on, or None."""
    if start == "meta":
        return (f.mark or 0).to_bytes(4, "big") + named(f.came) + named("default")
    if start == "l2":
        return None if egress else f.frame
    if start == "l3":
        return f.packet
    return None if f.later else f.packet[f.head:]


class Table:
    """A table: octets that count, and sessions as pairs of these octets and an action."""

    def __init__(self, rng, name, frames, limits, live):
        self.name, self.size, self.miss, self.next = name, None, rng.choice(("permit", "permit", "deny", None)), None
        self.kind = rng.choice(("l3 ip4", "l3 ip4", "l3 ip6", "l2", "l4", "meta", "l2 hex", "l3 hex", "l4 hex"))
        self.start, self.fields, self.limits, self.live = self.kind.split()[0], [], limits, live
        if "hex" in self.kind:
            n = rng.choice((1, 2, 4, 9, 16, 20, 33, 40, 64, 128))
            self.mask = bytearray(rng.choice((0, 0, 0, 255, 0xf0, 1)) for _ in range(n))
            self.mask[-1] |= 1
            self.text = f"{self.kind} {self.mask.hex()}"
            self.must = {}
        else:
            self.pick(rng)
        self.rng, self.sessions = rng, {}
        self.frames = frames
        for _ in range(rng.choice((1, 3, 10, 40))):
            self.add()

    def pick(self, rng):
        fields = KINDS[self.kind]
        names = rng.sample(list(fields), rng.randrange(1, min(4, len(fields)) + 1))
        self.must = {}
        if self.start == "l3" and ("sport" in names or "dport" in names):
            if "proto" not in names:
                names.append("proto")
            if self.kind == "l3 ip4":  # no options, no offset
                self.must = {0: (0x0f, 5), 6: (0x1f, 0), 7: (0xff, 0)}
        self.mask, words = bytearray(128), []
        for name in names:
            at, size, shift, bits = fields[name]
            count = bits
            if name in ("src", "dst") and rng.random() < 0.6:
                count = rng.choice([x for x in (1, 8, 24, 31, 32, 33, 48, 64, 127, 128) if x <= bits])
            words.append(f"{name}/{count}" if count < bits or name in ("src", "dst") and rng.random() < 0.3 else name)
            value = ((1 << count) - 1) << (size * 8 - shift - count)
            for n, x in enumerate(value.to_bytes(size, "big")):
                self.mask[at + n] |= x
            self.fields.append((name, at, size, shift, bits, count))
        for at, (m, _) in self.must.items():
            self.mask[at] |= m
        self.mask = self.mask[:max(n for n, x in enumerate(self.mask) if x) + 1]
        self.text = f"{self.kind} {' '.join(words)}"

    def version(self):
        return int(self.kind[-1]) if self.kind.startswith("l3 ip") else None

    def key(self, f, egress=False):
        """The octets of a packet that count, or None."""
        if self.start == "meta" and f.mark is None and any(self.mask[:4]):
            return None
        h = header(f, self.start, egress)
        if self.version() not in (None, f.version) or h is None or len(h) < len(self.mask):
            return None
        return bytes(a & b for a, b in zip(h, self.mask))

    def value(self):
        """Draws a value: that of a frame, of one bit beside it, or anything."""
        rng = self.rng
        if self.start == "meta":
            k = rng.choice(MARKS).to_bytes(4, "big") + named(rng.choice(("wan", "v10", "v20", "up"))) + named(rng.choice(("default", "default", "red")))
            return bytes(a & b for a, b in zip(k, self.mask))
        for _ in range(20):
            k = self.key(Fields(rng.choice(self.frames)))
            if k is not None and all(k[at] & m == v for at, (m, v) in self.must.items()):
                break
        else:
            k = bytes(rng.randrange(256) & m for m in self.mask)
        if rng.random() < 0.2:
            at = rng.choice([n for n, m in enumerate(self.mask) if m])
            k = k[:at] + bytes([k[at] ^ self.mask[at] & -self.mask[at]]) + k[at + 1:]
        k = bytearray(k)
        for at, (m, v) in self.must.items():
            k[at] = k[at] & ~m | v
        return bytes(k)

    def words(self, k):
        """The value as a session says it."""
        if not self.fields or not self.must and self.start != "meta" and self.rng.random() < 0.05:
            return f"hex {k.hex()}"
        out = []
        for name, at, size, shift, bits, count in self.rng.sample(self.fields, len(self.fields)):
            v = int.from_bytes(k[at:at + size].ljust(size, b"\0"), "big") >> size * 8 - shift - bits & (1 << bits) - 1
            if name in ("interface", "vrf"):
                v = k[at:at + size].rstrip(b"\0").decode()
            elif self.start == "l2" and name != "ethertype":
                v = packet.mac_text(k[at:at + 6].ljust(6, b"\0"))
            elif name in ("src", "dst"):
                v = str(wire.ipaddress.ip_address(k[at:at + size].ljust(size, b"\0")))
            elif name == "ethertype":
                v = f"0x{v:04x}"
            out.append(f"{name} {v}")
        return " ".join(out)

    def add(self):
        k = self.value()
        s = Session(self.rng, self.limits, self.live)
        s.text = f"{self.words(k)} {s.action}"
        self.sessions[k] = s
        return s


class Session:
    def __init__(self, rng, limits, live):
        self.permit, self.hops, self.vrf, self.rate, self.opaque, self.mark = rng.random() < 0.75, [], None, None, None, None
        self.packets, words = 0, ["permit" if self.permit else "deny"]
        if self.permit:
            x = rng.random()
            if x < 0.35:
                for hop in rng.sample(HOPS, 1 if live else rng.choice((1, 1, 2, 3))):
                    self.hops.append(hop)
                    words.append(f"via {hop[1]}{rng.choice(('', f' on {hop[0]}'))}{rng.choice(('', ' weight 3'))}")
            elif x < 0.5:
                self.vrf = "red"
                words.append("vrf red")
            if rng.random() < 0.2:
                self.mark = rng.choice((*MARKS, rng.randrange(1, 2**32)))
                words.append(f"mark {self.mark}")
            if limits and rng.random() < 0.15:
                self.rate = (rng.choice((7, 130)), rng.choice((1, 4)))
                words.append(f"limit {self.rate[0]}pps burst {self.rate[1]}")
                self.low, self.high, self.last = self.rate[1], self.rate[1] + 1, None
        if rng.random() < 0.3:
            self.opaque = rng.randrange(2**32)
            words.append(f"opaque {self.opaque}")
        self.action = " ".join(words)

    def limited(self, now, dropped):
        """Whether a packet is above the rate. What weir did decides within a packet of `burst`: its bucket begins with up to
        one more, and its clock rounds."""
        rate, burst = self.rate
        more = (now - self.last) * rate / 1e9 if self.last is not None else 0
        self.low, self.high, self.last = min(burst, self.low + more), min(burst + 1, self.high + more), now
        over = self.high < 0.99 or (self.low < 1.01 and dropped)
        if not over:
            self.low, self.high = max(0, self.low - 1), self.high - 1
        else:
            self.high = min(self.high, 1.01)
        return over


class ClassifyCase:
    """Random tables and frames. Each frame has the decisions, the way and the octets that the text gives it, and each session
    counts its packets. With `live`, sessions come and go while a gateway runs, before it gets the frames."""

    def __init__(self, seed, live=False, frames=220):
        self.name, self.live, self.seed = f"classify-{seed}", live, seed
        self.rng = rng = random.Random(f"classify {seed}")
        limits, self.steps = not live and rng.random() < 0.6, []
        while len(self.steps) < frames:
            entry = rng.choice(("wan", "wan", "v10", "v20"))
            frame = ethernet(OWN, STATION, ip(rng), tags=TAGS[entry])
            if not limits or Fields(frame).ttl > 1:  # ICMP errors leave by tables, too, and count for their limits
                self.steps.append((START + len(self.steps) * GAP, entry, frame))
        data = [d for _, _, d in self.steps]
        self.tables = [Table(rng, f"t{n}", data, limits, live) for n in range(rng.randrange(1, 6))]
        names = [t.name for t in self.tables]
        for n, t in enumerate(self.tables[:-1]):
            if rng.random() < 0.6:
                t.next, t.miss = rng.choice(names[n + 1:]), None
        for t in self.tables:
            t.size = rng.choice((None, len(t.sessions) + 40, 1000)) if not live else 1000
        self.first = {(i, "in"): rng.choice(names) for i in TAGS if rng.random() < 0.8}
        by = {t.name: t for t in self.tables}

        def chain(t):
            return [t] + (chain(by[t.next]) if t.next else [])
        later = [t.name for t in self.tables if all(x.start != "l2" for x in chain(t))]  # others are refused for `out`
        self.first |= {(i, "out"): rng.choice(later) for i in EGRESS if later and rng.random() < 0.4}

    def config(self):
        text = TOPOLOGY.replace('steer = "edge"\n', "") + MORE.format(red1="")
        for i in (*TAGS, *EGRESS):
            ways = [f'{w} = "{self.first[i, w]}"' for w in ("in", "out") if (i, w) in self.first]
            if ways:
                text = text.replace(f'name = "{i}"\n', f'name = "{i}"\nclassify = {{ {", ".join(ways)} }}\n')
        # For Gateway, the port stands next to the name.
        lines = text.split("\n")
        for n, line in enumerate(lines):
            if line.startswith("classify") and lines[n + 1].startswith("port"):
                lines[n], lines[n + 1] = lines[n + 1], line
        text = "\n".join(lines) + NEIGHBORS
        self.lines = {}
        for t in self.tables:
            text += "\n"
            t.line = text.count("\n") + 1
            text += f'[classify.{t.name}]\nmask = "{t.text}"\n'
            for key in ("next", "miss"):
                if getattr(t, key):
                    text += f'{key} = "{getattr(t, key)}"\n'
            if t.size:
                text += f"size = {t.size}\n"
            text += "sessions = [\n"
            for k, s in t.sessions.items():
                s.line = text.count("\n") + 1
                self.lines[s.line] = s
                text += f'  "{s.text}",\n'
            text += "]\n"
        return text

    def look(self, interface, way, f):
        """Returns the table and the session that decide, or the last table and None."""
        name = self.first.get((interface, way))
        if name is None:
            return None
        while True:
            t = next(t for t in self.tables if t.name == name)
            k = t.key(f, way == "out")
            if k is not None and k in t.sessions:
                return t, t.sessions[k]
            if t.next is None:
                return t, None
            name = t.next

    def judge(self, time, entry, f, line, left, flows):
        """Yields what of a line is not as the text says."""
        got = line.get("classify", [])
        want, reason, out, hops = [], None, {"up"}, None
        f.came, f.mark = entry, None
        for way in ("in", "out"):
            at = entry if way == "in" else line["out"][0] if line["out"] else None
            if way == "out" and (line["verdict"] == "drop" and got and got[-1]["direction"] == "out"):
                at = got[-1]["interface"]
            if at is None:
                continue
            found = self.look(at, way, f)
            if found is None:
                continue
            t, s = found
            permit = s.permit if s else t.miss != "deny"
            if s or not permit:
                want.append((at, way, t.name, s is not None, "permit" if permit else "deny", s.line if s else t.line))
            else:
                want.append((at, way, t.name, False, "permit", t.line))
            if s:
                s.packets += 1
                f.mark = f.mark if s.mark is None else s.mark
            if not permit:
                reason = "classify-deny"
                break
            if s and s.rate:
                over = s.limited(time, line["reason"] == "classify-rate-limit" and len(want) == len(got))
                if over:
                    reason = "classify-rate-limit"
                    break
            if way == "in" and s and s.vrf:
                out = {"red1"}
            if way == "in" and s and s.hops:
                hops = [h for h in s.hops if wire.v6(h[1]) or f.version == 4]  # IPv4 goes by IPv6 next hops (RFC 8950)
                out = {h[0] for h in hops} or out
        if f.ttl <= 1:  # the TTL is decremented behind the tables
            reason = reason or "ttl-expired"
        have = [(g["interface"], g["direction"], g["table"], g["matched"], g["action"], int(g["by"]["place"].rsplit(":", 1)[1])) for g in got]
        if have != want:
            yield f"decisions {have}, {want} expected"
        if reason:
            if (line["verdict"], line["reason"]) != ("drop", reason):
                yield f"{line['verdict']} {line['reason']}, dropped for {reason} expected"
            return
        if line["verdict"] != "forward" or len(line["out"]) != 1 or line["out"][0] not in out:
            yield f"{line['verdict']} {line['reason']} by {line['out']}, forwarded by {out} expected"
            return
        frames = [d for i, d in left if i == line["out"][0] and Fields(d).version]
        if len(frames) != 1 or Fields(frames[0]).packet != wire.forwarded(f.packet):
            yield f"{len(frames)} frames left, or the packet changed"
            return
        if hops:
            to = frames[0][:6]
            if to not in [mac(h[2]) for h in hops]:
                yield f"the frame is for {packet.mac_text(to)}"
            if not f.fragment and f.dport is not None:
                flow = (f.src, f.dst, f.proto, f.sport, f.dport, entry, want[0][5])
                if flows.setdefault(flow, to) != to:
                    yield "a flow has two paths"

    def run(self, weir, folder):
        if self.live:
            for pause in (1.5, 10):  # on a busy machine, edits may take longer than the first
                faults = ClassifyCase(self.seed, live=True).run_live(weir, folder, pause)
                if not faults:
                    break
            return faults
        text = self.config()
        seen, _ = replay(weir, folder, text, [(t, "wan", d) for t, _, d in self.steps])
        return self.faults(seen)

    def faults(self, seen):
        faults, flows = [], {}
        for n, ((t, entry, d), (line, left)) in enumerate(zip(self.steps, seen), 1):
            f = Fields(d)
            faults += [f"frame {n} by {entry} {f}: {x}" for x in self.judge(t, entry, f, line, left, flows)]
        return faults

    def edit(self, g):
        """Adds, replaces and deletes sessions of a running gateway; yields wrong answers."""
        rng = self.rng
        for _ in range(3):
            t = rng.choice(self.tables)
            old = dict(t.sessions)
            gone = rng.sample(list(old), len(old) // 3)
            values = [old[k].text if rng.random() < 0.5 else t.words(k) for k in gone]
            for k in gone:
                del t.sessions[k]
            if gone:
                with open(os.path.join(self.folder, "values"), "w") as file:
                    file.writelines(v + "\n" for v in values)
                code, said, err = g.ask("classify", "delete", t.name, "--file", os.path.join(self.folder, "values"))
                want = f"{t.name}: added 0, replaced 0, deleted {len(gone)}; {len(t.sessions)} sessions now"
                if code or said.strip() not in (want, want.replace("1 sessions", "1 session")):
                    yield f"delete {values[:3]}: {code} {said} {err}, {want!r} expected"
            before, added = dict(t.sessions), {}
            for _ in range(rng.choice((1, 5, 30))):
                s = t.add()
                added[next(k for k in t.sessions if t.sessions[k] is s)] = s
            with open(os.path.join(self.folder, "sessions"), "w") as file:
                file.writelines(s.text + "\n" for s in added.values())
            code, said, err = g.ask("classify", "add", t.name, "--file", os.path.join(self.folder, "sessions"))
            replaced = len(added.keys() & before.keys())
            want = f"{t.name}: added {len(added) - replaced}, replaced {replaced}, deleted 0; {len(t.sessions)} sessions now"
            if code or said.strip() not in (want, want.replace("1 sessions", "1 session")):
                yield f"add {[s.text for s in added.values()][:3]}: {code} {said} {err}, {want!r} expected"

    def run_live(self, weir, folder, pause):
        """Frames come `pause` seconds after the start, and edits before them."""
        os.makedirs(folder, exist_ok=True)
        self.folder, text = folder, self.config()
        frames = [(START, "wan", ethernet(STATION, STATION, b"\x45" + b"\0" * 30))]
        frames += [(t + int(pause * 1e9), "wan", d) for t, _, d in self.steps]
        with Gateway(weir, folder, text, frames, paced=True, names=("wan", *EGRESS)) as g:
            faults = list(self.edit(g))
            for t in self.tables:
                faults += self.listed(weir, folder, g, t)
            g.received(len(frames), 10 + pause)
            shown = {t.name: g.show("classify", t.name, "--limit", "1000") for t in self.tables}
        # What weir replay says of the tables as they are now, the counters of the gateway have to say, too.
        seen, _ = replay(weir, os.path.join(folder, "replay"), self.config(), [(t, "wan", d) for t, _, d in self.steps])
        faults += self.faults(seen)
        for t in self.tables:
            have = sorted((s["packets"], s["opaque"]) for s in shown[t.name]["tables"][0]["rows"])
            want = sorted((s.packets, s.opaque or 0) for s in t.sessions.values())
            if have != want:
                faults.append(f"sessions of {t.name} have counters and opaque values {have}, {want} expected")
        return faults

    def listed(self, weir, folder, g, t):
        """`weir classify list` prints sessions that can be read again: added once more, all are replaced and none is new."""
        code, said, err = g.ask("classify", "list", t.name)
        rows = said.splitlines()
        if code or len(rows) != len(t.sessions):
            return [f"{t.name} lists {len(rows)} sessions, {len(t.sessions)} expected: {err}"]
        with open(os.path.join(folder, "again"), "w") as file:
            file.write(said)
        code, said, err = g.ask("classify", "add", t.name, "--file", os.path.join(folder, "again"))
        if code or f"added 0, replaced {len(rows)}, deleted 0" not in said:
            return [f"{t.name}: sessions that it lists are not taken again: {code} {said} {err}"]
        return []


def random_case(seed):
    return ClassifyCase(seed)


def cases():
    for seed in range(1, 7):
        yield lambda seed=seed: ClassifyCase(seed)
    for seed in range(101, 104):
        yield lambda seed=seed: ClassifyCase(seed, live=True)


if __name__ == "__main__":
    import sys
    for s in range(int(sys.argv[2]), int(sys.argv[3])):
        try:
            f = ClassifyCase(s, live=len(sys.argv) > 4).run(sys.argv[1], "/tmp/ora/classify")
        except Exception as e:
            f = [repr(e)]
        print(s, len(f), *f[:3], sep="\n   ")
