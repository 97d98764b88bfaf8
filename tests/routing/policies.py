"""Cases in which routes decide about more than the next hop: VRFs by tables of the kernel, and validation of sources."""
import os
import time

from cases import Router, said
from daemons import Bird, Frr, near_bird, providers, wait
from lab import Weir
from network import BLUE, LINKS, PREFIXES, TARGETS, Network, counted, expect
from stream import Echo, Probe, Stream

# Packets of a probe.
PACKETS = 20


class Vrfs:
    """Provider a with a customer in one VRF, provider b with another customer in a second one. Their addresses are the same."""

    daemons = True

    def __init__(self, program, folder, daemon="bird"):
        self.ends = []
        self.network = Network(program, {**LINKS, **BLUE})
        self.ends.append(self.network.close)
        self.program, self.gate = self.network.program, self.network.gate
        blue = 'vrf = "blue"\n'
        text = self.network.config(keys={"ispb": blue, "blue": blue})
        text += '\n[[routes.table]]\nvrf = "default"\nid = 254\n\n[[routes.table]]\nvrf = "blue"\nid = 100\n\n[[vrf]]\nname = "blue"\n'
        self.weir = Weir(self, text, folder)
        self.ends.append(lambda: self.weir.end(check=False))
        for name in ("ispa", "ispb"):
            self.ends.append(Echo(self.network.spaces[name]).end)
        self.birds = providers(self.network, "bgp", folder, False, ("ispb", "blue") if daemon == "frr" else ())
        self.ends += [bird.end for bird in self.birds.values()]
        if daemon == "bird":
            daemons = [Bird(self.gate, near_bird("bgp", False, ("ispb", "blue")), os.path.join(folder, "gate"))]
        else:
            daemons = self.instances(folder)
        self.ends += [one.end for one in daemons]
        wait("the routes of both VRFs", lambda: counted(self.weir, "kernel") >= 2 * (PREFIXES + 1), 60)
        for name in ("cust", "blue"):
            wait("the customer's routes", lambda: TARGETS[0][:4] in self.way(name), 30)
        wait("the way back", lambda: all("10.9.0" in self.network.spaces[name].run("ip", "route")[1] for name in ("ispa", "ispb")))

    def instances(self, folder):
        """Starts FRR twice: without devices of VRFs an instance has one, and the second writes into a table of its own."""
        links = self.network.links
        both = [Frr(self.gate, "bgp", os.path.join(folder, f"gate-{vrf}"), False, False, {name: links[name] for name in names}, table, True)
                for vrf, names, table in [("default", ("cust", "ispa"), None), ("blue", ("blue", "ispb"), 100)]]
        for one in both:
            one.rest()
        return both

    def way(self, name):
        return self.network.spaces[name].run("ip", "route", "show", TARGETS[0][:-1] + "0/24", check=False)[1]

    def egress(self, vrf):
        """Returns the egress interfaces of the providers' prefixes in a VRF, and their number."""
        routes = self.weir.show("routes", "--vrf", vrf)["routes"]
        own = [route for route in routes if route.get("source") == "kernel" and not route["prefix"].startswith("10.9.")]
        return {path["interface"] for route in own for path in route["paths"]}, len(own)

    def stream(self, name):
        stream = Stream(self.network.spaces[name], "10.9.0.1", TARGETS)
        self.ends.append(stream.end)
        return stream

    def close(self):
        for end in reversed(self.ends):
            end()


def apart(vrfs):
    """Each VRF has the routes of its own table. The link of one fails, and the other does not notice."""
    for vrf, name in [("default", "ispa"), ("blue", "ispb")]:
        found = vrfs.egress(vrf)
        expect(found == ({name}, PREFIXES), f"VRF {vrf} has {found[1]} routes over {found[0]}")
    streams = {name: vrfs.stream(name) for name in ("cust", "blue")}
    time.sleep(1)
    full = {name: stream.stop() for name, stream in streams.items()}
    expect(not any(result["lost"] for result in full.values()), f"both up: {full}")
    streams = {name: vrfs.stream(name) for name in ("cust", "blue")}
    vrfs.network.cut("ispb", True)
    wait("the end of the routes of blue", lambda: vrfs.egress("blue")[1] == 0)
    expect(vrfs.egress("default") == ({"ispa"}, PREFIXES), "the VRF default lost routes")
    time.sleep(0.5)
    down = {name: stream.stop() for name, stream in streams.items()}
    expect(down["cust"]["lost"] == 0, f"the VRF default: {said(down['cust'])}")
    expect(down["blue"]["longest"] > 0.3, f"the VRF blue forwards without a provider: {said(down['blue'])}")
    # Both sides have to know that the session is over: the provider would end it in the middle of the next stream otherwise.
    wait("the provider's end of the session", lambda: "10.9.0" not in vrfs.network.spaces["ispb"].run("ip", "route")[1], 30)
    vrfs.network.mend("ispb")
    seconds = wait("the routes of blue", lambda: vrfs.egress("blue") == ({"ispb"}, PREFIXES), 60)
    wait("the way back", lambda: "10.9.0" in vrfs.network.spaces["ispb"].run("ip", "route")[1], 30)
    wait("the customer's routes", lambda: TARGETS[0][:4] in vrfs.way("blue"), 30)
    stream = vrfs.stream("blue")
    time.sleep(1)
    again = stream.stop()
    expect(again["lost"] == 0, f"the VRF blue: {said(again)}")
    return (f"{PREFIXES} prefixes in each of two VRFs with equal addresses; the link of one goes: {said(down['cust'])} in the other; "
            f"its routes are there {seconds:.1f} s after the link is")


