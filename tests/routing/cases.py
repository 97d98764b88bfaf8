"""Cases: a daemon beside the gateway, two providers, and something that fails under traffic."""
import os
import subprocess
import time

from daemons import Bird, Changes, Frr, learned, near_bird, providers, wait
from fpm import prefix
from guest import Failed
from lab import Weir
from network import LINKS, PREFIXES, TARGETS, Network, counted, expect, sources
from stream import Echo, Stall, Stream

HERE = os.path.dirname(os.path.abspath(__file__))


class Router:
    """The network with all daemons up, and all routes in weir."""

    daemons = True

    def __init__(self, program, folder, daemon, protocol="bgp", source="kernel", keep=False, keys=None, more=""):
        self.folder, self.source, self.ends = folder, source, []
        self.network = Network(program)
        self.ends.append(self.network.close)
        # What the gateway's class expects of its surroundings.
        self.program, self.gate = self.network.program, self.network.gate
        routes = "kernel = true" if source == "kernel" else 'fpm = "127.0.0.1:2620"\nstale-time = "30s"'
        self.text = self.network.config(routes, keep, keys) + more
        self.weir = Weir(self, self.text, folder)
        self.ends.append(lambda: self.weir.end(check=False))
        for name in ("ispa", "ispb"):
            self.ends.append(Echo(self.network.spaces[name]).end)
        self.birds = providers(self.network, protocol, folder, keep)
        self.ends += [bird.end for bird in self.birds.values()]
        begin = time.monotonic()
        if daemon == "bird":
            self.daemon = Bird(self.gate, near_bird(protocol, keep), os.path.join(folder, "gate"))
        else:
            self.daemon = Frr(self.gate, protocol, os.path.join(folder, "gate"), source == "fpm", keep)
        self.ends.append(self.daemon.end)
        wait("the providers' routes", self.is_full, 60)
        self.seconds = time.monotonic() - begin
        wait("the customer's route", lambda: learned(self.network), 30)
        wait("both providers", lambda: self.paths() == 2, 60)
        wait("the way back in weir", lambda: self.paths("10.9.0.0/24") == 1, 30)

    def is_full(self):
        # Two thousand routes of two providers are a thousand of two paths.
        return counted(self.weir, self.source) >= PREFIXES

    def paths(self, prefix=TARGETS[0][:-1] + "0/24"):
        """Returns the number of paths of a prefix in weir, by default the first of the providers."""
        routes = self.weir.show("routes", "--limit", "100")["routes"]
        found = [route for route in routes if route["prefix"] == prefix]
        return len(found[0]["paths"]) if found else 0

    def stream(self):
        stream = Stream(self.network.spaces["cust"], "10.9.0.1", TARGETS)
        self.ends.append(stream.end)
        time.sleep(0.5)
        return stream

    def close(self):
        for end in reversed(self.ends):
            end()


