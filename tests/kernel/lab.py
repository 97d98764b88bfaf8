"""Namespaces around a gateway: a host on one side, the network card of the virtual machine on the other.

    host ── e0 ── lan │ weir │ wan ── eth0 │ virtual machine
    10.1.0.2   10.1.0.1  198.51.100.1    .2    10.2.0.2
    2001:db8:1::2   ::1  2001:db8:ff::1  ::2   2001:db8:2::2
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

from guest import Failed, Guest

HERE = os.path.dirname(os.path.abspath(__file__))


def expect(condition, text):
    if not condition:
        raise Failed(text)


def run(words, check=True, seconds=60):
    """Runs a program; returns its exit code and its output."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"`{' '.join(words)}` does not end in {seconds} s") from None
    output = done.stdout + done.stderr
    if check and done.returncode != 0:
        raise Failed(f"`{' '.join(words)}`: exit code {done.returncode}: {output.strip()}")
    return done.returncode, output


class Space:
    """A network namespace."""

    def __init__(self, label):
        self.name = f"weir-kernel-{os.getpid()}-{label}"
        run(["ip", "netns", "add", self.name])
        self.run("ip", "link", "set", "lo", "up")

    def command(self, *words):
        return ["ip", "netns", "exec", self.name, *words]

    def run(self, *words, **options):
        return run(self.command(*words), **options)

    def ip(self, *commands):
        for command in commands:
            self.run("ip", *command.split())

    def set(self, *settings):
        """Writes settings of the kernel: `net.ipv4.ip_forward=1`."""
        for setting in settings:
            key, value = setting.split("=")
            self.run("sh", "-c", f"echo {value} >/proc/sys/{key.replace('.', '/')}")

    def remove(self):
        run(["ip", "netns", "delete", self.name], check=False)


