"""BIRD and FRR: the providers' and the customer's BIRD, and either beside the gateway."""
import datetime
import os
import re
import shutil
import signal
import subprocess
import time

from network import BLUE, CUSTOMERS, LINKS, PREFIXES, expect, prefixes

FRR = "/usr/lib/frr"
# Sessions come back within seconds, not minutes.
SOON = "connect delay time 1; connect retry time 1; error wait time 1, 2;"
BFD = "interval 50 ms; multiplier 3;"


def wait(what, ready, seconds=30, pause=0.02):
    """Waits until something is so; returns the seconds that it took. A longer pause leaves a gateway that has work its time."""
    begin = time.monotonic()
    while not ready():
        expect(time.monotonic() < begin + seconds, f"{what} takes longer than {seconds} s")
        time.sleep(pause)
    return time.monotonic() - begin


class Changes:
    """The changes of the kernel's routes in a namespace, with the time at which iproute2 reads them."""

    LINE = re.compile(r"\[(\S+)\] (?:Deleted )?(?:\w+ )?(\d[\d.]+/\d+) ")

    def __init__(self, space):
        # Unbuffered, so that no line is missing at the end.
        self.process = subprocess.Popen(space.command("stdbuf", "-oL", "ip", "-ts", "monitor", "route"),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.ahead = time.time() - time.monotonic()

    def __enter__(self):
        time.sleep(0.2)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def last(self, prefixes):
        """Ends the watch. Returns when the last of these prefixes changed, by the monotonic clock; `None`: none of them did."""
        self.process.terminate()
        found = [self.LINE.match(line) for line in self.process.communicate()[0].splitlines()]
        times = [datetime.datetime.fromisoformat(line[1]).timestamp() for line in found if line and line[2] in prefixes]
        return max(times) - self.ahead if times else None


class Daemon:
    """A program in the foreground."""

    def __init__(self, space, words, log):
        self.log = open(log, "a")
        self.process = subprocess.Popen(space.command(*words), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()


class Bird:
    """BIRD in a namespace."""

    def __init__(self, space, config, folder):
        self.space, self.folder = space, folder
        os.makedirs(folder, exist_ok=True)
        self.config = os.path.join(folder, "bird.conf")
        with open(self.config, "w") as file:
            file.write(config)
        self.daemon = None
        self.start()

    def start(self, recover=False):
        """Starts BIRD; `recover` keeps the kernel's routes until the peers have repeated theirs (RFC 4724)."""
        words = ["bird", "-f", "-c", self.config, "-s", os.path.join(self.folder, "control"), *(["-R"] if recover else [])]
        self.daemon = Daemon(self.space, words,
                             os.path.join(self.folder, "log"))
        wait("the start of BIRD", lambda: self.ask("show status", check=False)[0] == 0)

    def ask(self, command, check=True):
        return self.space.run("birdc", "-s", os.path.join(self.folder, "control"), *command.split(), check=check)

    def kill(self):
        self.daemon.kill()

    def end(self):
        self.daemon.end()


def static(nets):
    routes = "".join(f"  route {net} blackhole;\n" for net in nets)
    return f"protocol static {{\n  ipv4;\n{routes}}}\n"


def far_bird(name, number, nets, protocol, keep, passive=False):
    """Returns BIRD's configuration of a customer or provider, who announces these prefixes by BGP or OSPF.

    `passive`: the gateway's side connects.
    """
    near, far = {**LINKS, **BLUE}[name]
    text = f"router id {far};\nprotocol device {{ scan time 1; }}\n{static(nets)}"
    # The targets are the kernel's own addresses: only what was learned goes to the kernel.
    text += 'protocol kernel { ipv4 { export where source ~ [RTS_BGP, RTS_OSPF, RTS_OSPF_EXT1, RTS_OSPF_EXT2]; }; }\n'
    text += f'protocol bfd {{ interface "eth0" {{ {BFD} }}; }}\n'
    if protocol == "ospf":
        return text + ospf("eth0", "where source = RTS_STATIC")
    return text + (f"protocol bgp {{\n  local {far} as {number};\n  neighbor {near} as 64500;\n  {liveness(name, keep)}{passive * ' passive on;'}\n"
                   "  ipv4 { import all; export where source = RTS_STATIC; };\n}\n")


def ospf(devices, export):
    names = devices.split()
    interfaces = "".join(f'    interface "{name}" {{ type ptp; hello 1; dead 4; bfd on; cost 10; }};\n' for name in names)
    return f"protocol ospf v2 {{\n  ecmp on;\n  merge external on;\n  ipv4 {{ import all; export {export}; }};\n  area 0 {{\n{interfaces}  }};\n}}\n"


def liveness(name, keep):
    """Returns how a session of BGP ends: by BFD and by the carrier, or only by its hold time of 30 s.

    That of the customer has no BFD, as a busy machine delays its packets.
    """
    keep = keep or name in CUSTOMERS
    return f"{SOON} " + ("hold time 30; check link off; graceful restart on;" if keep else "bfd on; graceful restart aware;")


def near_bird(protocol, keep, blue=()):
    """Returns BIRD's configuration beside the gateway: all sessions over punt devices. Those of `blue` have table 100."""
    text = ("router id 192.0.2.1;\nprotocol device { scan time 1; }\n"
            "protocol kernel { persist; merge paths on; graceful restart; ipv4 { export all; }; }\n"
            f'protocol bfd {{ interface "*-host" {{ {BFD} }}; }}\n')
    if protocol == "ospf":
        return text + ospf(" ".join(f"{name}-host" for name in LINKS), "none")
    if blue:
        text += ("ipv4 table blue;\n"
                 "protocol kernel { kernel table 100; persist; merge paths on; ipv4 { table blue; export all; }; }\n")
    for name, (near, far) in {**LINKS, **(BLUE if blue else {})}.items():
        table = "table blue; " if name in blue else ""
        text += (f"protocol bgp {name}_session {{\n  local {near} as 64500;\n  neighbor {far} as {AS[name]};\n"
                 f"  {liveness(name, keep)}\n  ipv4 {{ {table}import all; export all; }};\n}}\n")
    return text


AS = {"cust": 64503, "ispa": 64501, "ispb": 64502, "blue": 64504}


class Frr:
    """zebra with bgpd or ospfd, and bfdd, in a namespace."""

    def __init__(self, space, protocol, folder, fpm, keep, links=LINKS, table=None, later=False):
        self.space, self.folder, self.fpm, self.table = space, folder, fpm, table
        self.daemons = {}
        self.names = ["zebra", "bfdd", "bgpd" if protocol == "bgp" else "ospfd"]
        os.makedirs(folder, exist_ok=True)
        # The daemons' own sockets are below /var/run/frr, in a folder by the name of the path space.
        self.path = f"weir-{os.getpid()}" + (f"-{table}" if table else "")
        os.makedirs(f"/var/run/frr/{self.path}", exist_ok=True)
        for place in (folder, f"/var/run/frr/{self.path}"):
            shutil.chown(place, "frr", "frr")
        text = {"zebra": "", "bfdd": "", self.names[2]: bgp(keep, links, table) if protocol == "bgp" else OSPF}
        if fpm:
            text["zebra"] = "fpm address 127.0.0.1 port 2620\n"
        if table:
            # Two instances would give the same numbers to their next hop objects.
            text["zebra"] += "no zebra nexthop kernel enable\n"
        for name in self.names:
            with open(os.path.join(folder, f"{name}.conf"), "w") as file:
                file.write("log stdout\n" + text[name])
        # Of several instances each zebra has to be there before routes are: it takes those that it finds for its own, of an earlier time.
        self.start(["zebra"])
        if not later:
            self.rest()

    def rest(self):
        """Starts all but zebra."""
        self.start(self.names[1:])

    def start(self, names):
        for name in names:
            options = ["-N", self.path, "-f", os.path.join(self.folder, f"{name}.conf"),
                       "-i", os.path.join(self.folder, f"{name}.pid"), "-P", "0"]
            if name == "bgpd" and self.table:
                # The port is that of the first instance: this one connects to its neighbours.
                options += ["-p", "0"]
            if name == "zebra":
                # Routes of a zebra that was killed stay for a while.
                options += ["-K", "30"] + (["-M", "dplane_fpm_nl"] if self.fpm else [])
            self.daemons[name] = Daemon(self.space, [os.path.join(FRR, name), *options],
                                        os.path.join(self.folder, f"{name}.log"))
            if name == "zebra":
                wait("zebra's socket", lambda: os.path.exists(f"/var/run/frr/{self.path}/zserv.api"))

    def kill(self, name):
        self.daemons[name].kill()

    def end(self):
        for daemon in reversed(self.daemons.values()):
            daemon.end()
        subprocess.run(["rm", "-rf", f"/var/run/frr/{self.path}"], check=False)


def bgp(keep, links=LINKS, table=None):
    """Returns bgpd's configuration beside the gateway. Its routes go into a table of the kernel, by default the main one."""
    lines = ["router bgp 64500", " bgp router-id 192.0.2.1", " no bgp ebgp-requires-policy", " bgp bestpath as-path multipath-relax",
             " no bgp network import-check",
             # Without BFD a provider would keep the routes of a session that ended, and lose them when it comes again.
             " bgp graceful-restart-disable" if table else " bgp graceful-restart",
             # With tables the links say that a session ends; a busy machine must not.
             *([" no bgp fast-external-failover", " timers bgp 10 30"] if keep else [" timers bgp 5 15" if table else " timers bgp 1 3"])]
    for name, (_, far) in links.items():
        is_quick = not keep and name not in CUSTOMERS and not table
        lines += [f" neighbor {far} remote-as {AS[name]}", f" neighbor {far} advertisement-interval 0",
                  f" neighbor {far} timers connect 1", *([f" neighbor {far} bfd 3 50 50"] if is_quick else [])]
    lines += [" address-family ipv4 unicast", "  maximum-paths 8",
              *([f"  neighbor {far} route-map of-table in" for _, far in links.values()] if table else []), " exit-address-family"]
    if table:
        lines += ["route-map of-table permit 10", f" set table {table}"]
    return "\n".join(lines) + "\n"


OSPF = "".join(f"interface {name}-host\n ip ospf area 0\n ip ospf network point-to-point\n ip ospf hello-interval 1\n"
               " ip ospf dead-interval 4\n ip ospf bfd\n ip ospf cost 10\n" for name in LINKS) + \
    "router ospf\n ospf router-id 192.0.2.1\n"


def providers(network, protocol, folder, keep, passive=()):
    """Starts BIRD at the customers and at both providers. Those of `passive` wait for sessions."""
    birds = {}
    for name in network.links:
        nets = ["10.9.0.0/24"] if name in CUSTOMERS else prefixes()
        birds[name] = Bird(network.spaces[name], far_bird(name, AS[name], nets, protocol, keep, name in passive), os.path.join(folder, name))
    return birds


def learned(network):
    """Do both providers know the way to the customer, and the customer all prefixes?"""
    for name in ("ispa", "ispb"):
        if "10.9.0.0/24" not in network.spaces[name].run("ip", "route", "show", "10.9.0.0/24")[1]:
            return False
    routes = network.spaces["cust"].run("ip", "route", "show")[1].splitlines()
    return sum(route.startswith("10.") and " via " in route for route in routes) >= PREFIXES