class Table:
    """The network without daemons: a program plays a forwarding plane manager with a full table."""

    daemons = False

    def __init__(self, program, folder, count, limit=None, source="fpm"):
        self.count, self.limit, self.source, self.ends = count, limit or count, source, []
        self.network = Network(program)
        self.ends.append(self.network.close)
        self.program, self.gate = self.network.program, self.network.gate
        spaces = self.network.spaces
        spaces["cust"].ip("route add default via 192.0.2.1 src 10.9.0.1")
        for name in ("ispa", "ispb"):
            spaces[name].ip(f"route add 10.9.0.0/24 via {LINKS[name][0]}")
            self.ends.append(Echo(spaces[name]).end)
        source = 'fpm = "127.0.0.1:2620"' if self.source == "fpm" else "kernel = true"
        text = self.network.config(f"{source}\nlimit = {self.limit}")
        text += '\n[[route]]\nprefix = "10.9.0.0/24"\nvia = { address = "192.0.2.2" }\n'
        self.text = f"{text}\n[limits]\nroutes = {self.limit + 1000}\n"
        # The kernel has its routes before the gateway follows them.
        text = self.text if self.source == "fpm" else self.text.replace(f"[routes]\n{source}\nlimit = {self.limit}\n", "")
        self.weir = Weir(self, text, folder)
        self.ends.append(lambda: self.weir.end(check=False))

    def load(self):
        """Sends all routes over both providers; returns the seconds until weir has them, and those of its thread's work."""
        devices = []
        for name in ("ispa", "ispb"):
            index = self.gate.run("cat", f"/sys/class/net/{name}-host/ifindex")[1].strip()
            devices += [index, LINKS[name][1]]
        where = ["127.0.0.1", "2620"] if self.source == "fpm" else ["kernel", "-"]
        words = ["python3", os.path.join(HERE, "fpm.py"), *where, str(self.count), *devices]
        manager = subprocess.Popen(self.gate.command(*words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ends.append(manager.kill)
        manager.stdout.readline()
        begin, busy = time.monotonic(), 0
        manager.stdin.write("go\n")
        manager.stdin.flush()
        if self.source == "fpm":
            busy = self.busy()
        else:
            expect(manager.stdout.readline() == "sent\n", "the kernel does not take the routes")
            with open(self.weir.config, "w") as file:
                file.write(self.text)
            begin = time.monotonic()
            self.weir.weir("reload")
        wait("all routes", lambda: counted(self.weir, self.source) >= self.limit, 250, 0.2)
        return time.monotonic() - begin, self.busy() - busy

    def busy(self):
        """Returns the seconds of CPU of the thread that takes routes."""
        tasks = f"/proc/{self.weir.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/stat") as file:
                stat = file.read()
            if f"({'weir_fpm' if self.source == 'fpm' else 'weir_routes'})" in stat:
                fields = stat.rpartition(")")[2].split()
                return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        raise Failed(f"weir has no thread for the source {self.source}")

    def close(self):
        for end in reversed(self.ends):
            end()


def converge(table):
    """One of the two next hops of all prefixes fails."""
    seconds, busy = table.load()
    stream = Stream(table.network.spaces["cust"], "10.9.0.1", TARGETS)
    table.ends.append(stream.end)
    time.sleep(1)
    table.network.cut("ispa", True)
    time.sleep(2)
    result = stream.stop()
    expect(result["longest"] < 1, said(result))
    return f"{table.count} prefixes in {seconds:.1f} s ({busy:.1f} s of CPU); a next hop of all fails: {said(result)}"


def beyond(table):
    """More routes come than the source may have: the first of them is named, and packets pass by the others."""
    table.load()
    refused = table.count - table.limit
    wait("refused routes", lambda: sources(table.weir)["fpm"]["refused"] >= refused, 250)
    state = sources(table.weir)["fpm"]
    expect((state["routes"], state["refused"]) == (table.limit, refused), f"{state}")
    with open(os.path.join(table.weir.folder, "log")) as file:
        lines = [line for line in file if "found no room" in line]
    first = "{}.{}.{}.{}/{}".format(*prefix(table.limit)[0], prefix(table.limit)[1])
    expect(lines and f"the first of them {first}:" in lines[0], f"the log does not name {first}: {lines[:1]}")
    stream = Stream(table.network.spaces["cust"], "10.9.0.1", TARGETS)
    table.ends.append(stream.end)
    time.sleep(1)
    result = stream.stop()
    expect(result["lost"] == 0, said(result))
    with open(f"/proc/{table.weir.process.pid}/status") as file:
        resident = [int(line.split()[1]) for line in file if line.startswith("VmRSS")][0]
    return (f"{table.limit} of {table.count} prefixes are taken, {state['refused']} refused, the first named ({first}); "
            f"{resident >> 10} MiB resident; {said(result)}")


def said(result):
    return f"{result['lost']} of {result['sent']} packets lost, longest {1000 * result['longest']:.0f} ms"


def full(router):
    """All routes come, and packets to all targets come back."""
    stream = router.stream()
    result = stream.stop()
    expect(result["lost"] == 0, f"{said(result)}; drops: {router.weir.drops()}")
    return f"{PREFIXES} prefixes of two providers {router.seconds:.1f} s after the daemon's start; {said(result)}"


def cut(router, loud, check):
    """A link to a provider fails, and comes back. `check` judges the packets that were lost."""
    stream = router.stream()
    words = check(router, lambda: router.network.cut("ispa", loud), stream)
    stream = router.stream()
    router.network.mend("ispa")
    wait("both providers", lambda: router.paths() == 2, 60)
    time.sleep(1)
    up = stream.stop()
    # A provider answers as soon as it has the way back, which the daemon announces after it has taken the routes.
    expect(up["longest"] < 5, f"up: {said(up)}")
    return f"down: {words}; up again: {said(up)}"


def gone(router, fails, stream):
    """A link loses its carrier: the gateway acts before the daemon does."""
    fails()
    wait("one provider", lambda: router.paths() == 1)
    time.sleep(1)
    down = stream.stop()
    expect(down["longest"] < 1, f"down: {said(down)}")
    return said(down)


def unseen(router, fails, stream):
    """Frames are lost, and BFD alone notices. Until the daemon has changed the kernel's routes the loss is the daemon's, and the
    machine's; from then on it is the gateway's, and the machine's."""
    with Changes(router.gate) as changes:
        stall = Stall(router.gate)
        router.ends.append(stall.end)
        stall.longest()
        begin = time.monotonic()
        fails()
        wait("one provider", lambda: router.paths() == 1)
        time.sleep(1)
        idle = stall.longest()
        down = stream.stop()
        changed = changes.last([target[:-1] + "0/24" for target in TARGETS])
    expect(changed, "the kernel's routes did not change")
    daemon, own = changed - begin, max(0.0, down["end"] - changed)
    words = (f"{said(down)}: {1000 * daemon:.0f} ms until the daemon had changed the kernel's routes, {1000 * own:.0f} ms more; "
             f"an idle loop beside it stood still for {1000 * idle:.0f} ms at most")
    # A thread of the gateway waits 50 ms for further changes, and lists routes.
    expect(own < 0.5 + 4 * idle, words)
    return words


def link(router):
    return cut(router, True, gone)


def bfd(router):
    return cut(router, False, unseen)


def killed(router, kill, start):
    """The daemon is killed, and starts again a second later."""
    stream = router.stream()
    kill()
    time.sleep(1)
    expect(router.is_full(), "weir lost its routes with the daemon")
    begin = time.monotonic()
    start()
    time.sleep(5)
    wait("both providers", lambda: router.is_full() and router.paths() == 2, 60)
    seconds = time.monotonic() - begin
    result = stream.stop()
    return f"all routes again {seconds:.1f} s after the start; {said(result)}"


def daemon_killed(router):
    daemon = router.daemon
    return killed(router, daemon.kill, lambda: daemon.start(recover=True))


def zebra_killed(router):
    return killed(router, lambda: router.daemon.kill("zebra"), lambda: router.daemon.start(["zebra"]))


def weir_killed(router):
    """weir is killed and starts again: how long until packets pass?"""
    router.weir.process.kill()
    router.weir.process.wait()
    router.weir.end(check=False)
    time.sleep(1)
    kept = router.gate.run("ip", "route", "show", "proto", "bird")[1].count("\n10.") + \
        router.gate.run("ip", "route", "show", "proto", "bgp")[1].count("\n10.")
    stream = router.stream()
    begin = time.monotonic()
    router.weir = Weir(router, router.text, router.folder)
    started = time.monotonic() - begin
    wait("all routes", lambda: router.is_full() and router.paths() == 2, 60)
    full_again = time.monotonic() - begin
    time.sleep(1)
    result = stream.stop()
    # The stream began a little before the program: its loss lasts until packets pass.
    passes = result["longest"] - (begin - stream.begun)
    return (f"{kept} routes stayed in the kernel; the control socket answers after {started:.1f} s, packets to all targets pass "
            f"after {passes:.1f} s, both paths after {full_again:.1f} s")


CASES = [
    ("bird-bgp", Router, ("bird",), full),
    ("bird-bgp-link", Router, ("bird",), link),
    ("bird-bgp-bfd", Router, ("bird",), bfd),
    ("bird-bgp-killed", Router, ("bird", "bgp", "kernel", True), daemon_killed),
    ("bird-bgp-killed-bfd", Router, ("bird",), daemon_killed),
    ("bird-bgp-weir-killed", Router, ("bird", "bgp", "kernel", True), weir_killed),
    ("bird-bgp-weir-killed-bfd", Router, ("bird",), weir_killed),
    ("bird-ospf", Router, ("bird", "ospf"), full),
    ("bird-ospf-link", Router, ("bird", "ospf"), link),
    ("bird-ospf-bfd", Router, ("bird", "ospf"), bfd),
    ("frr-bgp", Router, ("frr",), full),
    ("frr-bgp-link", Router, ("frr",), link),
    ("frr-bgp-bfd", Router, ("frr",), bfd),
    ("frr-bgp-zebra-killed", Router, ("frr",), zebra_killed),
    ("frr-bgp-weir-killed", Router, ("frr", "bgp", "kernel", True), weir_killed),
    ("frr-ospf", Router, ("frr", "ospf"), full),
    ("frr-ospf-link", Router, ("frr", "ospf"), link),
    ("frr-fpm", Router, ("frr", "bgp", "fpm"), full),
    ("frr-fpm-link", Router, ("frr", "bgp", "fpm"), link),
    ("table-1000", Table, (1000,), converge),
    ("table-100000", Table, (100_000,), converge),
    ("table-1000000", Table, (1_000_000,), converge),
    ("list-1000", Table, (1000, None, "kernel"), converge),
    ("list-1000000", Table, (1_000_000, None, "kernel"), converge),
    ("table-10000000", Table, (10_000_000, 2_000_000), beyond),
    ("frr-fpm-zebra-killed", Router, ("frr", "bgp", "fpm"), zebra_killed),
]
