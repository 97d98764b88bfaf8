"""Findings of `weir check` with their lines, none of which shows a key, and `weir explain`."""
import os
import shutil
import subprocess

from case import TOPOLOGY

BASE = TOPOLOGY.format(ipsec='[ipsec]\nstate = "state"\n', lan_mtu=1500, mtu=1500, lan_spd="", wan_spd='spd = "edge"\n')
SPD = '''
[spd.edge]
rules = [
  "bypass udp from any port 500 to any port 500",
  "protect ip4 from 10.0.0.0/8 to 192.168.0.0/16 sa east priority 10",
  "discard ip from any to 203.0.113.0/24 priority 20 comment 'never'",
]
'''.replace("'never'", '\\"never\\"')
SA = '''
[sa.east]
mode = "tunnel"
local = "198.51.100.1"
remote = "203.0.113.1"
algorithm = "aes128gcm16"
out = { spi = 0x1001, key-file = "out.key" }
in = { spi = 0x2001, key-file = "in.key" }
'''
WEST = SA.replace("sa.east", "sa.west").replace("out.key", "west-out.key").replace("in.key", "west-in.key") \
    .replace("0x1001", "0x1003")
KEYS = {"west-out.key": "3f40" * 9 + "3f01\n", "west-in.key": "7e7f" * 9 + "7e02\n",
        "out.key": "00112233445566778899aabbccddeeff01020304\n",
        "in.key": "ffeeddccbbaa9988 7766554433221100\n0a0b0c0d\n"}


class CheckCase:
    packets = ()

    def __init__(self, name, text, expect, line=None, keys=None, modes=None, links=None):
        """`expect`: "valid" (no finding), "warning", "error", "either" (error or warning) or "accepted". `line`: a text
        of the line that the message has to name."""
        self.name, self.text, self.expect, self.line = f"check-{name}", text, expect, line
        self.keys, self.modes, self.links = {**KEYS, **(keys or {})}, modes or {}, links or {}

    def run(self, weir, folder):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "state"), mode=0o700)
        path = os.path.join(folder, "weir.toml")
        with open(path, "w") as f:
            f.write(self.text)
        for name, text in self.keys.items():
            if text is None:
                continue
            own = os.path.join(folder, name)
            if name in self.links:
                os.symlink(self.links[name], own)
                continue
            with open(own, "w") as f:
                f.write(text)
            os.chmod(own, self.modes.get(name, 0o600))
        done = subprocess.run([weir, "check", path], capture_output=True, text=True, errors="replace", timeout=60)
        output = done.stdout + done.stderr
        with open(os.path.join(folder, "output"), "w") as f:
            f.write(output)
        return list(self.faults(done.returncode, output))

    def faults(self, code, output):
        first = next((r for r in output.splitlines() if r.startswith(("error", "warning"))), "no message")
        if self.expect == "either" and code == 0 and "warning[" not in output:
            yield "was accepted without a warning"
        if self.expect == "error" and code == 0:
            yield f"was accepted ({first})"
        if self.expect not in ("error", "either") and code != 0:
            yield f"was refused: {first}"
        if self.expect == "warning" and "warning[" not in output:
            yield "no warning"
        if self.expect == "valid" and "warning[" in output:
            yield f"warned: {first}"
        if self.line and self.expect in ("error", "warning"):
            wanted = [i for i, row in enumerate(self.text.splitlines(), 1) if self.line in row]
            if not any(f"weir.toml:{n}:" in output for n in wanted):
                yield f"names none of the lines {wanted} ({first})"
        if "panicked" in output:
            yield "panicked"
        for text in self.keys.values():
            flat = "".join((text or "").split()).lower()
            if len(flat) >= 16 and any(flat[i:i + 12] in output.lower() for i in range(0, len(flat) - 12, 4)):
                yield "the output has a part of a key"


