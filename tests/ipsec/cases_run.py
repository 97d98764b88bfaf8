"""A running gateway: counters of `weir show`, restarts (no sequence number or IV twice), a reload under traffic."""
import json
import os
import random
import shutil
import signal
import subprocess
import time

import esp
import wire
from case import LAN, WAN, Case
from cases_alg import L4, L6, data, tunnel, tunnel_hosts, tunnel_nets
from sa import Sa

# Neighbours of both interfaces, so that no packet waits for one.
STATIC = (("lan", "10.0.0.254"), ("lan", L4), ("lan", L6), ("lan", "2001:db8:a::fe"), ("wan", "198.51.100.254"),
          ("wan", "2001:db8:1::fe"))
NEIGHBORS = "".join(f'\n[[neighbor]]\ninterface = "{interface}"\naddress = "{address}"\nmac = "02:00:00:00:00:40"\n'
                    for interface, address in STATIC)


def numbers(tree):
    """All numbers of a JSON value by their path."""
    if isinstance(tree, dict):
        for k, v in tree.items():
            for path, n in numbers(v):
                yield f"{k}.{path}" if path else k, n
    elif isinstance(tree, list):
        for i, v in enumerate(tree):
            for path, n in numbers(v):
                yield f"{i}.{path}" if path else str(i), n
    elif isinstance(tree, (int, float)) and not isinstance(tree, bool):
        yield "", tree


def find(tree, key, value):
    """The objects in which `key` has `value`."""
    if isinstance(tree, dict):
        if tree.get(key) == value:
            yield tree
        for v in tree.values():
            yield from find(v, key, value)
    elif isinstance(tree, list):
        for v in tree:
            yield from find(v, key, value)