class Capture:
    """Frames of a device, by tcpdump."""

    def __init__(self, space, device, path, what="not arp"):
        self.path = path
        self.process = subprocess.Popen(
            space.command("tcpdump", "-Z", "root", "-i", device, "-U", "--immediate-mode", "-s", "256", "-w", path, what),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        expect("listening" in line, f"tcpdump does not start: {line}")

    def stop(self):
        """Returns pairs of the seconds and the octets of frames."""
        if self.process.poll() is None:
            time.sleep(0.2)
            self.process.send_signal(signal.SIGINT)
            self.process.wait(10)
            self.process.stderr.close()
        with open(self.path, "rb") as file:
            data = file.read()
        frames, at = [], 24
        while at + 16 <= len(data):
            seconds, micro, length, _ = (int.from_bytes(data[at + i:at + i + 4], "little") for i in (0, 4, 8, 12))
            frames.append((seconds + micro / 1e6, data[at + 16:at + 16 + length]))
            at += 16 + length
        return frames


class Packet:
    """The IP header of a frame."""

    def __init__(self, frame):
        self.octets = frame[14:]
        self.version = self.octets[0] >> 4
        if self.version == 4:
            self.tos = self.octets[1]
            self.length = int.from_bytes(self.octets[2:4], "big")
            self.df = bool(self.octets[6] & 0x40)
            self.fragment = bool(int.from_bytes(self.octets[6:8], "big") & 0x3fff)
            self.ttl = self.octets[8]
            self.protocol = self.octets[9]
            self.payload = self.octets[(self.octets[0] & 15) * 4:]
            self.source = ".".join(map(str, self.octets[12:16]))
        else:
            self.tos = int.from_bytes(self.octets[:2], "big") >> 4 & 0xff
            self.length = int.from_bytes(self.octets[4:6], "big") + 40
            self.df = True
            self.protocol = self.octets[6]
            self.fragment = self.protocol == 44
            self.ttl = self.octets[7]
            self.payload = self.octets[40:]
            self.source = self.octets[8:24].hex()
            # Hop-by-hop options of multicast listener reports.
            if self.protocol == 0:
                self.protocol = self.payload[0]
                self.payload = self.payload[8 * (self.payload[1] + 1):]

    def of_link(self):
        """Is it neighbour discovery or a multicast listener report?"""
        return self.version == 6 and self.protocol == 58 and self.payload[0] in (*range(130, 138), 143)

    def ports(self):
        return int.from_bytes(self.payload[:2], "big"), int.from_bytes(self.payload[2:4], "big")


class Weir:
    """A running gateway."""

    def __init__(self, lab, config, folder):
        self.lab, self.folder = lab, folder
        self.config = os.path.join(folder, "weir.toml")
        self.socket = os.path.join(folder, "control")
        with open(self.config, "w") as file:
            file.write(config)
        run([lab.program, "check", self.config])
        self.log = open(os.path.join(folder, "log"), "w")
        self.summary = open(os.path.join(folder, "summary"), "w")
        self.process = subprocess.Popen(
            lab.gate.command(lab.program, "run", "--json", "--socket", self.socket, self.config),
            stdin=subprocess.DEVNULL, stdout=self.summary, stderr=self.log)
        end = time.monotonic() + 30
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > end:
                self.end(check=False)
                with open(os.path.join(folder, "log")) as log:
                    raise Failed(f"weir does not start: {log.read()}")
            time.sleep(0.05)

    def ready(self):
        """Does it run, with addresses that no other host uses (RFC 4862, 5.4)?"""
        if self.weir("show", "version", check=False)[0] != 0:
            return False
        return not any(interface.get("tentative") for interface in self.show("interfaces")["interfaces"])

    def weir(self, *words, **options):
        return run([self.lab.program, *words, "--socket", self.socket], **options)

    def show(self, *words):
        return json.loads(self.weir("show", *words, "--json")[1])

    def drops(self):
        """Returns the packets that were dropped, by reason."""
        return {drop["reason"]: drop["count"] for drop in self.show("errors")["errors"]}

    def end(self, check=True):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        self.summary.close()
        if check:
            expect(self.process.returncode == 0, f"weir ends with exit code {self.process.returncode}")
            with open(self.summary.name) as summary:
                text = summary.read()
            expect('"imbalance":0' in text, f"the sum of packets does not hold: {text}")


class Lab:
    """The namespaces and the virtual machine."""

    def __init__(self, program, folder):
        self.program, self.folder = os.path.abspath(program), folder
        self.spaces = []
        self.guest = None
        self.host = self.space("host")
        self.gate = self.space("gate")
        self.gate.set("net.ipv4.conf.default.rp_filter=1", "net.ipv6.conf.default.accept_dad=0",
                      "net.ipv6.conf.default.accept_ra=0")
        self.host.set("net.ipv6.conf.default.accept_ra=0", "net.ipv6.conf.default.accept_dad=0")
        self.host.ip(f"link add e0 type veth peer name lan netns {self.gate.name}", "link set e0 up",
                     "address add 10.1.0.2/24 dev e0", "address add 2001:db8:1::2/64 dev e0 nodad",
                     "route add default via 10.1.0.1", "route add default via 2001:db8:1::1")
        self.gate.set("net.ipv6.conf.lan.disable_ipv6=1")
        self.gate.ip("link set lan up")

    def boot(self, image):
        self.guest = Guest(image, self.gate.name, "wan", self.folder)
        self.gate.set("net.ipv6.conf.wan.disable_ipv6=1")
        self.gate.ip("link set wan up")

    def space(self, label):
        space = Space(label)
        self.spaces.append(space)
        return space

    def close(self):
        if self.guest:
            self.guest.end()
        for space in self.spaces:
            space.remove()

    def forget(self):
        """Removes what cases leave: learned MTUs and neighbours of the host, and all that the guest was given."""
        self.host.ip("route flush cache", "-6 route flush cache", "neigh flush all")
        self.guest("""ip xfrm state flush; ip xfrm policy flush; killall helper
for device in t0 in0; do ip link delete $device; done
for port in 6080 5555; do ip fou delete port $port; ip fou delete port $port -6; done
ip route delete 10.1.0.0/24; ip route delete 2001:db8:1::/64
ip address flush dev eth0; ip neigh flush all; ip route flush cache; ip -6 route flush cache
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_ra
cat /proc/net/xfrm_stat >/run/xfrm_stat; true""", check=False)
        self.guest.ip("link set eth0 up", "address add 198.51.100.2/24 dev eth0",
                      "address add 2001:db8:ff::2/64 dev eth0 nodad")
        self.guest("helper echo 7 >/run/echo 2>&1 &")

    def xfrm_errors(self):
        """Returns the counters of errors of IPsec in the guest that rose since `forget`."""
        lines = self.guest("cat /run/xfrm_stat; echo; cat /proc/net/xfrm_stat").split("\n")
        counts = [line.split() for line in lines if line.startswith("Xfrm")]
        before = {name: int(value) for name, value in counts[:len(counts) // 2]}
        return {name: int(value) - before[name] for name, value in counts[len(counts) // 2:]
                if int(value) != before[name]}


def pings(count, size):
    """Returns options of ping: all requests at once. ping waits for the last reply as long as its interval, a second."""
    return ["-n", "-c", str(count), "-l", str(count), "-i", "1", "-W", "2", "-s", str(size)]


def ping(space, address, size=56, count=3, more=(), check=True):
    """Sends echo requests from a namespace; returns the output of ping. Not all answered is a failure."""
    _, output = space.run("ping", *pings(count, size), *more, address, check=False)
    if check:
        expect(f" {count} received" in output, f"ping of {size} octets to {address} {' '.join(more)}: {output.strip()}")
    return output


def guest_ping(guest, address, size=56, count=3):
    output = guest(f"ping {' '.join(pings(count, size))} {address}", check=False)
    expect(f" {count} received" in output, f"ping of the guest, {size} octets to {address}: {output.strip()}")


def transfer(space, address, octets=1_000_000, port=7):
    """Sends octets to the echo server at an address, and compares them with the answer."""
    begin = time.monotonic()
    code, output = space.run(sys.executable, os.path.join(HERE, "client.py"), address, str(port), str(octets), "30",
                             check=False, seconds=40)
    expect(code == 0, f"{octets} octets of TCP to {address}: {output.strip().splitlines()[-1:]}")
    return time.monotonic() - begin


def learn_mtu(space, address, header, before=1500):
    """Returns the MTU of a path that the gateway reports for a packet of `before` octets. A packet of that length has to
    pass."""
    first = ping(space, address, before - header, 1, ("-M", "do"), check=False)
    found = re.search(r"mtu ?= ?(\d+)", first)
    expect(found, f"no MTU is reported for {before} octets to {address}: {first.strip()}")
    mtu = int(found[1])
    ping(space, address, mtu - header, 2, ("-M", "do"))
    return mtu
