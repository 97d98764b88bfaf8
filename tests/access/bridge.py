"""Bridges, by docs/bridges.md, docs/allowlists.md and IEEE 802.1Q: random stations, and a table of stations that is a dictionary."""
import os
import random
import struct

import packet
from packet import Fields, ethernet, mac, mac_text, tag, wire
from replay import START, Gateway, replay

BROADCAST, SECOND = b"\xff" * 6, 1_000_000_000
OWN = mac("02:00:00:00:00:01")
FIXED = mac("02:00:00:00:0f:01")
MOVED = ("bridge-move",)


def group(to):
    return to[0] & 1 == 1


class Limit:
    """A rate of frames. What weir did decides within a frame of `burst`, as its bucket begins with up to one more."""

    def __init__(self, rate, burst):
        self.rate, self.burst, self.low, self.high, self.last = rate, burst, burst, burst + 1, None

    def over(self, now, dropped):
        more = (now - self.last) * self.rate / 1e9 if self.last is not None else 0
        self.low, self.high, self.last = min(self.burst, self.low + more), min(self.burst + 1, self.high + more), now
        over = self.high < 0.99 or self.low < 1.01 and dropped
        if over:
            self.high = min(self.high, 1.01)
        else:
            self.low, self.high = max(0, self.low - 1), self.high - 1
        return over


class Binding:
    """A rule of `mac-ip`: {exact, OUI, any} hardware address and {exact, subnet, any} source."""

    def __init__(self, rng, stations):
        self.permit = rng.random() < 0.75
        m, n = rng.choice(stations), rng.choice((48, 48, 24, 0, 47))
        self.mask = (1 << 48) - (1 << 48 - n)
        self.value = int.from_bytes(m, "big") & self.mask
        hardware = "any" if n == 0 else mac_text(self.value.to_bytes(6, "big")) + ("" if n == 48 else f"/{n}")
        self.net, source = None, "any"
        if rng.random() < 0.75:
            host = rng.choice(address(rng.choice(stations)))
            bits = 128 if ":" in host else 32
            self.net = wire.ipaddress.ip_network(f"{host}/{rng.choice((bits, bits - 1, bits - 8))}", strict=False)
            source = str(self.net) if self.net.prefixlen < bits else host
        self.text = f"{'permit' if self.permit else 'deny'} {hardware} from {source}"

    def matches(self, hardware, source):
        if int.from_bytes(hardware, "big") & self.mask != self.value:
            return False
        return self.net is None or wire.ipaddress.ip_address(source) in self.net


def address(station):
    """The addresses of a station."""
    n = station[5]
    return f"10.0.0.{n}", f"2001:db8:1::{n:x}", f"fe80::{n:x}"


def arp(sender, source, target, kind=1):
    return struct.pack("!HHBBH", 1, 0x800, 6, 4, kind) + sender + wire.addr(source) + b"\0" * 6 + wire.addr(target) + b"\0" * 18


def neighbor(src, dst, kind, target, hardware):
    """A solicitation (135) or advertisement (136) with its option."""
    body = wire.addr(target) + (struct.pack("!BB", 1 if kind == 135 else 2, 1) + hardware if hardware else b"")
    return wire.ip6(src, dst, 58, wire.icmp_part(src, dst, kind, 0, 0x60000000 if kind == 136 else 0, body), ttl=255)


class Port:
    def __init__(self, name, parent, tags):
        self.name, self.parent, self.tags = name, parent, tags
        self.group, self.bindings, self.deny_in, self.deny_out, self.kinds = None, None, None, None, {}
        self.allow, self.table_in, self.table_out = None, None, None


