"""Random rules and packets against the model. A case has rounds: the packets of each are made from the translations that the
rounds before have opened."""
import random

from case import DMZ, GAP, LAN, WAN, WAN2, Case, reply
from model import ADDRESS, OWN, TIMEOUTS, Model, Rule, Translation, moved, turned
from packet import (ACK, DCCP, FIN, ICMP, PORTS, REQUESTS, RST, SCTP, SYN, TCP, UDP, UDPLITE, Error, Packet, Part, sums,
                    value, wire)

INSIDE = {LAN: ["10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8", "10.0.0.9"], DMZ: ["10.1.0.5", "10.1.0.6"]}
FAR = {WAN: ["8.8.8.8", "8.8.4.4", "9.9.9.9"], WAN2: ["192.0.2.9", "192.0.2.10"]}
INTERFACES = ("10.0.0.1", "10.1.0.1")
GATEWAY = ["10.0.0.1", "10.1.0.1", "198.51.100.1", "203.0.113.1", *OWN]
# Tenants of several VRFs: hosts of both have the first address.
TENANTS = {LAN: [*INSIDE[LAN]], DMZ: ["10.0.0.5", "10.0.0.6", *INSIDE[DMZ]]}
VRFS = {LAN: "red", DMZ: "blue"}
LINKED = "".join(f"""
[[vrf]]
name = "{vrf}"

[[route]]
prefix = "0.0.0.0/0"
vrf = "{vrf}"
via = {{ address = "198.51.100.254", vrf = "default" }}

[[route]]
prefix = "192.0.2.0/24"
vrf = "{vrf}"
via = {{ address = "203.0.113.254", vrf = "default" }}

[[route]]
prefix = "{prefix}"
via = {{ interface = "{interface}", vrf = "{vrf}" }}
""" for interface, vrf, prefix in ((LAN, "red", "10.0.0.0/16"), (DMZ, "blue", "10.1.0.0/16")))
PROTOCOLS = (UDP, UDP, UDP, TCP, TCP, TCP, ICMP, ICMP, SCTP, DCCP, UDPLITE, 47, 50, 89)
SERVICES = (53, 80, 443, 8000, 8001, 8002)


def rules(rng, fixed):
    """Makes a list of rules. `fixed`: what weir chooses follows from the packets."""
    def inside():
        return rng.choice(("10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16", "10.0.0.5", "10.0.0.4/31", "10.0.0.6-10.0.0.8", "any"))

    def far():
        return rng.choice(("any", "any", "any", "8.8.0.0/16", "8.8.8.8", "9.9.9.0-9.9.9.255", "192.0.2.0/24"))

    def what(names=("ip4", "ip4", "tcp", "udp", "icmp", "gre")):
        return rng.choice(names)

    def ports(w, wide=False):
        if w not in ("tcp", "udp", "dccp") or rng.random() < 0.5:
            return None
        a = rng.choice(SERVICES)
        return range(a, a + (3 if wide else 1))
    out, mapped = [], set()
    for _ in range(rng.randrange(1, 9)):
        kind = rng.choice(("source", "source", "source", "source", "destination", "destination", "both", "map", "keep"))
        if kind == "both" and fixed:
            kind = "destination"
        if kind == "keep":
            w = what()
            out.append(Rule(kind, w, rng.choice((inside(), far())), far(), None, ports(w)))
        elif kind == "source":
            w = what()
            target = "interface" if fixed else rng.choice(("interface", "interface", "198.51.100.50", "198.51.100.80/30", "198.51.100.50-198.51.100.51"))
            small = None if fixed or w == "gre" else rng.choice((None, None, range(7000, 7004), range(1024, 1280), range(2000, 4000)))
            out.append(Rule(kind, w, inside(), far(), None, ports(w), target, small, preserve=fixed or rng.random() < 0.3,
                            limit=None if fixed else rng.choice((None, None, None, 2, 5))))
        elif kind == "map":
            if rng.random() < 0.5:
                a, b = rng.choice((("10.0.0.5", OWN[0]), ("10.0.0.6", OWN[1]), ("10.1.0.5", OWN[1])))
            else:
                a, b = rng.choice((("10.0.0.4/30", "198.51.100.80/30"), ("10.0.0.8/29", "192.168.4.8/29")))
            w = what()
            if b not in mapped:
                mapped.add(b)
                out.append(Rule(kind, w, a, far(), target=b))
        else:
            w = what(("tcp", "udp", "udp", "ip4", "icmp"))
            dports = ports(w, True)
            dst = rng.choice(("interface", "interface", OWN[0], OWN[1]))
            host = rng.choice(INSIDE[LAN] + INSIDE[DMZ])
            toport = None
            if dports is not None and rng.random() < 0.7:
                toport = rng.choice((range(9000, 9001), range(9000, 9000 + len(dports))))
            r = Rule(kind, w, rng.choice(("any", "any", far(), inside())), dst, None, dports, to=host, toport=toport)
            if kind == "both":
                r.target, r.tports = rng.choice(("interface", "198.51.100.80")), rng.choice((None, range(7100, 7104)))
            out.append(r)
    return out