class Validating(Router):
    """Strict uRPF at the customer and at provider a, feasible uRPF at provider b."""

    # Provider a has this prefix by the file, too: the daemon's route to both providers is not the best there.
    FILE = TARGETS[7]

    def __init__(self, program, folder):
        keys = {name: f'sav = "{mode}"\n' for name, mode in [("cust", "strict"), ("ispa", "strict"), ("ispb", "feasible")]}
        more = "".join(f'\n[sav.{mode}]\nmechanism = "urpf-{mode}"\n' for mode in ("strict", "feasible"))
        more += f'\n[[route]]\nprefix = "{self.FILE[:-1]}0/24"\nvia = {{ address = "{LINKS["ispa"][1]}" }}\n'
        super().__init__(program, folder, "bird", keys=keys, more=more)

    def probe(self, name, source, to):
        spaces = self.network.spaces
        target = TARGETS[1] if name == "cust" else "10.9.0.1"
        probe = Probe(spaces[name], source, spaces[to], target)
        self.ends.append(probe.end)
        # Next hops are resolved with the first packet.
        wait(f"the first packet from {source} at {name}", lambda: probe.passed(1) == 1, 5)
        return probe

    def in_kernel(self, prefix):
        return self.gate.run("ip", "route", "show", prefix)[1]


def turn(router, probe, name, prefix, present, absent):
    """A neighbour withdraws its prefixes, then announces them again. Its packets stop, and pass, as soon as the kernel has the change.

    `present` and `absent` say of the kernel's text for the prefix whether it is with or without the neighbour's route. Returns the
    longest time from then until packets were sent that the new routes decided.
    """
    times = []
    for command, reached, passes in [("disable", absent, 0), ("enable", present, PACKETS)]:
        router.birds[name].ask(f"{command} static1")
        wait(f"`{command}` at {name}", lambda: reached(router.in_kernel(prefix)), 30)
        begin = time.monotonic()
        sent = [begin]

        def follows():
            sent.append(time.monotonic())
            return probe.passed(PACKETS) == passes

        wait(f"{passes} of {PACKETS} packets after `{command}` at {name}", follows, 5)
        times.append(sent[-1] - begin)
        # It stays so.
        passed = probe.passed(100)
        expect(passed == (100 if passes else 0), f"{passed} of 100 packets passed after `{command}` at {name}")
    return max(times)


def validate(router):
    """Packets of each source pass where its routes lead, right after each change of the routes."""
    near = {name: f"dev {name}-host" for name in LINKS}
    prefix, last = TARGETS[1][:-1] + "0/24", f"10.{128 + (PREFIXES - 1) // 256}.{(PREFIXES - 1) % 256}.0/24"
    strict = router.probe("ispa", TARGETS[1], "cust")
    feasible = router.probe("ispb", router.FILE, "cust")
    # A packet of the customer goes to either provider: one of both counts.
    for name, probe in [("strict", strict), ("feasible", feasible)]:
        passed = probe.passed(100)
        expect(passed == 100, f"{name}: {passed} of 100 packets of a source with a route back pass; drops: {router.weir.drops()}")
    at_a = turn(router, strict, "ispa", last, lambda text: near["ispa"] in text, lambda text: near["ispa"] not in text)
    expect(feasible.passed(100) == 100, "feasible: packets do not pass after a change of provider a")
    at_b = turn(router, feasible, "ispb", last, lambda text: near["ispb"] in text, lambda text: near["ispb"] not in text)
    expect(strict.passed(100) == 100, "strict: packets do not pass after a change of provider b")
    # One provider only, so that all packets of the customer are counted in one place.
    router.network.cut("ispb", True)
    wait("one provider", lambda: router.paths(prefix) == 1)
    customer = router.probe("cust", "10.9.0.1", "ispa")
    expect(customer.passed(100) == 100, "packets of the customer do not pass")
    of_customer = turn(router, customer, "cust", "10.9.0.0/24", bool, lambda text: not text)
    drops = router.weir.drops()
    expect(drops.get("sav-urpf-strict", 0) >= 200 and drops.get("sav-urpf-feasible", 0) >= 100, f"drops: {drops}")
    return (f"forged sources stop and true ones pass after the kernel's route came or went: strict {1000 * max(at_a, of_customer):.0f} ms, "
            f"feasible {1000 * at_b:.0f} ms at most, 100 of 100 packets from then on")


POLICIES = [
    ("bird-bgp-vrfs", Vrfs, (), apart),
    ("frr-bgp-vrfs", Vrfs, ("frr",), apart),
    ("bird-bgp-urpf", Validating, (), validate),
]
