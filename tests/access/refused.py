"""Configurations that have to be refused at their line, each with the code that docs/configuration.md gives it."""
import json
import os
import subprocess

from finds import BRIDGE
from replay import write
from steer import NEIGHBORS, TOPOLOGY

PLAIN = TOPOLOGY.replace('steer = "edge"\n', "") + NEIGHBORS
TABLE = PLAIN.replace('name = "wan"\n', 'name = "wan"\nclassify = { in = "t" }\n')


class Refused:
    """A configuration whose last rule or key is wrong: `weir check` has one error with this code, in the line with `at`."""

    def __init__(self, name, code, text, at):
        self.name, self.code, self.text, self.at, self.steps = f"refused-{name}", code, text, at, [name]

    def with_text(self, change):
        self.text = change(self.text)
        return self

    def run(self, weir, folder):
        write(folder, self.text)
        done = subprocess.run([weir, "check", "--json", os.path.join(folder, "weir.toml")], capture_output=True, text=True, timeout=60)
        report = json.loads(done.stdout)
        errors = [(d["code"], d["line"]) for d in report["diagnostics"] if d["severity"] == "error"]
        want = [(self.code, n) for n, line in enumerate(self.text.split("\n"), 1) if self.at in line]
        if done.returncode != 3 or not want or errors[:1] != want[:1]:
            return [f"exit code {done.returncode}, errors {errors}, {want} expected: {done.stdout[:300]}"]
        return []


def steer(name, rule, code="invalid-rule", more=""):
    text = TOPOLOGY + NEIGHBORS + f'\n[steer.edge]\nrules = [\n  "{rule}",\n]\n{more}'
    return Refused(f"steer-{name}", code, text, rule)


def checked(name, key, more):
    """A redirect beside a check of the interface, without `unchecked`."""
    rule = "redirect next-hop 198.51.100.2 ip4 from any to any"
    text = TOPOLOGY.replace('name = "wan"\n', f'name = "wan"\n{key}\n') + NEIGHBORS
    return Refused(f"steer-{name}", "steer-unchecked", text + f'\n[steer.edge]\nrules = [\n  "{rule}",\n]\n{more}', rule)


def table(name, code, at, body):
    return Refused(f"classify-{name}", code, f"{TABLE}\n[classify.t]\n{body}\n", at)


def bridge(name, code, at, body, p1="", more=""):
    return Refused(f"bridge-{name}", code, BRIDGE.format(p1=p1, p2="", p3="") + f"\n[bridge.lan]\n{body}\n{more}", at)


