"""A case: a configuration, packets with their expected verdicts, one run of `weir replay`, and the comparison."""
import json
import os
import shutil
import subprocess

import esp
import wire

START = 1_700_000_000_000_000_000
LAN, WAN = "lan", "wan"


class Clear:
    """A packet that leaves by `interface`, equal in every octet; without `ident` the IPv4 identification may differ."""

    def __init__(self, interface, packet, ident=True):
        self.interface, self.packet, self.ident = interface, packet, ident

    def wrong(self, case, interface, packet):
        if interface != self.interface:
            return f"left by {interface} instead of {self.interface}"
        got, want = packet, self.packet
        if not self.ident and got[0] >> 4 == 4:
            got, want = ((p[:4] + b"\0\0" + p[6:10] + b"\0\0" + p[12:]) for p in (got, want))
        if got != want:
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            return (f"differs at octet {at} ({len(got)} octets, {len(want)} expected): {got[:64].hex()} instead of "
                    f"{want[:64].hex()}")
        return None

    def __str__(self):
        return f"clear by {self.interface}"


class Esp:
    """A packet that leaves as ESP of `sa` around `inner` (None: any packet; a function: returns the fault or None).
    `outer`: fields of the outer header, each with its value or a set of values."""

    def __init__(self, sa, inner, interface=WAN, outer=None, ident=True):
        self.sa, self.inner, self.interface, self.outer, self.ident = sa, inner, interface, outer or {}, ident

    def wrong(self, case, interface, packet):
        sa = self.sa
        if interface != self.interface:
            return f"left by {interface} instead of {self.interface}"
        try:
            o, x, inner = sa.from_gateway(packet)
        except esp.EspError as e:
            return f"is no good ESP of {sa.name}: {e} [{packet[:60].hex()}]"
        if sa.mode == "tunnel":
            if (o.src, o.dst) != (sa.local, sa.remote):
                return f"outer addresses {o.src} > {o.dst}"
            if inner[:1] and x.next_header != (41 if inner[0] >> 4 == 6 else 4):
                return f"next header {x.next_header} in front of IP version {inner[0] >> 4}"
            if "ttl" not in self.outer and o.ttl != 64:
                return f"outer TTL {o.ttl} instead of 64"
            if o.version == 4 and o.fragment:
                return "outer packet is a fragment"
        for field, want in self.outer.items():
            got = getattr(o, field)
            if got not in (want if isinstance(want, (set, range)) else {want}):
                return f"outer {field} {got} instead of {want}"
        case.sealed(sa, x, inner, packet)
        if self.inner is None:
            return None
        if callable(self.inner):
            return self.inner(inner)
        return Clear(self.interface, self.inner, self.ident).wrong(case, interface, inner)

    def __str__(self):
        return f"ESP of {self.sa.name}"


class Check:
    """A packet that leaves by `interface` and passes a function: packet → fault or None."""

    def __init__(self, interface, function, what="a packet"):
        self.interface, self.function, self.what = interface, function, what

    def wrong(self, case, interface, packet):
        if interface != self.interface:
            return f"left by {interface} instead of {self.interface}"
        return self.function(packet)

    def __str__(self):
        return self.what


class Together:
    """All packets that leave for one received packet: a function of the list of (interface, packet)."""

    def __init__(self, function):
        self.function = function


class Sent:
    def __init__(self, time, interface, packet, verdict, reason, frames, note, secret, datagram):
        self.time, self.interface, self.packet, self.verdict, self.datagram = time, interface, packet, verdict, datagram
        self.reason, self.frames, self.note, self.secret = reason, frames, note, secret