class BridgeCase:
    """Random frames over a random bridge. Each frame leaves by the ports that the text names, with their tags, and for the
    reason that the text gives if it does not."""

    def __init__(self, seed, live=False, frames=300):
        self.name, self.live = f"bridge-{seed}", live
        self.rng = rng = random.Random(f"bridge {seed}")
        self.ports = [Port("p1", "p1", b""), Port("p2", "p2", b""), Port("p3", "p3", b"")]
        if rng.random() < 0.6:
            self.ports.append(Port("v4", "p4", tag(10)))
        if rng.random() < 0.4:
            self.ports.append(Port("q4", "p4", tag(20, 0x88a8) + tag(30)))
        if rng.random() < 0.3:
            self.ports.append(Port("v1", "p1", tag(11)))
        for p in self.ports:
            if rng.random() < 0.4:
                p.group = rng.randrange(2)
        self.stations = [bytes([2, 0, rng.randrange(2), 0, 1, n]) for n in range(10, 10 + rng.choice((3, 8, 20)))]
        self.learn = rng.random() < 0.85
        self.ageing = None if live else rng.choice((None, 1, 10, 300))
        self.macs = rng.choice((None, None, 4, 8)) if self.ageing is None and not live else None
        self.flood = rng.choice((None, None, None, ["unknown"], ["broadcast", "multicast"], []))
        self.storm = None if live else rng.choice((None, None, Limit(*rng.choice(((3, 5), (100, 2))))))
        self.moves = None if live or self.ageing else rng.choice((None, None, Limit(*rng.choice(((1, 2), (50, 1))))))
        self.own = not self.storm and rng.random() < 0.5  # what its own station floods counts for the limit, too
        self.static = {FIXED: rng.choice(self.ports)} if self.learn and rng.random() < 0.4 else {}
        self.lists = rng.random() < 0.5
        if self.lists:
            self.make_lists()
        self.make_frames(frames)
        self.table = {m: [p, None] for m, p in self.static.items()}
        self.counts = {"known": 0, "own": 0}

    def make_lists(self):
        rng = self.rng
        for p in self.ports:
            if rng.random() < 0.5:
                p.bindings = [Binding(rng, self.stations) for _ in range(rng.choice((1, 4, 12)))]
            if rng.random() < 0.3:
                p.deny_in = rng.choice((53, 80))
            if rng.random() < 0.4:
                p.deny_out = rng.choice((53, 80))
            if rng.random() < 0.2:
                p.allow = [wire.ipaddress.ip_network(n, strict=False) for n in rng.choice((("10.0.0.0/28",), ("10.0.0.0/8", "fe80::/10"), ("::/0",)))]
            p.table_in, p.table_out = (rng.choice((None, None, None, "src", "dport")) for _ in range(2))
            for way in ("in", "out"):
                if rng.random() < 0.2:
                    p.kinds[way] = rng.choice(({0x800, 0x806, 0x86dd}, {0x800, 0x806, 0x88cc}, {0x86dd}))

    def make_frames(self, frames):
        rng, now, self.steps = self.rng, START, []
        home = {m: rng.choice(self.ports) for m in self.stations}
        for _ in range(frames):
            age = self.ageing or 300
            now += rng.choice((1, 1, 1, 1, 5, 20, 20, 300)) * 1_000_000
            if self.live is False and rng.random() < 0.1:
                now += int(rng.choice((0.3, 0.9, 1.1, 0.5)) * age * SECOND) if rng.random() < 0.5 else SECOND
            source = rng.choice(self.stations)
            if not self.live and rng.random() < 0.08:
                home[source] = rng.choice(self.ports)
            p = home[source]
            if self.static and rng.random() < 0.05:
                source, p = FIXED, rng.choice(self.ports)
            self.steps.append((now, p, self.frame(source, p)))

    def frame(self, source, p_):
        rng = self.rng
        peer = rng.choice(self.stations)
        to = rng.choice((peer, peer, peer, peer, FIXED, BROADCAST, mac("01:00:5e:00:00:05"), mac("33:33:00:00:00:01"), mac("02:77:00:00:00:01"),
                         mac("01:80:c2:00:00:00"), mac("01:80:c2:00:00:0e"), OWN if self.own else peer))
        if rng.random() < 0.02:
            source = rng.choice((b"\0" * 6, b"\3" + source[1:], source if self.live and not self.own else OWN))
        claimed = source if rng.random() < 0.8 else peer
        who = peer if rng.random() < 0.15 else source
        four, six, local = address(who)
        a4, a6, _ = address(peer)
        kind = rng.randrange(9)
        if kind < 3:
            p = wire.udp(four, a4, 1000, rng.choice((53, 80, 99)), b"x" * rng.choice((0, 20, 20, 900)))
        elif kind == 3:
            p = wire.udp(rng.choice((six, local)), a6, 1000, rng.choice((53, 80, 99)), b"x" * 20)
        elif kind == 4:
            p = wire.udp("0.0.0.0", "255.255.255.255", 68, 67, b"dhcp")
        elif kind == 5:
            return ethernet(to, source, arp(claimed, rng.choice((four, four, "0.0.0.0")), a4, rng.choice((1, 2))), 0x806, self.tags(p_))
        elif kind == 6:
            src = rng.choice((six, local))
            if rng.random() < 0.5:
                p = neighbor(src, a6, 135, a6, rng.choice((claimed, claimed, None)))
            else:
                p = neighbor(src, a6, 136, rng.choice((src, address(rng.choice(self.stations))[1])), claimed)
        else:
            return ethernet(to, source, b"\0" * 46, rng.choice((0x88cc, 0x88b5)), self.tags(p_))
        return ethernet(to, source, p, None, self.tags(p_))

    def tags(self, p):
        """Tags that stay in the frame. A VLAN interface has the frames with its tags and no others."""
        x = self.rng.random()
        if p.tags:
            return b""
        return b"" if x < 0.85 else tag(77) if x < 0.95 else tag(78, 0x88a8) + tag(79)

    def config(self):
        text = "version = 1\n"
        for name in sorted({p.parent for p in self.ports}):
            text += f'\n[[interface]]\nname = "{name}"\nport = "null"\n'
            if any(p.name == name for p in self.ports):
                text += self.keys(next(p for p in self.ports if p.name == name))
        for p in self.ports:
            if p.tags:
                inner = 'vlan = { outer = 20, inner = 30 }' if len(p.tags) == 8 else f"vlan = {struct.unpack('!H', p.tags[2:4])[0]}"
                text += f'\n[[interface]]\nname = "{p.name}"\nparent = "{p.parent}"\n{inner}\n{self.keys(p)}'
        if self.own:
            text += '\n[[interface]]\nname = "gw"\nport = { bridge = "lan" }\nmac = "02:00:00:00:00:01"\naddress = ["10.9.0.1/24", "2001:db8:9::1/64"]\n'
        named = [f'{{ name = "{p.name}", split-horizon = {p.group} }}' if p.group is not None else f'"{p.name}"' for p in self.ports]
        text += f'\n[bridge.lan]\ninterfaces = [{", ".join(named)}]\n'
        if not self.learn:
            text += "learn = false\n"
        text += 'ageing = "never"\n' if self.ageing is None else f'ageing = "{self.ageing}s"\n'
        if self.macs:
            text += f"macs = {self.macs}\n"
        if self.flood is not None:
            text += f"flood = [{', '.join(repr(x) for x in self.flood)}]\n"
        for key, limit in (("storm-limit", self.storm), ("move-limit", self.moves)):
            if limit:
                text += f"{key} = {{ packets = {limit.rate}, burst = {limit.burst} }}\n"
        if self.static:
            text += f'static = [{{ mac = "{mac_text(FIXED)}", interface = "{self.static[FIXED].name}" }}]\n'
        for p in self.ports:
            if p.bindings is not None:
                text += f"\n[mac-ip.{p.name}]\nrules = [\n" + "".join(f'  "{b.text}",\n' for b in p.bindings) + "]\n"
            if p.allow is not None:
                text += f"\n[allowlist.{p.name}]\nprefixes = [{', '.join(repr(str(n)) for n in p.allow)}]\n"
            for way, port in (("in", p.deny_in), ("out", p.deny_out)):
                if port:
                    text += f'\n[acl.{p.name}-{way}]\ndefault = "permit"\nrules = ["deny udp from any to any port {port}"]\n'
        if self.lists:  # tables that ports share
            text += '\n[classify.src]\nmask = "l3 ip4 src/31"\nsessions = ["src 10.0.0.10 deny", "src 10.0.0.14 permit opaque 5"]\nmiss = "permit"\n'
            text += '\n[classify.dport]\nmask = "l4 dport"\nsessions = ["dport 53 permit mark 4", "dport 80 deny"]\nnext = "src"\n'
        return text

    @staticmethod
    def keys(p):
        text = f'mac-ip = "{p.name}"\n' if p.bindings is not None else ""
        lists = [f'{way} = "{p.name}-{way}"' for way, port in (("in", p.deny_in), ("out", p.deny_out)) if port]
        if lists:
            text += f"acl = {{ {', '.join(lists)} }}\n"
        if p.allow is not None:
            text += f'allow = "{p.name}"\n'
        tables = [f'{way} = "{name}"' for way, name in (("in", p.table_in), ("out", p.table_out)) if name]
        if tables:
            text += f"classify = {{ {', '.join(tables)} }}\n"
        if p.kinds:
            ways = [f'{w} = [{", ".join(repr(hex(k)) for k in sorted(ks))}]'.replace("'", '"') for w, ks in p.kinds.items()]
            text += f"ethertypes = {{ {', '.join(ways)} }}\n"
        return text

    # The model.

    def refused(self, p, f):
        """Why lists of the port refuse a frame that comes in, or None."""
        if "in" in p.kinds and f.kind not in p.kinds["in"]:
            return "acl-ethertype"
        if p.bindings is not None:
            for hardware, source in self.claims(f):
                if wire.ipaddress.ip_address(source).is_unspecified:
                    continue
                rule = next((b for b in p.bindings if b.matches(hardware, source)), None)
                if rule is None or not rule.permit:
                    return "mac-ip"
        if p.deny_in and self.denied(p.deny_in, f):
            return "acl-deny"
        if p.allow is not None and f.version and any(f.src) and not any(wire.ipaddress.ip_address(f.src) in n for n in p.allow):
            return "not-allowed"
        return "classify-deny" if self.classified(p.table_in, f) else None

    @staticmethod
    def classified(table, f):
        """Whether a chain of tables denies a packet."""
        if table is None or f.version is None:
            return False
        if table == "dport" and len(f.packet) >= f.head + 4:
            port = struct.unpack_from("!H", f.packet, f.head + 2)[0]
            if port in (53, 80):
                return port == 80
        return f.version == 4 and str(wire.ipaddress.ip_address(f.src)) in ("10.0.0.10", "10.0.0.11")

    @staticmethod
    def claims(f):
        """The pairs of hardware address and source that bindings hold a frame to."""
        body = f.frame[f.l3:]
        if f.kind == 0x806:
            source = str(wire.ipaddress.ip_address(body[14:18]))
            return [(f.source, source), (body[8:14], source)]
        if f.version is None:
            return []
        out = [(f.source, str(wire.ipaddress.ip_address(f.src)))]
        if f.version == 6 and f.type in (135, 136) and f.proto == 58:
            p = f.packet[f.head:]
            if len(p) >= 32:
                target = f.src if f.type == 135 else p[8:24]
                out.append((p[26:32], str(wire.ipaddress.ip_address(target))))
        return out

    @staticmethod
    def denied(port, f):
        return f.version is not None and f.proto == 17 and f.dport == port

    def unsent(self, p, f):
        """Why a copy does not leave by a port, or None."""
        if p.deny_out and self.denied(p.deny_out, f):
            return "acl-deny"
        if self.classified(p.table_out, f):
            return "classify-deny"
        if "out" in p.kinds and (f.kind not in p.kinds["out"] or len(p.tags) // 4 + len(f.tags) > 2):
            return "acl-ethertype"
        return None

    def late(self):
        """How much later than it should a station is forgotten: a step of the clock of the table."""
        return self.ageing + max(1.01, self.ageing / 29)

    def known(self, to, now, line):
        """The port of a station, or None. Between its time and a step of the clock later, what weir did decides."""
        entry = self.table.get(to)
        if entry is None:
            return None
        p, last = entry
        if last is not None and self.ageing is not None:
            age = (now - last) / SECOND
            if age > self.late() or age > self.ageing - 0.01 and not any(
                    b["effect"] == "known" for b in line.get("bridges", [])) and line["reason"] not in ("bridge-same-port", "bridge-split-horizon"):
                del self.table[to]
                return None
        return p

    def teach(self, source, p, now, line):
        """Learns a station. Returns the reason if it may not be there."""
        if source in self.static:
            return None if self.static[source] is p else "bridge-move"
        if not self.learn:
            return None
        old = self.known_source(source, now, line)
        if old is None:
            if self.macs is None or len(self.table) < self.macs:
                self.table[source] = [p, now]
            return None
        if old is not p and self.moves and self.moves.over(now, line["reason"] == "bridge-move"):
            return "bridge-move"
        self.table[source] = [p, now]
        return None

    def known_source(self, source, now, line):
        entry = self.table.get(source)
        if entry is None or self.ageing is None:
            return entry and entry[0]
        age = (now - entry[1]) / SECOND
        if age > self.late() or age > self.ageing - 0.01 and entry[0] is not None and line["reason"] != "bridge-move":
            del self.table[source]
            return None
        return entry[0]

    def judge(self, now, p, inner, line):
        """Returns the reason of a drop or None, the ports by which copies leave, and whether the own station gets one."""
        f = Fields(inner)
        if group(f.source) or not any(f.source) or self.own and f.source == OWN:
            return "bridge-source", [], False
        if f.to[:5] == mac("01:80:c2:00:00:00")[:5] and 1 <= f.to[5] <= 15:
            return "bridge-link-group", [], False
        if why := self.refused(p, f):
            return why, [], False
        if why := self.teach(f.source, p, now, line):
            return why, [], False
        if self.own and f.to == OWN:
            return None, [], True
        if not group(f.to):
            q = self.known(f.to, now, line)
            if q is p:
                return "bridge-same-port", [], False
            if q and q.group is not None and q.group == p.group:
                return "bridge-split-horizon", [], False
            if q:
                why = self.unsent(q, f)
                return why, [] if why else [q], False
        kind = "unknown" if not group(f.to) else "broadcast" if f.to == BROADCAST else "multicast"
        own = self.own and group(f.to)
        if self.flood is not None and kind not in self.flood:
            return "bridge-flood-off", [], own
        ports = [q for q in self.ports if q is not p and not (q.group is not None and q.group == p.group)]
        if not ports:
            return "bridge-no-port", [], own
        if self.storm and self.storm.over(now, line["reason"] == "bridge-storm"):
            return "bridge-storm", [], False
        left = [q for q in ports if not self.unsent(q, f)]
        return None if left else sorted({self.unsent(q, f) for q in ports}), left, own

    def step_faults(self, now, p, inner, line, left):
        why, ports, own = self.judge(now, p, inner, line)
        if own:
            if not any(b["effect"] == "own" for b in line.get("bridges", [])):
                yield f"the own station gets no frame: {line['verdict']} {line['reason']}"
        elif any(b["effect"] == "own" for b in line.get("bridges", [])):
            yield "the own station gets the frame"
        if not own and why and (line["verdict"] != "drop" or line["reason"] not in (why if isinstance(why, list) else [why])):
            yield f"{line['verdict']} {line['reason']} by {line['out']}, dropped for {why} expected"
        names = sorted(q.name for q in ports)
        if sorted(line["out"]) != names:
            yield f"{line['verdict']} {line['reason']} by {line['out']}, {names} expected ({why})"
            return
        # A frame that has tags of its own behind those of the port is in the capture of the parent.
        by = {(q.parent, inner[:12] + q.tags + inner[12:]): q.name for q in ports if q.tags and struct.unpack_from("!H", inner, 12)[0] in (0x8100, 0x88a8)}
        copies = sorted((by.get((i, d), i), d) for i, d in left if Fields(d).source == Fields(inner).source)
        want = sorted((q.name, inner[:12] + q.tags + inner[12:]) for q in ports)
        if copies != want:
            yield f"copies {[(i, d[:30].hex()) for i, d in copies]}, {[(i, d[:30].hex()) for i, d in want]} expected"

    def wire_frames(self):
        return [(t, p.parent, d[:12] + p.tags + d[12:]) for t, p, d in self.steps]

    def run(self, weir, folder):
        seen, _ = replay(weir, folder, self.config(), self.wire_frames())
        faults = []
        for n, ((t, p, d), (line, left)) in enumerate(zip(self.steps, seen), 1):
            faults += [f"frame {n} by {p.name} {Fields(d)}: {x}" for x in self.step_faults(t, p, d, line, left)]
        if self.live and not faults:
            faults += self.shown(weir, folder)
        return faults

    def shown(self, weir, folder):
        """`weir show bridge lan macs` of a running gateway has the stations of the model. Its ports take frames in any order,
        so no station moves."""
        frames = self.wire_frames()
        with Gateway(weir, folder, self.config(), frames, names=sorted({p.parent for p in self.ports})) as g:
            g.received(len(frames))
            macs = g.show("bridge", "lan", "macs")
        return list(self.told(macs))

    def told(self, macs):
        have = {s["mac"]: (s["interface"], s["kind"]) for s in macs["macs"]}
        want = {mac_text(m): (p.name, "static" if m in self.static else "learned") for m, (p, _) in self.table.items()}
        if self.own:
            want[mac_text(OWN)] = ("gw", "own")
        if have != want:
            yield f"stations that are shown and not of the model, {sorted(have.items() - want.items())}, or the other way, {sorted(want.items() - have.items())}"


def random_case(seed):
    return BridgeCase(seed)


def cases():
    for seed in range(1, 13):
        yield lambda seed=seed: BridgeCase(seed)
    for seed in range(101, 105):
        yield lambda seed=seed: BridgeCase(seed, live=True)


if __name__ == "__main__":
    import sys
    for s in range(int(sys.argv[2]), int(sys.argv[3])):
        try:
            f = BridgeCase(s, live=len(sys.argv) > 4).run(sys.argv[1], "/tmp/ora/bridge")
        except Exception as e:
            f = [repr(e)]
        print(s, len(f), *f[:3], sep="\n   ")