def all_cases():
    yield steer("node", "redirect node ip6-lookup ip4 from any to any")
    yield steer("no-node", "redirect node output ip from any to any")
    yield steer("family", "redirect next-hop 198.51.100.2 ip6 from any to any")
    yield steer("two", "drop redirect interface dpi ip from any to any")
    yield steer("queue", "redirect queue 1 ip from any to any", "steer-queue")
    yield steer("session", "redirect queue 0 ip from any to any", "steer-queue",
                '[acl.a]\nrules = ["permit+reflect udp from any to any"]\n').with_text(
                    lambda t: t.replace('name = "wan"\n', 'name = "wan"\nacl = { in = "a" }\n'))
    yield steer("vni", "count tcp from any to any vni 5")
    yield steer("vni-large", "count udp from any to any vni 16777216")
    yield steer("spi", "count udp from any to any spi 5")
    yield steer("range", "count esp from any to any spi 9-5")
    yield steer("then", "advance 50 udp from any to any")
    yield steer("advance", "advance 0 ip from any to any then ip4")
    yield steer("ah", "count ah from any to any")
    yield steer("frame-ip", "count frame ethertype ipv4")
    yield steer("frame-queue", "redirect queue 0 frame")
    yield steer("frame-hop", "redirect next-hop 198.51.100.2 frame")
    yield steer("mac", "count ip from any to any mac-from 02:00")
    yield steer("mac-bits", "count ip from any to any mac-to 02:00:00:00:00:01/24")
    yield steer("inner", "count udp from any to any port 4789 inner ip from any to any")
    yield steer("inner-group", "count udp from any to any vni 5 inner ip from @a to any", more='[group.a]\naddresses = ["10.0.0.1"]\n')
    yield checked("acl", 'acl = { in = "a" }', '[acl.a]\nrules = ["permit ip from any to any"]\n')
    yield checked("sav", 'sav = "a"', '[sav.a]\nmechanism = "table"\nrules = ["permit from 192.0.2.0/24 on wan"]\n')
    yield checked("allow", 'allow = "a"', '[allowlist.a]\nprefixes = ["192.0.2.0/24"]\n')
    yield checked("mac-ip", 'mac-ip = "a"', '[mac-ip.a]\nrules = ["permit any from any"]\n')
    yield checked("classify", 'classify = { in = "a" }', '[classify.a]\nmask = "l3 ip4 src"\nsessions = ["src 10.0.0.1 deny"]\n')
    yield table("zero", "invalid-rule", 'mask = "l3 hex 0000"', 'mask = "l3 hex 0000"')
    yield table("long", "invalid-rule", "hex 000102 deny", 'mask = "l3 hex ffff"\nsessions = [\n  "hex 000102 deny",\n]')
    yield table("beyond", "invalid-rule", "src 10.0.0.1 deny", 'mask = "l3 ip4 src/24"\nsessions = [\n  "src 10.0.0.1 deny",\n]')
    yield table("missing", "invalid-rule", "src 10.0.0.0 deny", 'mask = "l3 ip4 src dport proto"\nsessions = [\n  "src 10.0.0.0 deny",\n]')
    yield table("circle", "classify-circle", 'next = "t"', 'mask = "l3 ip4 src"\nnext = "t"')
    yield table("next", "unknown-classify", 'next = "u"', 'mask = "l3 ip4 src"\nnext = "u"')
    yield table("vrf", "unknown-vrf", "vrf nope", 'mask = "l3 ip4 src"\nsessions = [\n  "src 10.0.0.1 permit vrf nope",\n]')
    yield table("of-interface", "unknown-interface", "interface nope", 'mask = "meta interface"\nsessions = [\n  "interface nope deny",\n]')
    yield table("of-vrf", "unknown-vrf", "vrf nope", 'mask = "meta vrf mark"\nsessions = [\n  "vrf nope mark 1 deny",\n]')
    yield table("meta-digits", "invalid-rule", "meta hex", 'mask = "meta hex ffffffffff"')
    yield table("many", "limit-exceeded", "src 0.0.0.10 deny", 'mask = "l3 ip4 src"\nsize = 10\nsessions = [\n' + "".join(
        f'  "src 0.{n >> 16}.{n >> 8 & 255}.{n & 255} deny",\n' for n in range(10_000)) + "]")
    yield table("mask", "invalid-rule", "hex " + "ff" * 129, f'mask = "l3 hex {"ff" * 129}"')
    yield bridge("address", "bridge-port", 'address = "10.0.0.1/24"', 'interfaces = ["p1", "p2"]', p1='address = "10.0.0.1/24"\n')
    yield bridge("twice", "bridge-port", 'interfaces = ["p2", "p3"]', 'interfaces = ["p1", "p2"]', more='[bridge.b]\ninterfaces = ["p2", "p3"]\n')
    yield table("size", "limit-exceeded", "src 10.0.0.2 deny", 'mask = "l3 ip4 src"\nsize = 1\nsessions = [\n  "src 10.0.0.1 deny",\n  "src 10.0.0.2 deny",\n]')
    yield table("equal", "duplicate-rule", "src 10.0.0.1 permit", 'mask = "l3 ip4 src"\nsessions = [\n  "src 10.0.0.1 deny",\n  "src 10.0.0.1 permit",\n]')
    yield bridge("static", "unknown-interface", "p9", 'interfaces = ["p1", "p2"]\nstatic = [{ mac = "02:00:00:00:0f:01", interface = "p9" }]')
    yield bridge("static-not-port", "bridge-port", "02:00:00:00:0f:01", 'interfaces = ["p1", "p2"]\nstatic = [{ mac = "02:00:00:00:0f:01", interface = "p3" }]')
    yield bridge("static-group", "invalid-mac", "03:00:00:00:0f:01", 'interfaces = ["p1", "p2"]\nstatic = [{ mac = "03:00:00:00:0f:01", interface = "p1" }]')
    yield bridge("ageing", "out-of-range", "0s", 'interfaces = ["p1", "p2"]\nageing = "0s"')
    yield bridge("stations", "unknown-bridge", "lam", 'interfaces = ["p1", "p2"]', more='[[interface]]\nname = "gw"\nport = { bridge = "lam" }\n')
    yield bridge("unknown", "unknown-interface", "p9", 'interfaces = ["p1", "p9"]')


def cases():
    for n in range(len(list(all_cases()))):
        yield lambda n=n: list(all_cases())[n]