def cases():
    whole = BASE + SPD + SA
    yield lambda: CheckCase("valid", whole, "valid")
    yield lambda: CheckCase("documented", whole + '''dscp = "copy"
ecn = true
df = "copy"
flow-label = "flow"
hop-limit = 64
window = 64
esn = true
encapsulation = { local-port = 4500, remote-port = 4500, keepalive = "20s" }
''', "accepted")
    for n, (old, new, expect) in {
        "unknown-sa": ("sa east", "sa weest", "error"), "protect-without-sa": (" sa east", "", "error"),
        "sa-on-bypass": ('port 500",', 'port 500 sa east",', "error"),
        "sa-on-discard": ("priority 20", "sa east priority 20", "error"),
        "unknown-spd": ('spd = "edge"', 'spd = "egde"', "error"),
        "unknown-interface": ('remote = "203.0.113.1"', 'remote = "203.0.113.1"\ninterface = "nowhere"', "error"),
        "interface-of-another-kind": ('remote = "203.0.113.1"', 'remote = "203.0.113.1"\ninterface = "lan"', "error"),
        "spi-0": ("0x1001", "0", "error"), "spi-1": ("0x1001", "1", "error"), "spi-255": ("0x1001", "255", "error"),
        "spi-256": ("0x1001", "256", "valid"),
        "spi-255-in": ("0x2001", "0xff", "error"), "spi-too-large": ("0x1001", "0x100000000", "error"),
        "spi-largest": ("0x2001", "0xffffffff", "valid"),
        "priority-lowest": ("priority 10", "priority -2147483648", "valid"),
        "priority-highest": ("priority 10", "priority 2147483647", "valid"),
        "priority-too-low": ("priority 10", "priority -2147483649", "error"),
        "priority-too-high": ("priority 10", "priority 2147483648", "error"),
        "unknown-algorithm": ("aes128gcm16", "aes128gcm10", "error"),
        "null-without-insecure": ("aes128gcm16", "null", "error"),
        "wrong-length-for-algorithm": ('"aes128gcm16"', '"aes256gcm16"', "error"),
        "unknown-mode": ('"tunnel"', '"beet"', "error"),
        "outer-families-differ": ('remote = "203.0.113.1"', 'remote = "2001:db8::1"', "error"),
        "unknown-action": ('"discard ip', '"drop ip', "error"),
        "permit-is-no-action": ('"discard ip', '"permit ip', "error"),
    }.items():
        yield lambda n=n, o=old, w=new, e=expect: CheckCase(n, whole.replace(o, w), e)
    for w, expect in ((0, "valid"), (32, "valid"), (64, "valid"), (131072, "valid"), (1, "error"), (16, "error"),
                      (31, "error"), (33, "error"), (48, "error"),
                      (65, "error"), (100, "error"), (131073, "error"), (262144, "error"), (-1, "error")):
        yield lambda w=w, e=expect: CheckCase(f"window-{w}", whole + f"window = {w}\n", e, f"window = {w}")
    yield lambda: CheckCase("key-missing", whole, "error", 'key-file = "in.key"', keys={"in.key": None})
    for mode in (0o644, 0o640, 0o604, 0o660, 0o602, 0o610):
        yield lambda m=mode: CheckCase(f"key-mode-{m:o}", whole, "error", 'key-file = "in.key"', modes={"in.key": m})
    for mode in (0o400, 0o600, 0o700):
        yield lambda m=mode: CheckCase(f"key-mode-{m:o}", whole, "valid", modes={"in.key": m})
    for n, text in (("empty", ""), ("short", "00" * 19), ("long", "00" * 21), ("odd", "00" * 19 + "0"),
                    ("no-hex", "zz" * 20), ("prefix", "0x" + "00" * 20)):
        yield lambda n=n, t=text: CheckCase(f"key-{n}", whole, "error", 'key-file = "in.key"', keys={"in.key": t})
    yield lambda: CheckCase("key-of-both-directions", whole, "either", keys={"in.key": KEYS["out.key"]})
    yield lambda: CheckCase("esn-without-window", whole + "esn = true\nwindow = 0\n", "accepted")
    yield lambda: CheckCase("no-direction", "\n".join(row for row in whole.splitlines() if "key-file" not in row),
                            "error", "[sa.east]")
    yield lambda: CheckCase("no-state", whole.replace('[ipsec]\nstate = "state"\n', ""), "warning")
    yield lambda: CheckCase("address-of-no-interface", whole.replace('local = "198.51.100.1"',
                                                                     'local = "198.51.100.2"'),
                            "warning", 'local = "198.51.100.2"')
    yield lambda: CheckCase("unknown-vrf", whole + 'vrf = "blue"\n', "error", 'vrf = "blue"')
    yield lambda: CheckCase("spi-of-two-addresses", whole + WEST.replace('local = "198.51.100.1"', 'local = "10.0.0.1"')
                            + SPD.replace("edge", "west").replace("sa east", "sa west").replace("port 500", "port 501"),
                            "warning", "[spd.west]")
    for n, row in (("dscp", "dscp = 5"), ("df", 'df = "set"'), ("hop-limit", "hop-limit = 9"), ("ecn", "ecn = false"),
                   ("flow-label", 'flow-label = "zero"')):
        yield lambda n=n, r=row: CheckCase(f"transport-{n}", whole.replace('"tunnel"', '"transport"') + r + "\n",
                                           "either")
    for n, old, new, line in (
            ("port-without-protocol", "to 203.0.113.0/24", "to 203.0.113.0/24 port 5", "203.0.113.0/24 port 5"),
            ("type-of-udp", "to any port 500", "to any port 500 type 3", "type 3"),
            ("unknown-group", "to 203.0.113.0/24", "to @nowhere", "@nowhere"),
            ("icmp-of-ip6", "discard ip from", "discard ip6 icmp from", "ip6 icmp")):
        yield lambda n=n, o=old, w=new, r=line: CheckCase(n, whole.replace(o, w), "error", r)
    for flows, expect in ((1, "valid"), (16000000, "valid"), (0, "error"), (16000001, "error"), (-1, "error")):
        cache = f"cache = {{ outbound = true, flows = {flows} }}\n"
        yield lambda f=flows, c=cache, e=expect: CheckCase(f"cache-{f}", whole.replace("]\n\n[sa", f"]\n{c}\n[sa"), e,
                                                           c.strip())
    yield lambda: CheckCase("key-white-space", whole, "valid", keys={"in.key": " 00 11\n22\t33" + "AA" * 16 + "\n\n"})
    yield lambda: CheckCase("key-is-a-directory", whole.replace('"in.key"', '"state"'), "error", 'key-file = "state"')
    yield lambda: CheckCase("spi-twice", whole + WEST.replace("203.0.113.1", "203.0.113.2"), "error",
                            "in = { spi = 0x2001")
    yield lambda: CheckCase("key-reused", whole + SA.replace("sa.east", "sa.west").replace("0x2001", "0x2002")
                            .replace("0x1001", "0x1002"), "error")
    yield lambda: CheckCase("unused-spd", whole + '\n[spd.idle]\nrules = ["bypass ip from any to any"]\n', "warning",
                            "[spd.idle]")
    yield lambda: CheckCase("unused-sa", whole + WEST.replace("0x2001", "0x2002"), "warning", "[sa.west]")
    yield lambda: CheckCase("ipsec-interface-unused", whole + '\n[[interface]]\nname = "east"\nport = "ipsec"\n',
                            "warning", 'name = "east"')
    yield lambda: CheckCase("shadowed", whole.replace(
        "bypass udp", 'discard ip from any to any priority 99",\n  "bypass udp'), "warning", "bypass udp")
    yield lambda: CheckCase("transport-families", whole.replace('"tunnel"', '"transport"')
                            .replace("ip4 from 10.0.0.0/8 to 192.168.0.0/16", "ip6 from any to any"), "either")
    yield lambda: CheckCase("rule-families", whole.replace("to 192.168.0.0/16", "to 2001:db8::/32"), "error",
                            "2001:db8::/32")
    yield lambda: CheckCase("host-bits", whole.replace("192.168.0.0/16", "192.168.1.1/16"), "warning", "192.168.1.1/16")
    yield lambda: CheckCase("unknown-key-in-sa", whole + "lifetime = 5\n", "error", "lifetime")
    yield lambda: CheckCase("hop-limit-0", whole + "hop-limit = 0\n", "error", "hop-limit")
    yield lambda: CheckCase("dscp-64", whole + "dscp = 64\n", "error", "dscp = 64")
    yield lambda: CheckCase("port-0", whole + "encapsulation = { local-port = 0, remote-port = 4500 }\n", "error",
                            "local-port = 0")