class RandomCase(Case):
    """`fixed`: rules and packets for which all ports follow, and no time passes; for runs of a gateway."""

    def __init__(self, seed, fixed=False, rounds=6, packets=60):
        rng = self.rng = random.Random(f"{seed} {fixed}")
        lists = {WAN: rules(rng, fixed)}
        nat, more = {}, {}
        kind = rng.randrange(4)
        if kind == 0:
            nat = {WAN2: "edge"}
            lists[WAN2] = lists[WAN]
        elif kind == 1:
            lists[WAN2] = rules(rng, fixed)
            nat, more = {WAN2: "other"}, {"other": [r.text() for r in lists[WAN2]]}
        self.settings = {}
        if rng.random() < 0.7:
            for state in rng.sample(sorted(TIMEOUTS), 5):
                self.settings[TIMEOUTS[state][0]] = rng.randrange(10, 400)
        times = "".join(f'{k} = "{v}s"\n' for k, v in self.settings.items())
        self.tenants = not fixed and rng.random() < 0.4
        super().__init__(f"random-{seed}" if not fixed else f"fixed-{seed}", [r.text() for r in lists[WAN]], [f"{a}/32" for a in OWN],
                         (LINKED if self.tenants else "") + (f"[flow-table.timeouts]\n{times}" if times else ""), lists=more, nat=nat, seed=seed,
                         extra={i: f'vrf = "{v}"\n' for i, v in VRFS.items()} if self.tenants else None)
        vrfs = (VRFS, {"red": ["10.0.0.1"], "blue": ["10.0.0.1", "10.1.0.1"]},
                {"red": {LAN: ["10.0.0.0/16"]}, "blue": {DMZ: ["10.0.0.0/16", "10.1.0.0/16"]}})
        own = [a for a in GATEWAY if not self.tenants or a not in INTERFACES]
        self.model = Model(lists, own, self.settings, *(vrfs if self.tenants else ()))
        self.fixed, self.rounds, self.size, self.tag = fixed, rounds, packets, 0
        self.sport = 20000

    def config(self):
        text = super().config()
        return text.replace('"10.1.0.1/16", "fd00:2::1/64"', '"10.1.0.1/16", "10.0.0.1/16", "fd00:2::1/64"') if self.tenants else text

    # Packets

    def data(self):
        self.tag += 1
        return b"weir%06d" % self.tag + bytes(self.rng.randrange(0, 40))

    def fresh(self):
        """Returns (interface, packet) with random addresses."""
        rng = self.rng
        proto = rng.choice(PROTOCOLS)
        a, b = rng.choice((WAN, WAN2)), rng.choice((LAN, LAN, DMZ))
        kind = rng.random()
        far, host = rng.choice(FAR[a]), rng.choice((TENANTS if self.tenants else INSIDE)[b])
        if kind < 0.62:
            entry, src, dst = b, host, far
        elif kind < 0.85:
            entry, src, dst = a, far, rng.choice((*OWN[:3], "198.51.100.1", "198.51.100.1", ADDRESS[a], "192.168.4.9"))
        else:
            entry, src, dst = b, host, rng.choice((*OWN[:3], "198.51.100.1", "198.51.100.1", "10.0.0.9", "10.1.0.6"))
        self.sport += 1
        sport = self.sport if self.fixed else rng.choice((1000, 1001, 7001, 40000, 40001, self.sport))
        k = {"spoil": rng.choice((0, 0, 0, 5))}
        if proto == ICMP:
            return entry, Packet(ICMP, src, dst, sport, data=self.data(), kind=rng.choice((8, 8, 8, 13, 15, 17, 0, 5)), **k)
        if proto == UDP and rng.random() < 0.1:
            k = {"check": False}
        if proto == TCP:
            k["flags"] = rng.choice((SYN, SYN, SYN, SYN, ACK, ACK | FIN, RST, SYN | FIN))
        if not self.fixed and rng.random() < 0.04:
            k["ttl"] = 1
        if proto in PORTS:
            return entry, Packet(proto, src, dst, sport, rng.choice(SERVICES), self.data(), **k)
        return entry, Packet(proto, src, dst, data=b"\0\0\x08\0" + self.data(), **k)

    def further(self, t):
        """Returns packets of a translation in one of its directions: (interface, packet) each."""
        rng, p, q = self.rng, t.p, t.q
        back = rng.random() < 0.55
        base, entry = (reply(q), t.out) if back else (p, t.entry)
        base = base.replace(data=self.data(), spoil=0, ttl=rng.choice((64, 9)))
        kind = rng.random()
        if kind < 0.2 and base.proto != TCP:
            return [(entry, base)] * 2
        if kind < 0.4:  # errors: about q from its receiver or a router there, or about the reply from the sender
            inner = rng.random() < 0.5
            near = rng.random() < 0.5
            if inner:
                source = p.src if near else self.router(t.entry)
                return [(t.entry, Error(source, p.dst, reply(p), rng.choice((28, 40, None)), *self.error()))]
            source = q.dst if near else self.router(t.out)
            return [(t.out, Error(source, q.src, q.replace(spoil=0), rng.choice((28, 40, None)), *self.error()))]
        if base.proto == TCP:
            base = base.replace(flags=self.flags(t, 1 if back else 0))
        if kind < 0.5 and base.proto in (UDP, ICMP, TCP) and not base.flags & SYN:
            whole = base.replace(data=self.data() + bytes(560))
            order = [0, 1, 2]
            rng.shuffle(order)
            return [(entry, Part(whole, 256, i, self.tag & 0xffff)) for i in order]
        return [(entry, base)]

    def router(self, interface):
        return {LAN: "10.0.0.77", DMZ: "10.1.0.77", WAN: "9.9.0.77", WAN2: "192.0.2.77"}[interface]

    def error(self):
        return self.rng.choice(((3, 1, 0), (3, 3, 0), (3, 4, 1400), (11, 0, 0), (12, 0, 0x5000000)))

    def flags(self, t, way):
        """Returns flags whose effect the documents say."""
        rng, s = self.rng, t.state
        if s == "syn-sent":
            return SYN if way == t.syn else SYN | ACK
        if s in ("syn-recv", "unreplied"):
            return rng.choice((ACK, ACK, RST | ACK))
        if s in ("fin-wait", "time-wait", "close"):
            if t.syn is not None and t.reopening and way != t.syn:
                return SYN | ACK
            if not way and rng.random() < 0.4:
                t.reopening = True
                return SYN
        return rng.choice((ACK, ACK, ACK, ACK | FIN, RST))

    # The run

    def run(self, weir, folder):
        self.write(folder)
        self.packets, before = [], []
        for _ in range(self.rounds):
            new = self.make_round()
            self.packets += new
            seen, said = self.replay(weir, folder, [(t, i, p.octets()) for t, i, p in self.packets])
            if seen is None:
                return [said]
            for n, (a, b) in enumerate(zip(before, seen), 1):
                if a.frames != b.frames or a.line != b.line:
                    return [f"packet {n} fares otherwise when further packets follow"]
            faults = []
            start = len(self.packets) - len(new)
            n = start
            while n < len(self.packets):
                count = 1
                time, entry, p = self.packets[n]
                if isinstance(p, Part):  # its three fragments follow each other
                    count = 3
                faults += [f"packet {n + 1} ({entry}, {p}): {f}" for f in self.judge(self.packets[n:n + count], seen[n:n + count])]
                if len(faults) > 3:
                    return faults
                n += count
            self.steps, before = self.packets, seen
            if faults:
                return faults
        self.seen = before
        return []

    def make_round(self):
        rng, out = self.rng, []
        if not self.fixed and rng.random() < 0.7:
            self.wait(rng.choice((0.01, 5, 25, 60, 130, 260, 700)))
        self.now = self.model.settled(self.now)
        self.model.expire(self.now)
        old = list(self.model.live)
        used = set()
        while len(out) < self.size:
            if old and rng.random() < 0.55:
                t = rng.choice(old)
                if t.came[0] == TCP and t in used:
                    continue
                used.add(t)
                made = self.further(t)
            else:
                made = [self.fresh()]
            for entry, p in made:
                out.append((self.now, entry, p))
                self.now += GAP if self.fixed or rng.random() < 0.5 else 100
        self.now += GAP
        return out

    # The comparison

    def judge(self, packets, seen):
        """Compares what became of a packet, or of the three fragments of one, with the model."""
        time, entry, p = packets[0]
        whole = p.packet if isinstance(p, Part) else p
        if any(s.line is None for s in seen):
            return ["no line"]
        faults = [f for s in seen for _, d in s.frames for f in sums(d)] if not getattr(whole, "spoil", 0) else []
        if isinstance(whole, Error):
            return faults + self.judge_error(entry, whole, seen[0])
        key = whole.fields()
        t, way = self.model.find(key, entry)
        if t is not None:
            out, q = (t.entry, reply_of(whole, t.p)) if way else (t.out, t.as_left(whole))
            if value(whole.ttl) > 1:
                t.packet(way, whole.flags, packets[-1][0])
                faults += self.rule_fault(seen[0], t.rule)
                return faults + [f for (_, _, x), s in zip(packets, seen) for f in self.forwarded(x, q, out, s)]
            return faults + self.dropped(seen[0], {"ttl-expired"})
        if isinstance(p, Part):
            return ["fragments of no translation: the case is wrong"]
        return faults + self.judge_first(time, entry, whole, seen[0])

    def forwarded(self, x, q, out, seen):
        """Compares with the packet `q`, or the fragment of it that `x` is."""
        if seen.line["verdict"] != "forward":
            return [f"verdict {seen.line['verdict']} {seen.line['reason']} instead of forward by {out} as {q}"]
        want = q.replace(ttl=q.ttl - 1)
        if isinstance(x, Part):
            want = Part(want, x.size, x.index, x.ident)
        got = seen.frames
        if [(out, want.octets())] != got:
            return [f"left as {[(i, d.hex()) for i, d in got]} instead of {out} {want.octets().hex()}"]
        return []

    def dropped(self, seen, reasons):
        if seen.line["verdict"] != "drop" or seen.line["reason"] not in reasons:
            return [f"verdict {seen.line['verdict']} {seen.line['reason'] or ''} instead of drop {'/'.join(sorted(reasons))}"]
        return []

    def rule_fault(self, seen, rules):
        rules = {r.text() for r in rules}
        named = {n["by"]["rule"] for n in seen.line.get("nat", []) if n["effect"] == "translated"}
        return [] if named == rules else [f"the line names {named} instead of {rules}"]

    def judge_first(self, time, entry, p, seen):
        m, fields = self.model, p.fields()
        proto, src, dst, sport, dport = fields
        hit, rule, edge, out, to, toport = m.decide(entry, fields)
        if hit is None and rule is None:
            if seen.line.get("nat") and any(n["effect"] != "kept" for n in seen.line["nat"]):
                return [f"translated by {seen.line['nat']}, and no rule does"]
            if out is None:  # for the gateway itself
                if seen.line["verdict"] == "forward" or any(wire.Ip(d).dst != src for _, d in seen.frames):
                    return [f"verdict {seen.line['verdict']}, {len(seen.frames)} packets left, though it is for the gateway"]
                return []
            return self.dropped(seen, {"ttl-expired"}) if p.ttl == 1 else self.forwarded(p, p, out, seen)
        opens = not (proto == TCP and (p.flags & RST or p.flags & (SYN | FIN) == SYN | FIN)) and not (proto == ICMP and p.kind not in REQUESTS)
        if not opens:
            return self.dropped(seen, {"nat-untranslated"})
        # While its way out is not known, its tuples are of the VRF that it came in by.
        self.vrfs = m.vrf(entry), m.vrf(out)
        reasons = self.refusals(fields, rule, edge, to, toport)
        if seen.line["verdict"] == "drop" and seen.line["reason"] in reasons:
            return []
        if seen.line["verdict"] == "drop" and seen.line["reason"] == "nat-exhausted" and self.collides(fields, rule, edge, to, toport):
            return []
        if p.ttl == 1:
            return self.dropped(seen, {"ttl-expired"})
        if seen.line["verdict"] != "forward":
            return [f"verdict {seen.line['verdict']} {seen.line['reason']} instead of forward by {out} to {to}"]
        if reasons and "maybe" not in reasons:
            return [f"forwarded instead of drop {reasons}"]
        if len(seen.frames) != 1 or seen.frames[0][0] != out:
            return [f"{[i for i, _ in seen.frames]} instead of {out}"]
        got = wire.Ip(seen.frames[0][1])
        q = p.replace(dst=to)
        if proto in PORTS:
            q = q.replace(dport=toport)
        if rule is not None:
            q = q.replace(src=got.src)
            if proto == ICMP:
                q = q.replace(sport=int.from_bytes(got.payload[4:6], "big"))
            elif proto in PORTS:
                q = q.replace(sport=int.from_bytes(got.payload[:2], "big"))
            if fault := self.source_fault(p, q, rule, edge, to, toport):
                return [fault]
        if faults := self.forwarded(p, q, out, seen):
            return faults
        left = q.fields()
        if m.taken(fields, left, self.vrfs):
            return [f"shares a tuple with another translation: {fields} as {left}"]
        t = Translation(fields, left, [r for r in dict.fromkeys((hit[0] if hit else None, rule)) if r], edge, src, time, self.vrfs)
        t.p, t.q, t.entry, t.out, t.reopening = p.replace(spoil=0, ttl=64, check=True), q.replace(spoil=0, ttl=64, check=True), entry, out, False
        t.as_left = lambda x: x.replace(src=t.q.src, dst=t.q.dst, sport=t.q.sport, dport=t.q.dport)
        t.packet(0, p.flags, time)
        m.live.append(t)
        return self.rule_fault(seen, t.rule)

    def candidates(self, fields, rule):
        """Returns the ports that a source rule may give."""
        proto, _, _, sport, _ = fields
        if rule.kind == "map" or proto == SCTP or proto not in PORTS and proto != ICMP:
            return range(sport, sport + 1)
        if proto == ICMP:
            return rule.tports or range(65536)
        return rule.tports or range(1024, 65536)

    def addresses(self, fields, rule, edge, to, toport):
        """Returns the addresses that a source rule may give to the source of a packet. Protocols without ports take another one
        if the peer has a translation with the paired one."""
        if rule.kind == "map":
            return [moved(fields[1], rule.src, rule.target)]
        known = self.model.paired.get((rule.target, edge, fields[1]))
        if known and (fields[0] in PORTS or fields[0] == ICMP or not self.model.taken(fields, (fields[0], known, to, fields[3], toport), self.vrfs)):
            return [known]
        return self.model.sources(rule, edge)

    def free(self, fields, rule, edge, to, toport):
        """Returns, for each address, whether a port of few candidates is free."""
        proto, src, dst, sport, dport = fields
        ports = self.candidates(fields, rule)
        if len(ports) > 1000:
            return [True]
        return [any(not self.model.taken(fields, (proto, a, to, port, toport), self.vrfs) for port in ports) for a in self.addresses(fields, rule, edge, to, toport)]

    def refusals(self, fields, rule, edge, to, toport):
        """Returns the reasons for which the first packet of a translation has to be dropped."""
        reasons = set()
        if rule is None:
            if turned(left := (fields[0], fields[1], to, fields[3], toport)) == left:  # a host to itself, without ports
                reasons |= {"nat-exhausted", "maybe"}
            if self.model.taken(fields, (fields[0], fields[1], to, fields[3], toport), self.vrfs):
                reasons.add("nat-exhausted")
            return reasons
        if not any(self.free(fields, rule, edge, to, toport)):
            reasons.add("nat-exhausted")
        if any(turned((fields[0], a, to, fields[3], toport)) == fields for a in self.addresses(fields, rule, edge, to, toport)):
            reasons |= {"nat-exhausted", "maybe"}  # a host to itself: packet and reply are alike
        if rule.limit is not None:
            if sum(rule in t.rule and t.edge == edge and t.inside == fields[1] and t.vrfs[0] == self.vrfs[0] for t in self.model.live) >= rule.limit:
                reasons.add("nat-limit")
        return reasons

    def collides(self, fields, rule, edge, to, toport):
        """Returns whether the address that the source has, which is not known yet, may have no port left."""
        return rule is not None and not all(self.free(fields, rule, edge, to, toport))

    def source_fault(self, p, q, rule, edge, to, toport):
        fields = p.fields()
        allowed = self.addresses(fields, rule, edge, to, toport)
        if q.src not in allowed:
            return f"source {q.src} instead of {allowed} by {rule.text()}"
        ports = self.candidates(fields, rule)
        port = value(q.sport)
        if p.proto in PORTS or p.proto == ICMP:
            if port not in ports:
                return f"port {port} is not in {ports} by {rule.text()}"
            if rule.preserve and p.sport in ports and port != p.sport:
                if not self.model.taken(fields, (p.proto, q.src, to, p.sport, toport), self.vrfs):
                    return f"port {p.sport} became {port}, though it is free: {rule.text()}"
        if rule.kind != "map" and (p.proto in PORTS or p.proto == ICMP):
            self.model.paired.setdefault((rule.target, edge, p.src), q.src)
        return None

    def judge_error(self, entry, e, seen):
        """An error about a packet of a translation goes to that packet's sender; any other reaches no host inside."""
        m, quoted = self.model, e.quoted
        t, way = m.find(turned(quoted.fields()), entry)
        if t is not None and t.came[0] == 50:
            return []
        if t is None:
            hit, rule, _, out, _, _ = m.decide(entry, (ICMP, e.src, e.dst, 0, e.kind))
            if hit or rule:
                return self.dropped(seen, {"nat-untranslated"})
            if out is None:
                return [] if seen.line["verdict"] != "forward" else ["an error about nothing was forwarded"]
            return self.forwarded(e, e, out, seen)
        if way:  # quoted left as q: the error goes back to the first sender
            source = t.p.dst if t.p.dst != t.q.dst else e.src
            want = e.replace(src=source, dst=t.p.src, quoted=quoted.replace(src=t.p.src, dst=t.p.dst, sport=t.p.sport, dport=t.p.dport))
            out = t.entry
        else:  # quoted is a reply as it was delivered
            source = t.q.src if t.p.src != t.q.src else e.src
            back = reply(t.q)
            want = e.replace(src=source, dst=t.q.dst, quoted=quoted.replace(src=back.src, dst=back.dst, sport=back.sport, dport=back.dport))
            out = t.out
        return self.forwarded(e, want, out, seen)


def reply_of(x, p):
    """Returns the reply `x` as the sender of `p` gets it."""
    r = reply(p)
    return x.replace(src=r.src, dst=r.dst, sport=r.sport, dport=r.dport)