def icmp_error(interface, kind, code, mtu=None, src=None, dst=None):
    """Returns the check of an ICMP error, which has to report `mtu`."""
    def check(packet):
        p = wire.Ip(packet)
        if p.proto != (58 if p.version == 6 else 1) or len(p.payload) < 8:
            return f"is no ICMP error: protocol {p.proto}"
        k, c = p.payload[0], p.payload[1]
        if (k, c) != (kind, code):
            return f"ICMP {k}/{c} instead of {kind}/{code}"
        reported = int.from_bytes(p.payload[4:8] if p.version == 6 else p.payload[6:8], "big")
        if mtu is not None and reported != mtu:
            return f"MTU {reported} instead of {mtu}"
        if dst and p.dst != dst:
            return f"error to {p.dst} instead of {dst}"
        if src and p.src != src:
            return f"error from {p.src} instead of {src}"
        return None
    return Check(interface, check, f"ICMP {kind}/{code}")


TOPOLOGY = '''version = 1

{ipsec}
[[interface]]
name = "lan"
port = "null"
mac = "02:00:00:00:00:01"
mtu = {lan_mtu}
address = ["10.0.0.1/24", "2001:db8:a::1/64"]
{lan_spd}
[[interface]]
name = "wan"
port = "null"
mac = "02:00:00:00:00:02"
mtu = {mtu}
address = ["198.51.100.1/24", "2001:db8:1::1/64"]
{wan_spd}
[icmp]
error-rate = 1000000
error-burst = 1000000
echo-rate = 1000000
echo-burst = 1000000

[[route]]
prefix = "10.0.0.0/8"
via = {{ address = "10.0.0.254" }}

[[route]]
prefix = "2001:db8:a::/48"
via = {{ address = "2001:db8:a::fe" }}

[[route]]
prefix = "0.0.0.0/0"
via = {{ address = "198.51.100.254" }}

[[route]]
prefix = "::/0"
via = {{ address = "2001:db8:1::fe" }}
'''