class ExplainCase(CheckCase):
    """`weir explain` names the policy by its line, the SA and the reason."""

    def __init__(self, name, arguments, names, verdict, reason=None):
        super().__init__(name, BASE + SPD + SA, "valid")
        self.name = f"explain-{name}"
        self.arguments, self.names, self.verdict, self.reason = arguments, names, verdict, reason

    def run(self, weir, folder):
        import json
        super().run(weir, folder)
        faults = []
        for form in ((), ("--json",)):
            done = subprocess.run([weir, "explain", "weir.toml", *form, *self.arguments.split()], capture_output=True,
                                  text=True, errors="replace", timeout=60, cwd=folder)
            with open(os.path.join(folder, "explain" + "".join(form)), "w") as f:
                f.write(done.stdout + done.stderr)
            if done.returncode:
                faults.append(f"explain {' '.join(form)} ended with {done.returncode}: {done.stderr.strip()[:200]}")
                continue
            for name in self.names:
                want = next((f"weir.toml:{i}" for i, row in enumerate(self.text.splitlines(), 1) if name in row),
                            name) if name.startswith('"') else name
                if want not in done.stdout:
                    faults.append(f"explain {' '.join(form)} does not name {want}")
            if form:
                o = json.loads(done.stdout)
                if o["verdict"] != self.verdict or self.reason and o["reason"] != self.reason:
                    faults.append(f"verdict {o['verdict']} {o['reason']} instead of {self.verdict} {self.reason}")
            elif self.reason and self.reason not in done.stdout:
                faults.append(f"explain does not say {self.reason}")
        return faults