class Live(Case):
    """Packets by the pcap ports of `weir run`. `judge` compares the packets that left."""

    paced = False

    def config(self):
        text = super().config()
        for name in (LAN, WAN):
            paced = ", paced = true" if self.paced else ""
            port = f'port = {{ pcap = {{ input = "{name}.pcap", output = "{name}-out.pcap"{paced} }} }}'
            text = text.replace(f'name = "{name}"\nport = "null"', f'name = "{name}"\n{port}')
        return text + NEIGHBORS + ('\n[service]\nuser = "root"\n' if os.geteuid() == 0 else "")

    def warm_up(self):
        """Adds a packet for each port that no rule matches, and a pause. A port paces packets from its first one on."""
        self.send(LAN, wire.udp(L4, "172.31.0.1", 1, 2, b""), "x", note="first")
        self.send(WAN, wire.udp("172.31.0.1", L4, 1, 2, b""), "x", note="first")
        self.tick(0.3)

    def start(self, weir, folder):
        self.socket = os.path.join(folder, "s")
        for name in (LAN, WAN):  # of an earlier run
            if os.path.exists(os.path.join(folder, f"{name}-out.pcap")):
                os.remove(os.path.join(folder, f"{name}-out.pcap"))
        command = [weir, "run", os.path.join(folder, "weir.toml"), "--socket", self.socket, "--log-level", "debug"]
        with open(os.path.join(folder, "log"), "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def reload(self, weir, folder, text):
        """Reloads a configuration; returns the exit code and the output."""
        path = os.path.join(folder, "weir.toml")
        with open(path + ".new", "w") as f:
            f.write(text)
        os.rename(path + ".new", path)
        done = subprocess.run([weir, "reload", "--socket", self.socket], capture_output=True, text=True, timeout=60)
        return done.returncode, (done.stdout + done.stderr).strip()[:300]

    def ended(self, folder):
        """Returns the fault if the gateway has ended by itself, else None."""
        if self.process.poll() is not None:
            return f"weir run ended with {self.process.returncode}: {self.log(folder).strip()[-300:]}"
        return None

    def show(self, weir, *what):
        done = subprocess.run([weir, "show", *what, "--socket", self.socket], capture_output=True, text=True,
                              errors="replace", timeout=60)
        return done.returncode, done.stdout + done.stderr

    def settle(self, folder, process, want, seconds=20):
        """Waits until the two outputs have `want` packets, or do not grow any more."""
        end = time.time() + seconds
        while time.time() < end and process.poll() is None:
            if self.count(folder) >= want:
                return True
            time.sleep(0.2)
        return False

    def count(self, folder):
        """Returns the number of packets that left."""
        return sum(len(self.output(folder, name)) for name in (LAN, WAN))

    def output(self, folder, name):
        path = os.path.join(folder, f"{name}-out.pcap")
        try:
            return [d[14:] for _, d in wire.read_pcap(path) if d[12:14] in (b"\x08\x00", b"\x86\xdd")]
        except (OSError, AssertionError, IndexError, ValueError, __import__("struct").error):
            return []

    def run(self, weir, folder):
        self.write(folder)
        self.process = None
        try:
            return list(self.judge(weir, folder))
        finally:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def log(self, folder):
        with open(os.path.join(folder, "log"), errors="replace") as f:
            return f.read()

    def leaks_key(self, text):
        keys = [k.hex() for s in self.sas for k in (s.key_in, s.key_out) if k]
        flat = text.lower()
        return any(k[i:i + 12] in flat for k in keys for i in range(0, len(k) - 12, 2))


class Counters(Live):
    def judge(self, weir, folder):
        self.process = self.start(weir, folder)
        self.settle(folder, self.process, self.expected)
        time.sleep(0.5)
        if fault := self.ended(folder):
            yield fault
            return
        texts = {}
        for what in ("sa", "spd", "crypto"):
            for form in ((), ("--json",)):
                code, text = self.show(weir, what, *form)
                texts[what, bool(form)] = text
                with open(os.path.join(folder, f"show-{what}{'.json' if form else ''}"), "w") as f:
                    f.write(text)
                if code:
                    yield f"weir show {what} {' '.join(form)} ended with {code}: {text.strip()[:200]}"
                if self.leaks_key(text):
                    yield f"weir show {what} {' '.join(form)} shows a part of a key"
        code, text = self.show(weir, "sa", "nothing")
        if code == 0:
            yield "weir show sa nothing: exit code 0 for an SA that does not exist"
        code, text = self.show(weir, "spd", "nothing")
        if code == 0:
            yield "weir show spd nothing: exit code 0 for an SPD that does not exist"
        self.stop()
        if self.leaks_key(self.log(folder)):
            yield "the log shows a part of a key"
        if "aes128gcm16" not in texts["crypto", False] + texts["crypto", True] and "t1" not in texts["crypto", False]:
            yield "weir show crypto names neither algorithm nor SA"
        try:
            sa, spd = json.loads(texts["sa", True]), json.loads(texts["spd", True])
        except ValueError as e:
            yield f"no JSON: {e}"
            return
        found = next(find(sa, "name", "t1"), None) or next(find(sa, "sa", "t1"), None)
        if found is None:
            yield "show sa --json has no object named t1"
        else:
            flat = dict(numbers(found))
            for words, n in self.sa_counts.items():
                hits = {k: v for k, v in flat.items() if all(w in k.lower() for w in words.split())}
                if n not in hits.values():
                    yield f"show sa t1: {words} {hits or 'is not there'}, {n} expected"
        for rule, (out, into) in self.rule_counts.items():
            found = next((o for key in ("rule", "text", "policy") for o in find(spd, key, rule)), None)
            if found is None:
                yield f"show spd --json has no rule {rule!r}"
                continue
            flat = dict(numbers(found))
            for word, n in (("out", out), ("in", into)):
                hits = [v for k, v in flat.items() if "packets" in k.lower()
                        and word in k.lower().replace("-", ".").replace("_", ".").split(".")]
                if n not in hits:
                    yield f"show spd, {rule!r}: packets {word} {hits} in {flat}, {n} expected"
            if rule not in texts["spd", False]:
                yield f"show spd does not print the rule as it is written: {rule!r}"


def counters():
    sa, _ = tunnel(1)
    rules = ["protect ip4 from 10.0.0.0/8 to 192.168.1.0/24 sa t1", "bypass udp from any to 192.168.2.0/24 priority 7",
             "discard ip from any to 192.168.3.0/24 priority -7",
             "bypass icmp from any to any type echo-request code 0"]
    c = Counters("live-counters", [sa], rules)
    rng = random.Random(1)

    def udp(far, out):
        return wire.udp(L4, far, 1, 2, data(rng, 50)) if out else wire.udp(far, L4, 1, 2, data(rng, 50))
    for far, n_out, n_in in (("192.168.1.9", 11, 3), ("192.168.2.9", 5, 7), ("192.168.3.9", 4, 2),
                             ("192.168.4.9", 6, 8)):
        for _ in range(n_out):
            c.send(LAN, udp(far, True), "x")
        for _ in range(n_in):
            c.send(WAN, udp(far, False), "x")
    inner = udp("192.168.1.9", False)
    # The window ends behind 147, and of the numbers up to there five came: 142 are lost.
    for seq in (1, 2, 3, 10, 11, 200, 201):
        c.send(WAN, sa.from_peer(inner, seq), "x")
    for seq in (3, 200, 201):
        c.send(WAN, sa.from_peer(inner, seq), "x")
    for seq in (202, 203):
        p = bytearray(sa.from_peer(inner, seq))
        p[-1] ^= 1
        c.send(WAN, bytes(p), "x")
    c.send(WAN, sa.from_peer(udp("192.168.2.9", False), 210), "x")
    text = inner + b"\x09\x09" * 3 + bytes([200, 4])
    c.send(WAN, sa.wrap(esp.seal_text(sa.a, sa.key_in, sa.spi_in, 211, False,
                                      text[:len(text) // 4 * 4 - 2] + b"\xfa\x04")), "x")
    # Out: 11 as ESP and 5 in clear. In: 7 decrypted and 7 clear.
    c.expected = 11 + 5 + 7 + 7
    c.sa_counts = {"replayed": 3, "auth-failed": 2, "selector": 1, "malformed": 1, "dummies": 0, "lost": 142,
                   "highest": 211, "out.packets": 11, "out.bytes": 11 * 78, "out.next": 12,
                   "out.exhausted": 0, "out.unreserved": 0}
    c.rule_counts = {rules[0]: (11, None), rules[1]: (5, 7), rules[2]: (4, 2)}
    c.rule_counts = {k: v for k, v in c.rule_counts.items() if v[1] is not None}
    return c


class Restart(Live):
    """Killed and started again with the same keys: the state keeps sequence numbers and IVs apart."""

    paced = True

    def judge(self, weir, folder):
        seen, ivs, last = {}, {}, {}
        for turn, end in enumerate(("kill", "kill", "term", "kill", "term")):
            self.process = self.start(weir, folder)
            if not self.settle(folder, self.process, self.expected, 6):
                yield (f"run {turn}: {self.count(folder)} packets left, {self.expected} expected: "
                       f"{self.log(folder)[-200:]}")
            self.process.send_signal(signal.SIGKILL if end == "kill" else signal.SIGTERM)
            self.process.wait(30)
            for packet in self.output(folder, WAN):
                for sa in self.sas:
                    try:
                        _, x, _ = sa.from_gateway(packet)
                    except esp.EspError:
                        continue
                    if x.seq in seen.setdefault(sa.name, set()):
                        yield f"run {turn}: {sa.name} used sequence number {x.seq} again"
                        return
                    if x.iv and x.iv in ivs.setdefault(sa.name, set()):
                        yield f"run {turn}: {sa.name} used IV {x.iv.hex()} again"
                        return
                    if x.seq < last.get(sa.name, 0):
                        yield f"run {turn}: {sa.name} went back to {x.seq}"
                    last[sa.name] = max(x.seq, last.get(sa.name, 0))
                    seen[sa.name].add(x.seq)
                    ivs[sa.name].add(x.iv)
        if sum(map(len, seen.values())) < 5 * self.expected:
            yield f"{sum(map(len, seen.values()))} ESP packets in five runs, {5 * self.expected} expected"


def restart():
    made = [tunnel(i, algorithm=a, esn=i == 2) for i,
            a in enumerate(("aes128gcm16", "aes256gcm16", "chacha20poly1305", "aes128-sha256", "aes128ctr-sha1",
                            "aes256gmac"), 1)]
    c = Restart("live-restart", [s for s, _ in made], [r for _, own in made for r in own])
    rng = random.Random(2)
    for _ in range(40):
        for i in range(1, len(made) + 1):
            c.send(LAN, wire.udp(L4, tunnel_hosts(i)[0], 1, 2, data(rng, 50)), "x")
        c.tick(0.02)
    c.expected = 40 * len(made)
    return c


class Reload(Live):
    paced = True

    def judge(self, weir, folder):
        self.process = self.start(weir, folder)
        for _ in range(3):
            time.sleep(1)
            if fault := self.ended(folder):
                yield fault
                return
            self.process.send_signal(signal.SIGHUP)
        if not self.settle(folder, self.process, self.expected):
            yield f"{self.count(folder)} packets left, {self.expected} expected"
        time.sleep(0.3)
        self.stop()
        sa = self.sas[0]
        seqs = []
        for packet in self.output(folder, WAN):
            try:
                seqs.append(sa.from_gateway(packet)[1].seq)
            except esp.EspError as e:
                yield f"no good ESP: {e}"
        if len(set(seqs)) != len(seqs) or seqs != sorted(seqs):
            yield f"sequence numbers across reloads: {seqs[:5]}…"
        if len(self.output(folder, LAN)) != self.inward:
            yield f"{len(self.output(folder, LAN))} packets left by lan, {self.inward} expected"


def reload():
    sa, rules = tunnel(1, window=1024)
    c = Reload("live-reload", [sa], rules)
    rng = random.Random(3)
    for i in range(1, 201):
        c.send(LAN, wire.udp(L4, "192.168.1.9", i, 2, data(rng, 50)), "x")
        c.send(WAN, sa.from_peer(wire.udp("192.168.1.9", L4, i, 2, data(rng, 50)), i), "x")
        if i > 50:  # a duplicate from before the last reload
            c.send(WAN, sa.from_peer(wire.udp("192.168.1.9", L4, i, 2, data(rng, 50)), i - 50), "x")
        c.tick(0.02)
    c.inward, c.expected = 200, 400
    return c


class Rules(Live):
    """The rule for a flow changes while its packets pass: every one is decided by the rules in force."""

    paced = True
    PHASES = ("bypass", "discard", "protect", "bypass", "none")

    def rule(self, phase):
        rule = f"{phase} udp from any to 192.168.1.0/24" + (" sa t1" if phase == "protect" else "")
        return [rule] * (phase != "none") + ["bypass ip from any to 192.168.9.0/24",
                                             "protect ip from 10.7.0.0/16 to any sa t1 priority -9"]

    def judge(self, weir, folder):
        self.process = self.start(weir, folder)
        for phase in self.PHASES[1:]:
            time.sleep(1)
            if fault := self.ended(folder):
                yield fault
                return
            self.rules = self.rule(phase)
            code, text = self.reload(weir, folder, self.config())
            if code:
                yield f"reload to {phase} ended with {code}: {text}"
        time.sleep(1.2)
        code, text = self.show(weir, "spd", "--json")
        with open(os.path.join(folder, "show-spd.json"), "w") as f:
            f.write(text)
        for word in ("entries", "hits", "misses", "stale", "overwritten") if self.cache else ():
            if word not in text:
                yield f"show spd --json does not have {word}"
        self.stop()
        fates = {}
        for at, frame in wire.read_pcap(os.path.join(folder, "wan-out.pcap")):
            if frame[12:14] == b"\x08\x00":
                fates[at] = "protect" if wire.Ip(frame[14:]).proto == 50 else "bypass"
        seen = []
        for p in self.packets:
            fate = fates.get(p.time, "drop")
            if not seen or seen[-1][0] != fate:
                seen.append([fate, 0])
            seen[-1][1] += 1
        want = ["drop" if p in ("discard", "none") else p for p in self.PHASES]
        if [f for f, _ in seen] != want:
            yield f"fates in order: {seen}, {want} expected"


class Removed(Live):
    """An SA and its rule go by a reload and come back, with another name. Its packets are dropped in between, and the
    numbers of its key go on (docs/ipsec.md, Sequence numbers)."""

    paced = True

    def judge(self, weir, folder):
        sa, = self.sas
        self.process = self.start(weir, folder)
        for name in (None, "renamed"):
            time.sleep(1)
            if fault := self.ended(folder):
                yield fault
                return
            yield from self.change(weir, folder, name)
        time.sleep(2.5)
        self.stop()
        yield from self.compare(folder, sa)

    def change(self, weir, folder, name):
        """Reloads a configuration in which the SA has this name, or is missing."""
        whole = self.config()
        if name is None:
            text = whole.replace(self.sas[0].toml(), "").replace(
                self.rules[0], self.rules[0].replace("protect", "discard").replace(" sa t1", ""))
        else:
            text = whole.replace("[sa.t1]", f"[sa.{name}]").replace(" sa t1", f" sa {name}")
        code, text = self.reload(weir, folder, text)
        if code:
            yield f"reload ended with {code}: {text}"

    def compare(self, folder, sa):
        sent, numbers = {}, []
        for at, frame in wire.read_pcap(os.path.join(folder, "wan-out.pcap")):
            if frame[12:14] == b"\x08\x00":
                try:
                    sent[at] = sa.from_gateway(frame[14:])[1].seq
                    numbers.append(sent[at])
                except esp.EspError as e:
                    yield f"no good ESP left: {e}"
        came = {at for at, frame in wire.read_pcap(os.path.join(folder, "lan-out.pcap")) if frame[12:14] == b"\x08\x00"}
        if numbers != sorted(set(numbers)):
            yield "numbers were used again, or went back"
        for way, interface, passed in (("out", LAN, sent), ("in", WAN, came)):
            fates = [p.time in passed for p in self.packets if p.interface == interface and p.note != "first"]
            runs = [fate for i, fate in enumerate(fates) if i == 0 or fates[i - 1] != fate]
            if runs != [True, False, True]:
                yield f"{way}: packets passed, in order: {runs}, and not with the SA, without it, with it"


class Rekeyed(Live):
    """A rule moves from one SA to another and back while its packets pass. All leave protected, each by one SA."""

    paced = True

    def judge(self, weir, folder):
        self.process = self.start(weir, folder)
        whole = self.config()
        for sa in (2, 1, 2):
            time.sleep(1)
            if fault := self.ended(folder):
                yield fault
                return
            rule = self.rules[0].replace("sa t1", f"sa t{sa}")
            code, text = self.reload(weir, folder, whole.replace(self.rules[0], rule))
            if code:
                yield f"reload ended with {code}: {text}"
        self.settle(folder, self.process, self.expected, 8)
        time.sleep(0.2)
        self.stop()
        order, numbers = [], {sa.name: [] for sa in self.sas}
        for packet in self.output(folder, WAN):
            for sa in self.sas:
                try:
                    _, x, inner = sa.from_gateway(packet)
                except esp.EspError:
                    continue
                numbers[sa.name].append(x.seq)
                order.append((sa.name, int.from_bytes(wire.Ip(inner).payload[8:12], "big")))
        if [n for _, n in order] != list(range(self.expected)):
            yield f"{len(order)} packets left as ESP, {self.expected} expected in their order"
        turns = [name for i, (name, _) in enumerate(order) if i == 0 or order[i - 1][0] != name]
        if turns != ["t1", "t2", "t1", "t2"]:
            yield f"SAs in order: {turns}"
        for name, used in numbers.items():
            if used != list(range(1, len(used) + 1)):
                yield f"{name} used the numbers {used[:5]}… of {len(used)}"


def rekeyed():
    (a, rules), (b, more) = tunnel(1), tunnel(2, algorithm="aes256-sha256", esn=True)
    c = Rekeyed("live-rekeyed", [a, b], [rules[0], more[1], rules[1]])
    rng = random.Random(7)
    c.warm_up()
    c.expected = 1000
    for i in range(c.expected):
        c.send(LAN, wire.udp(L4, "192.168.1.9", 7, 8, i.to_bytes(4, "big") + data(rng, 40)), "x")
        c.tick(0.004)
    return c


class NewKey(Live):
    """The key file of an SA changes: the new key has numbers from 1 on, and the numbers of the old one go on when it
    comes back. A reload that is refused changes nothing."""

    paced = True

    def judge(self, weir, folder):
        self.process = self.start(weir, folder)
        path, whole = os.path.join(folder, "t1-out.key"), self.config()
        old = self.sas[0].files["t1-out.key"][0]
        for turn, text in enumerate((self.other.key_out.hex(), "no key", old)):
            time.sleep(1)
            if fault := self.ended(folder):
                yield fault
                return
            with open(path, "w") as f:
                f.write(text)
            code, text = self.reload(weir, folder, whole)
            if (code != 0) != (turn == 1):
                yield f"reload {turn} ended with {code}: {text}"
        self.settle(folder, self.process, self.expected, 8)
        code, errors = self.show(weir, "errors")
        self.stop()
        order = []
        for packet in self.output(folder, WAN):
            for number, sa in enumerate((self.sas[0], self.other)):
                try:
                    order.append((number, sa.from_gateway(packet)[1].seq))
                except esp.EspError:
                    continue
        if len(order) != self.expected:
            yield f"{len(order)} packets left as ESP, {self.expected} expected: {errors[:500]}"
        turns = [key for i, (key, _) in enumerate(order) if i == 0 or order[i - 1][0] != key]
        if turns != [0, 1, 0]:
            yield f"keys in order: {turns}"
        for key in (0, 1):
            used = [seq for number, seq in order if number == key]
            if used != list(range(1, len(used) + 1)):
                yield f"numbers of key {key}: {used[:5]}… of {len(used)}"


def new_key():
    sa, rules = tunnel(1)
    c = NewKey("live-new-key", [sa], rules)
    c.other = Sa("t1", spi_out=sa.spi_out, spi_in=sa.spi_in, key_seed="another key")
    rng = random.Random(8)
    c.warm_up()
    c.expected = 450
    for _ in range(c.expected):
        c.send(LAN, wire.udp(L4, "192.168.1.9", 7, 8, data(rng, 40)), "x")
        c.tick(0.01)
    return c


class State(Live):
    """The directory `state`: an orderly end gives numbers back, one gateway has it at a time, and an SA whose file is
    damaged sends nothing."""

    paced = True

    def numbers(self, folder):
        return [self.sas[0].from_gateway(packet)[1].seq for packet in self.output(folder, WAN)]

    def judge(self, weir, folder):
        last = 0
        for _ in range(2):
            self.process = self.start(weir, folder)
            self.settle(folder, self.process, self.expected, 6)
            if fault := self.ended(folder):
                yield fault
                return
            self.stop()
            used = self.numbers(folder)
            if used != list(range(last + 1, last + 1 + self.expected)):
                yield f"numbers {used[:4]}… of {len(used)}, {last + 1} to {last + self.expected} expected"
            last = used[-1] if used else last
        files = [os.path.join(root, name) for root, _, names in os.walk(os.path.join(folder, "state"))
                 for name in names]
        if not any(os.path.getsize(path) for path in files):
            yield "the directory has no file with content"
        whole = {path: open(path, "rb").read() for path in files}
        for how, damage in (("cut", lambda b: b[:-1]), ("a bit changed", lambda b: bytes([b[0] ^ 1]) + b[1:]),
                            ("another bit", lambda b: b[:-1] + bytes([b[-1] ^ 64])),
                            ("zeros", lambda b: bytes(len(b)))):
            for path, content in whole.items():
                with open(path, "wb") as f:
                    f.write(damage(content) if content else content)
            self.process = self.start(weir, folder)
            time.sleep(1.2)
            if self.process.poll() is None:
                self.stop()
                if packets := self.output(folder, WAN):
                    yield f"damaged file ({how}): {len(packets)} packets left: {packets[0][:40].hex()}"
        for path, content in whole.items():
            with open(path, "wb") as f:
                f.write(content)
        self.process = self.start(weir, folder)
        time.sleep(0.5)
        second = os.path.join(folder, "second")
        os.makedirs(second)
        for name in ("lan.pcap", "wan.pcap", "t1-in.key", "t1-out.key"):
            shutil.copy(os.path.join(folder, name), second)
        with open(os.path.join(second, "weir.toml"), "w") as f:
            f.write(self.config().replace('state = "state"', 'state = "../state"'))
        first, self.process = self.process, None
        try:
            self.process = self.start(weir, second)
            time.sleep(1.2)
            if self.process.poll() is None:
                self.stop()
                if packets := self.output(second, WAN):
                    yield f"a second gateway with the directory sent {len(packets)} packets"
        finally:
            first.send_signal(signal.SIGTERM)
            first.wait(30)
        used = self.numbers(folder)
        if len(used) != self.expected or used[0] <= last:
            yield f"behind damaged files: numbers {used[:4]}… of {len(used)}, more than {last} expected"


def state():
    sa, rules = tunnel(1)
    c = State("live-state", [sa], rules)
    rng = random.Random(9)
    c.warm_up()
    c.expected = 50
    for _ in range(c.expected):
        c.send(LAN, wire.udp(L4, "192.168.1.9", 7, 8, data(rng, 40)), "x")
        c.tick(0.01)
    return c


class Workers(Live):
    """Two workers: one of them has an SA, so the packets of each flow have their numbers in order, and the window drops
    each duplicate."""

    paced = True

    def config(self):
        return super().config().replace("version = 1\n", "version = 1\n\n[workers]\ncount = 2\n")

    def judge(self, weir, folder):
        self.process = self.start(weir, folder)
        self.settle(folder, self.process, self.expected, 15)
        time.sleep(0.3)
        code, text = self.show(weir, "errors")
        with open(os.path.join(folder, "errors"), "w") as f:
            f.write(text)
        self.stop()
        opened = {sa.name: [] for sa in self.sas}
        for packet in self.output(folder, WAN):
            for sa in self.sas:
                try:
                    _, x, inner = sa.from_gateway(packet)
                    opened[sa.name].append((x.seq, wire.Ip(inner)))
                    break
                except esp.EspError:
                    continue
            else:
                yield f"left by wan as ESP of no SA: {packet[:40].hex()}"
        for name, packets in opened.items():
            numbers = [seq for seq, _ in packets]
            if sorted(numbers) != list(range(1, self.outward + 1)):
                yield f"{name}: {len(numbers)} packets left, {self.outward} expected"
            flows = {}
            for seq, p in packets:
                ordinal = int.from_bytes(p.payload[8:12], "big")
                flows.setdefault((p.src, p.dst, p.payload[:4]), []).append((seq, ordinal))
            for flow, sent in flows.items():
                if sent != sorted(sent) or sent != sorted(sent, key=lambda pair: pair[1]):
                    yield f"{name}: packets of {flow[:2]} overtook each other: {sent[:8]}"
        inner = [(p.src, p.dst, p.payload[:4], p.payload[8:12]) for p in map(wire.Ip, self.output(folder, LAN))]
        if len(set(inner)) != len(inner):
            yield f"{len(inner) - len(set(inner))} duplicates passed"
        if len(set(inner)) != self.inward:
            yield f"{len(set(inner))} packets left by lan, {self.inward} expected"


def workers(cache):
    """12 SAs in both families, with and without UDP, of 8 flows each. Inbound packets come twice. Packets go from each
    tunnel to the next one, and some packets of ESP come in fragments."""
    made = [tunnel(i, algorithm="aes128gcm16" if i % 2 else "aes128-sha256", six=i % 3 == 0, esn=i % 4 == 1,
                   window=1024, encap=(4500, 4500 + i) if i % 4 == 2 else None) for i in range(1, 13)]
    c = Workers("live-workers" + ("-cache" if cache else ""), [s for s, _ in made],
                [f"protect ip from any to {net} sa t{i}" for i in range(1, 13) for net in tunnel_nets(i)], cache=cache)
    rng = random.Random(5)
    c.step = 2000
    c.warm_up()
    flows, rounds = 8, 25
    for turn in range(rounds):
        for i, (sa, _) in enumerate(made, 1):
            r4, r6 = tunnel_hosts(i)
            for flow in range(flows):
                number = (turn * flows + flow).to_bytes(4, "big")
                near, far = (L4, r4) if flow % 2 else (L6, r6)
                c.send(LAN, wire.udp(near, far, 1000 + flow, 53, number + data(rng, 40)), "x")
                p = sa.from_peer(wire.udp(far, near, 53, 1000 + flow, number + data(rng, 40)))
                c.send(WAN, p, "x")
                c.send(WAN, p, "x")
            number = turn.to_bytes(4, "big")
            c.send(WAN, sa.from_peer(wire.udp(r4, tunnel_hosts(i % 12 + 1)[0], 2000, 53, number + data(rng, 40))), "x")
            if not sa.encap:
                for part in wire.fragments(sa.from_peer(wire.udp(r4, L4, 3000, 53, number + data(rng, 900))), 504,
                                           turn):
                    c.send(WAN, part, "x")
        c.tick(0.02)
    c.outward = (flows + 1) * rounds
    c.inward = flows * rounds * 12 + rounds * sum(not sa.encap for sa, _ in made)
    c.expected = c.outward * 12 + c.inward
    return c


def removed():
    sa, rules = tunnel(1, window=1024)
    c = Removed("live-removed", [sa], [rules[0]])
    rng = random.Random(6)
    c.warm_up()
    for i in range(350):
        c.send(LAN, wire.udp(L4, "192.168.1.9", 7, 8, data(rng, 40)), "x")
        c.send(WAN, sa.from_peer(wire.udp("192.168.1.9", L4, 8, 7, data(rng, 40))), "x")
        c.tick(0.01)
    return c


def rules(cache):
    sa, _ = tunnel(1)
    c = Rules("live-rules" + ("-cache" if cache else ""), [sa], cache=cache)
    c.rules = c.rule("bypass")
    rng = random.Random(4)
    for i in range(500):
        c.send(LAN, wire.udp(L4, "192.168.1.9", 7, 8, data(rng, 40)), "x")
        c.tick(0.01)
    return c


def cases():
    yield lambda: rules(None)
    yield lambda: rules("{ outbound = true, inbound = true }")
    yield lambda: workers(None)
    yield lambda: workers("{ outbound = true, inbound = true }")
    yield removed
    yield rekeyed
    yield new_key
    yield state
    yield counters
    yield restart
    yield reload