class Case:
    """`rules` is the SPD `edge` of wan. `more` is further configuration."""

    step = 100  # nanoseconds: up to 256 packets form a vector

    def __init__(self, name, sas=(), rules=None, mtu=1500, lan_mtu=1500, lan_rules=None, more="", insecure=False,
                 macs=None,
                 cache=None, ordered=True):
        self.name, self.sas, self.rules, self.lan_rules = name, list(sas), rules, lan_rules
        self.mtu, self.lan_mtu, self.more, self.insecure = mtu, lan_mtu, more, insecure
        self.macs = {LAN: 1, WAN: 2, **(macs or {})}
        self.cache, self.ordered = cache, ordered
        self.wan_extra = ""
        self.gaps = False  # numbers of packets that were dropped after they were sealed
        self.now, self.packets, self.seals, self.texts = START, [], {}, {}

    def config(self):
        def spd(name, rules):
            if rules is None:
                return ""
            rows = "".join(f"  '{r}',\n" if '"' in r else f'  "{r}",\n' for r in rules)
            cache = f"cache = {self.cache}\n" if self.cache else ""
            return f"\n[spd.{name}]\nrules = [\n{rows}]\n{cache}"
        text = TOPOLOGY.format(
            ipsec=f'[ipsec]\nstate = "state"\n{"insecure = true" if self.insecure else ""}\n' if self.sas else "",
            lan_mtu=self.lan_mtu, mtu=self.mtu,
            lan_spd='spd = "inner"\n' if self.lan_rules is not None else "",
            wan_spd=('spd = "edge"\n' if self.rules is not None else "") + self.wan_extra)
        return (text + self.more + spd("edge", self.rules) + spd("inner", self.lan_rules)
                + "".join("\n" + s.toml() for s in self.sas))

    # Packets

    def tick(self, seconds=0.001):
        """Lets time pass: packets before and behind are in different vectors."""
        self.now += int(seconds * 1e9)

    def send(self, interface, packet, verdict, frames=(), reason=None, note="", secret=None, datagram=None):
        """Adds a packet. `verdict`: a word or a set. `secret`: octets that must not leave in clear by wan, or True for
        the last ones of the packet. `datagram`: a name that the fragments of a datagram share whose last one has the
        verdict of the whole. If fragments wait for the first one, another one may complete the datagram."""
        verdict = {verdict} if isinstance(verdict, str) else set(verdict)
        if isinstance(reason, str):
            reason = {reason}
        if secret is True:
            secret = packet[-12:]
        self.packets.append(Sent(self.now, interface, packet, verdict, reason, frames, note, secret, datagram))
        self.now += self.step

    def drop(self, interface, packet, reason=None, frames=(), note="", secret=None):
        self.send(interface, packet, "drop", frames, reason, note, secret)

    def protect(self, packet, sa, outer=None, note="", inner=None, secret=True, interface=LAN, ident=True):
        """A packet from lan that leaves as ESP."""
        self.send(interface, packet, "forward",
                  [Esp(sa, wire.forwarded(packet) if inner is None else inner, outer=outer, ident=ident)],
                  note=note, secret=secret)

    def bypass(self, interface, packet, out, note=""):
        self.send(interface, packet, "forward", [Clear(out, wire.forwarded(packet))], note=note)

    def decrypt(self, packet, inner, note="", tos=None):
        """An ESP packet from wan whose inner packet leaves by lan."""
        self.send(WAN, packet, "forward", [Clear(LAN, wire.forwarded(inner, tos=tos))], note=note)

    # Sequence numbers and IVs

    def sealed(self, sa, x, inner, packet):
        self.seals.setdefault(sa.name, []).append((x.seq, x.iv, inner[:1] and inner[0] >> 4))

    def seal_faults(self):
        for sa in self.sas:
            seals = self.seals.get(sa.name, [])
            numbers = [s for s, _, _ in seals]
            if len(set(numbers)) != len(numbers):
                yield f"{sa.name} used a sequence number twice"
            elif not self.gaps and sorted(numbers) != list(range(1, len(numbers) + 1)):
                yield f"sequence numbers of {sa.name}: {sorted(numbers)[:8]}…, 1 to {len(numbers)} expected"
            if self.ordered:
                for version in (4, 6):
                    own = [s for s, _, v in seals if v == version]
                    if own != sorted(own):
                        yield f"sequence numbers of {sa.name} are out of order: {own[:20]}"
            ivs = [iv for _, iv, _ in seals if iv]
            if len(set(ivs)) != len(ivs):
                yield f"{sa.name} used an IV twice"

    # The run

    def write(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "state"), mode=0o700)
        with open(os.path.join(folder, "weir.toml"), "w") as f:
            f.write(self.config())
        for sa in self.sas:
            for name, (text, mode) in sa.files.items():
                path = os.path.join(folder, name)
                with open(path, "w") as f:
                    f.write(text)
                os.chmod(path, mode)
        for name, number in self.macs.items():
            own = [(p.time, wire.frame(p.packet, bytes([2, 0, 0, 0, 0, number]))) for p in self.packets
                   if p.interface == name]
            wire.write_pcap(os.path.join(folder, f"{name}.pcap"), own)

    def run(self, weir, folder):
        """Runs the case and returns the list of faults."""
        self.write(folder)
        ins = [f"--in={n}={os.path.join(folder, n + '.pcap')}" for n in self.macs]
        command = [weir, "replay", os.path.join(folder, "weir.toml"), "--json", "--own-keys", "--out-dir",
                   os.path.join(folder, "out"), *ins]
        with open(os.path.join(folder, "command"), "w") as f:
            f.write(" ".join(command) + "\n")
        with open(os.path.join(folder, "lines"), "wb") as out, open(os.path.join(folder, "summary"), "wb") as err:
            code = subprocess.run(command, stdout=out, stderr=err, timeout=300).returncode
        with open(os.path.join(folder, "summary"), errors="replace") as f:
            summary = f.read()
        if code:
            with open(os.path.join(folder, "lines"), errors="replace") as f:
                said = (summary + f.read(100_000)).splitlines()
            first = next((row for row in said if row.startswith(("error", "thread"))), " ".join(said[-3:])[-200:])
            try:
                d = json.loads(said[-1])["diagnostics"][0]
                first = f"{d['code']}: {d['message']} (line {d['line']})"
            except (ValueError, KeyError, IndexError, TypeError):
                pass
            place = next((row.strip() for row in said if row.strip().startswith("-->")), "")
            first += " " + place.split("/")[-1]
            return [f"weir replay ended with {code}: {first}"]
        return list(self.faults(folder, summary))

    def faults(self, folder, summary):
        with open(os.path.join(folder, "lines")) as f:
            lines = [json.loads(row) for row in f if row.strip()]
        by_number = {line["n"]: line for line in lines}
        left, datagrams = {}, {}
        for name in self.macs:
            for time, data in wire.read_pcap(os.path.join(folder, "out", f"{name}.pcap")):
                if data[12:14] in (b"\x08\x00", b"\x86\xdd"):
                    left.setdefault(time, []).append((name, data[14:]))
        order = sorted(range(len(self.packets)), key=lambda i: self.packets[i].time)
        for n, i in enumerate(order, 1):
            p = self.packets[i]
            where = f"packet {n} ({p.interface}{', ' + p.note if p.note else ''})"
            line = by_number.get(n)
            if line is None:
                yield f"{where}: no line"
                continue
            frames = left.pop(p.time, [])
            if p.datagram is not None:
                datagrams.setdefault(p.datagram, []).append((p, where, line, frames))
                continue
            yield from self.line_faults(p, where, line)
            yield from self.frame_faults(p, where, frames)
        for parts in datagrams.values():
            yield from self.datagram_faults(parts)
        for time, frames in left.items():
            yield f"at {time}: {len(frames)} packets left without one that came in"
        if "every packet is accounted for" not in summary:
            yield "the sum of packets does not hold"
        yield from self.seal_faults()

    def line_faults(self, p, where, line):
        if line["verdict"] not in p.verdict:
            want = "/".join(sorted(p.verdict)) + " " + "/".join(sorted(p.reason or []))
            yield f"{where}: verdict {line['verdict']} {line['reason'] or ''} instead of {want}: {line['packet']}"
        elif p.reason and line["reason"] not in p.reason:
            yield f"{where}: reason {line['reason']} instead of {'/'.join(sorted(p.reason))}: {line['packet']}"

    def datagram_faults(self, parts):
        """The parts of a datagram: one of them ends as the last one was to end, and the others leave nothing."""
        whole, last, _, _ = parts[-1]
        ends = [part for part in parts if not list(self.line_faults(whole, last, part[2]))]
        if len(ends) != 1:
            got = ", ".join(f"{line['verdict']} {line['reason'] or ''}" for _, _, line, _ in parts)
            yield f"{last}: {len(ends)} parts end as the datagram: {got}"
            return
        yield from self.frame_faults(whole, last, ends[0][3])
        for _, where, line, frames in parts:
            if line is not ends[0][2] and (frames or line["verdict"] not in ("held", "local", "drop")):
                yield f"{where}: verdict {line['verdict']}, {len(frames)} packets left"

    def is_esp(self, data):
        """Returns whether a packet is ESP: with some algorithms its text is readable."""
        o = wire.Ip(data, skip=True)
        ports = [s.encap[:2] for s in self.sas if s.encap]
        return o.proto == 50 or o.proto == 17 and (o.payload[:4] in [a.to_bytes(2, "big") + b.to_bytes(2, "big") for a,
                                                                     b in ports])

    def frame_faults(self, p, where, frames):
        if p.secret:
            for interface, data in frames:
                if interface.startswith(WAN) and p.secret in data and not self.is_esp(data):
                    yield f"{where}: LEFT IN CLEAR by {interface}"
        if isinstance(p.frames, Together):
            fault = p.frames.function(self, frames)
            if fault:
                yield f"{where}: {fault}"
            return
        if len(frames) != len(p.frames):
            what = ", ".join(str(x) for x in p.frames) or "nothing"
            got = ", ".join(f"{i} {d[:28].hex()}" for i, d in frames[:3]) or "nothing"
            yield f"{where}: {len(frames)} packets left ({got}) instead of {len(p.frames)} ({what})"
            return
        for want, (interface, data) in zip(p.frames, frames):
            fault = want.wrong(self, interface, data)
            if fault:
                yield f"{where}: {fault}"