check_cases = cases


def cases():
    yield from check_cases()
    protect, discard, bypass = '"protect ip4', '"discard ip', '"bypass udp'
    for name, arguments, names, verdict, reason in (
            ("protect", "--in lan udp from 10.0.0.9 port 1 to 192.168.1.1 port 2", [protect, "east"], "forward", None),
            ("discard", "--in lan udp from 10.0.0.9 port 1 to 203.0.113.9 port 2", [discard], "drop", "spd-discard"),
            ("bypass", "--in lan udp from 10.0.0.9 port 500 to 8.8.8.8 port 500", [bypass], "forward", None),
            ("no-match", "--in lan udp from 10.0.0.9 port 1 to 8.8.8.8 port 2", ["edge"], "drop", "spd-no-match"),
            ("unprotected", "--in wan udp from 192.168.1.1 port 1 to 10.0.0.9 port 2", [protect, "east"], "drop",
             "spd-unprotected"),
            ("discard-in", "--in wan udp from 203.0.113.9 port 1 to 10.0.0.9 port 2", [discard], "drop", "spd-discard"),
            ("bypass-in", "--in wan udp from 8.8.8.8 port 500 to 10.0.0.9 port 500", [bypass], "forward", None),
            ("no-match-in", "--in wan udp from 8.8.8.8 port 1 to 10.0.0.9 port 2", ["edge"], "drop", "spd-no-match"),
            ("no-sa", "--in wan esp from 203.0.113.1 to 198.51.100.1 spi 12345", [], "drop", "esp-no-sa")):
        yield lambda a=(name, arguments, names, verdict, reason): ExplainCase(*a)
