"""Cases of ESP: the kernel of the virtual machine has the other SAs (`ip xfrm`)."""
import os
import re
import signal
import subprocess
import time

from lab import Capture, Packet, Weir, expect, guest_ping, learn_mtu, ping, transfer

# Outer addresses by family: weir's and the guest's.
OUTER = {4: ("198.51.100.1", "198.51.100.2"), 6: ("2001:db8:ff::1", "2001:db8:ff::2")}
# Inner networks by family: the host's and the guest's.
NETS = {4: ("10.1.0.0/24", "10.2.0.0/24"), 6: ("2001:db8:1::/64", "2001:db8:2::/64")}
HOST = {4: "10.1.0.2", 6: "2001:db8:1::2"}
GUEST = {4: "10.2.0.2", 6: "2001:db8:2::2"}
# Octets of the headers of an echo request from its IP header on.
ECHO = {4: 28, 6: 48}

# Name in weir: algorithm of `ip xfrm`, octets of the key and bits of the ICV.
AEAD = {"gcm": "rfc4106(gcm(aes))", "ccm": "rfc4309(ccm(aes))", "gmac": "rfc4543(gcm(aes))"}
HMAC = {"sha1": (20, 96), "sha256": (32, 128), "sha384": (48, 192), "sha512": (64, 256)}


def algorithm(name):
    """Returns the octets of the key of an algorithm of weir, and a function from the key to the words of `ip xfrm`."""
    if name == "chacha20poly1305":
        return 36, lambda key: f"aead rfc7539esp(chacha20,poly1305) 0x{key.hex()} 128"
    found = re.fullmatch(r"aes(\d+)(gcm|ccm|gmac)(\d*)", name)
    if found:
        length = int(found[1]) // 8 + (3 if found[2] == "ccm" else 4)
        icv = int(found[3] or 16) * 8
        return length, lambda key: f"aead {AEAD[found[2]]} 0x{key.hex()} {icv}"
    cipher, hmac = name.split("-")
    size, icv = HMAC[hmac]
    auth = f"auth-trunc hmac({hmac})"
    if cipher == "null":
        return size, lambda key: f"enc ecb(cipher_null) \"\" {auth} 0x{key.hex()} {icv}"
    bits, counter = re.fullmatch(r"aes(\d+)(ctr)?", cipher).groups()
    length = int(bits) // 8 + (4 if counter else 0)
    kind = "rfc3686(ctr(aes))" if counter else "cbc(aes)"
    return length + size, lambda key: (f"enc {kind} 0x{key[:length].hex()} {auth} 0x{key[length:].hex()} {icv}")


# Commands that show what the guest has.
STATE = """ip -s xfrm state; ip -s xfrm policy; cat /proc/net/xfrm_stat; ip -s -d link; ip address; ip route; ip -6 route
ip neigh; dmesg | tail"""


class Esp:
    """A pair of SAs and its settings."""

    def __init__(self, name, alg="aes128gcm16", inner=(4,), outer=4, mode="tunnel", esn=False, encap=False, window=64,
                 peer_window=64, more=""):
        self.name, self.alg, self.inner, self.outer, self.mode = name, alg, inner, outer, mode
        self.esn, self.encap, self.window, self.peer_window, self.more = esn, encap, window, peer_window, more
        length, self.words = algorithm(alg)
        self.keys = [os.urandom(length), os.urandom(length)]
        self.local, self.remote = OUTER[outer]

    def keyed(self, folder):
        """Writes the key files of both directions, and makes the directory of sequence numbers."""
        os.makedirs(os.path.join(folder, "state"), 0o700, exist_ok=True)
        for label, key in zip(("out", "in"), self.keys):
            with open(os.open(os.path.join(folder, f"{label}.key"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
                file.write(key.hex())

    def pair(self, folder, spi=0):
        """Returns the keys of `[sa.NAME]`."""
        encapsulation = "encapsulation = { local-port = 4500, remote-port = 4500 }\n" if self.encap else ""
        return f"""mode = "{self.mode}"
local = "{self.local}"
remote = "{self.remote}"
algorithm = "{self.alg}"
esn = {str(self.esn).lower()}
window = {self.window}
{encapsulation}{self.more}
out = {{ spi = {0x1001 + spi}, key-file = "{folder}/out.key" }}
in = {{ spi = {0x2001 + spi}, key-file = "{folder}/in.key" }}
"""

    def config(self, folder, rules, tunnels="", punt=False):
        self.keyed(folder)
        listed = "\n".join(f'  "{rule}",' for rule in rules)
        return gateway(tunnels, spd="edge", punt=punt) + f"""
[ipsec]
state = "{folder}/state"
[sa.peer]
{self.pair(folder)}
[spd.edge]
rules = [
{listed}
]
"""

    def state(self, out, spi=0):
        """Returns the words of an SA of the guest; `out`: the guest sends by it."""
        source, target = (self.remote, self.local) if out else (self.local, self.remote)
        # The key of weir's outbound SA is the first.
        key = self.keys[1] if out else self.keys[0]
        number = (0x2001 if out else 0x1001) + spi
        flags = " ".join((["esn"] if self.esn else []) + (["af-unspec"] if self.mode == "tunnel" else []))
        return (f"src {source} dst {target} proto esp spi {number} reqid 1 mode {self.mode} "
                f"replay-window {self.peer_window} {'flag ' + flags if flags else ''} {self.words(key)} "
                + ("encap espinudp 4500 4500 0.0.0.0" if self.encap else ""))

    def guest_states(self, guest, spi=0):
        guest.ip(*(f"xfrm state add {self.state(out, spi)}" for out in (True, False)))

    def guest_policies(self, guest, ends, verb="add", spi=None):
        """Sets policies between pairs of what the guest has and what the gateway has."""
        commands = []
        for own, other in ends:
            for direction, one, two, source, target in (("out", own, other, self.remote, self.local),
                                                        ("in", other, own, self.local, self.remote)):
                which = f"spi {spi}" if spi is not None and direction == "out" else ""
                commands.append(f"xfrm policy {verb} src {one} dst {two} dir {direction} priority 100 "
                                f"tmpl src {source} dst {target} proto esp {which} reqid 1 mode {self.mode}")
        guest.ip(*commands)
        if self.encap and verb == "add":
            # The kernel matches the UDP packet of ESP, too. Protocols are numbers: the guest has no list of their names.
            guest.ip(f"xfrm policy add src {self.local} dst {self.remote} proto 17 sport 4500 dport 4500 dir in priority 0")
            guest("helper encap 4500 >/run/encap 2>&1 &")


def gateway(tunnels="", spd=None, punt=False):
    """Returns the interfaces of the gateway, and its routes to the networks of the guest."""
    routes = "".join(f'[[route]]\nprefix = "{NETS[family][1]}"\nvia = {{ address = "{OUTER[family][1]}" }}\n'
                     for family in (4, 6))
    return f"""version = 1
[[interface]]
name = "lan"
port = {{ af-packet = "lan" }}
address = ["10.1.0.1/24", "2001:db8:1::1/64"]
[[interface]]
name = "wan"
port = {{ af-packet = "wan" }}
address = ["198.51.100.1/24", "2001:db8:ff::1/64"]
{f'spd = "{spd}"' if spd else ''}
{'punt = "wan-host"' if punt else ''}
{tunnels}
{routes}"""


def inside(guest):
    """Gives the guest the inner networks, and routes to the host."""
    guest.ip("link add in0 type dummy", "link set in0 up", "address add 10.2.0.2/24 dev in0",
             "address add 2001:db8:2::2/64 dev in0 nodad",
             "route add 10.1.0.0/24 via 198.51.100.1 src 10.2.0.2",
             "route add 2001:db8:1::/64 via 2001:db8:ff::1 src 2001:db8:2::2")


def spare_discovery(guest, case):
    """Leaves neighbour discovery between the ends in clear."""
    if case.outer == 6:
        guest.ip(*(f"xfrm policy add src {one}/128 dst {two}/128 proto 58 type {kind} dir {direction} priority 0"
                   for direction, one, two in (("out", case.remote, case.local), ("in", case.local, case.remote))
                   for kind in (135, 136)))


def sealed(frames, encap=False):
    """Holds frames to be of ESP, and no SPI to have a number twice; returns their packets."""
    seen, packets = set(), []
    for _, frame in frames:
        packet = Packet(frame)
        if packet.of_link():
            continue
        packets.append(packet)
        if packet.fragment:
            continue
        expect(packet.protocol == (17 if encap else 50), f"it is no ESP: {frame.hex()}")
        esp = packet.payload
        if encap:
            expect(4500 in packet.ports(), f"it is no ESP in UDP: {frame.hex()}")
            esp = esp[8:]
            if esp[:1] == b"\xff":
                continue
        number = bytes(esp[:8])
        expect(number not in seen, f"SPI and sequence number came before: {frame.hex()}")
        seen.add(number)
    return packets


def kernel_counts(guest):
    """Returns the packets of each SA of the guest by SPI."""
    text = guest("ip -s xfrm state")
    blocks = re.findall(r"(?s)proto esp spi 0x([0-9a-f]+).*?lifetime current:\s*\d+\(bytes\), (\d+)\(packets\)", text)
    return {int(spi, 16): int(packets) for spi, packets in blocks}


def counted(lab, weir, allowed=(), states=True):
    """Compares the counters of both ends; returns the packets out and in."""
    time.sleep(0.3)
    errors = lab.xfrm_errors()
    expect(not errors, f"the kernel counts errors: {errors}")
    drops = {reason: count for reason, count in weir.drops().items()
             if reason.startswith(("esp-", "spd-", "tunnel-", "offload")) and reason not in allowed}
    expect(not drops, f"weir drops: {drops}")
    pair = weir.show("sa")["sas"][0]
    for key in ("auth-failed", "replayed", "lost"):
        expect(pair["in"].get(key) == 0, f"{key}: {pair['in']}")
    out, into = pair["out"]["packets"], pair["in"]["packets"]
    if states:
        kernel = kernel_counts(lab.guest)
        expect(kernel == {0x1001: out, 0x2001: into}, f"the kernel counts {kernel}, weir {out} out and {into} in")
    return out, into


def tunnel(lab, folder, case):
    """Both ends are gateways."""
    guest = lab.guest
    inside(guest)
    rules = [f"protect ip{family} from {NETS[family][0]} to {NETS[family][1]} sa peer" for family in case.inner]
    weir = Weir(lab, case.config(folder, rules), folder)
    try:
        case.guest_states(guest)
        case.guest_policies(guest, [(NETS[family][1], NETS[family][0]) for family in case.inner])
        capture = Capture(lab.gate, "wan", os.path.join(folder, "wan.pcap"))
        notes = []
        for family in case.inner:
            mtu = learn_mtu(lab.host, GUEST[family], ECHO[family])
            ping(lab.host, GUEST[family], 0)
            ping(lab.host, GUEST[family], 1000, more=("-Q", "0xb8"))
            if family == 4:
                ping(lab.host, GUEST[family], 3000)
            guest_ping(guest, HOST[family])
            guest_ping(guest, HOST[family], 1000)
            guest_ping(guest, HOST[family], 3000)
            seconds = transfer(lab.host, GUEST[family])
            notes.append(f"v{family}: MTU {mtu}, TCP {seconds:.1f} s")
        packets = sealed(capture.stop(), case.encap)
        longest = max(packet.length for packet in packets)
        expect(1484 < longest <= 1500, f"the longest packet of ESP has {longest} octets")
        marked = [packet for packet in packets if packet.tos & 0xfc == 0xb8]
        expect(len(marked) >= 6 * len(case.inner), f"{len(marked)} packets have the DSCP of the packets in them")
        out, into = counted(lab, weir)
        return f"{out} out, {into} in; {', '.join(notes)}"
    finally:
        weir.end(check=False)


def transport(lab, folder, case):
    """weir's own host, by its punt device, and the guest."""
    guest = lab.guest
    rules = [f"protect ip{case.outer} from {case.local} to {case.remote} sa peer"]
    weir = Weir(lab, case.config(folder, rules, punt=True), folder)
    try:
        case.guest_states(guest)
        width = 32 if case.outer == 4 else 128
        spare_discovery(guest, case)
        case.guest_policies(guest, [(f"{case.remote}/{width}", f"{case.local}/{width}")])
        capture = Capture(lab.gate, "wan", os.path.join(folder, "wan.pcap"))
        ping(lab.gate, case.remote, 0)
        ping(lab.gate, case.remote, 1000)
        guest_ping(guest, case.local)
        guest_ping(guest, case.local, 1000)
        guest_ping(guest, case.local, 3000)
        # The host behind a punt device learns no MTU from weir: its routes have to leave room for ESP.
        lab.gate.ip(f"route add {case.remote}/{width} dev wan-host mtu 1400")
        seconds = transfer(lab.gate, case.remote)
        sealed(capture.stop(), case.encap)
        # The host's own multicasts on the punt device match no rule.
        out, into = counted(lab, weir, allowed=("spd-no-match",))
        return f"{out} out, {into} in; TCP {seconds:.1f} s"
    finally:
        weir.end(check=False)


PLAIN = [
    Esp("gcm128-4in4"),
    Esp("gcm128-6in6", inner=(6,), outer=6),
    Esp("gcm128-4in6", inner=(4,), outer=6),
    Esp("gcm128-6in4", inner=(6,), outer=4),
    Esp("gcm128-both-in4-esn", inner=(4, 6), esn=True),
    Esp("gcm128-both-in6-esn", inner=(4, 6), outer=6, esn=True),
    Esp("gcm192", alg="aes192gcm16"),
    Esp("gcm256", alg="aes256gcm16", inner=(4, 6)),
    Esp("gcm128-icv8", alg="aes128gcm8"),
    Esp("gcm128-icv12", alg="aes128gcm12"),
    Esp("cbc128-sha256", alg="aes128-sha256", inner=(4, 6)),
    Esp("cbc128-sha256-esn", alg="aes128-sha256", esn=True),
    Esp("cbc256-sha512", alg="aes256-sha512"),
    Esp("cbc192-sha384", alg="aes192-sha384"),
    Esp("ctr128-sha1", alg="aes128ctr-sha1"),
    Esp("ctr256-sha256-esn", alg="aes256ctr-sha256", esn=True),
    Esp("ccm128-icv8", alg="aes128ccm8"),
    Esp("ccm128-icv12-esn", alg="aes128ccm12", esn=True),
    Esp("ccm256-icv16", alg="aes256ccm16"),
    Esp("chacha20poly1305", alg="chacha20poly1305", inner=(4, 6)),
    Esp("chacha20poly1305-esn", alg="chacha20poly1305", esn=True, outer=6),
    Esp("gmac128", alg="aes128gmac"),
    Esp("gmac256-esn", alg="aes256gmac", esn=True),
    Esp("null-sha256", alg="null-sha256"),
    Esp("null-sha1-esn", alg="null-sha1", esn=True),
    Esp("udp-gcm128", encap=True, inner=(4, 6)),
    Esp("udp-gcm128-over6", encap=True, inner=(4, 6), outer=6),
    Esp("udp-cbc-esn", alg="aes128-sha256", encap=True, esn=True),
    Esp("window-32", window=32, peer_window=32),
    Esp("window-4096-esn", window=4096, peer_window=4096, esn=True),
    Esp("window-131072", window=131072, peer_window=4096, esn=True),
    Esp("tfc", more="tfc = 600"),
]

TRANSPORT = [
    Esp("transport-gcm128", mode="transport"),
    Esp("transport-gcm128-v6", mode="transport", outer=6),
    Esp("transport-esn", mode="transport", esn=True, alg="aes256gcm16"),
    Esp("transport-cbc-sha256", mode="transport", alg="aes128-sha256"),
    Esp("transport-cbc-sha256-v6", mode="transport", alg="aes128-sha256", outer=6),
    Esp("transport-chacha", mode="transport", alg="chacha20poly1305"),
    Esp("transport-null-sha256", mode="transport", alg="null-sha256"),
    Esp("transport-udp", mode="transport", encap=True),
    Esp("transport-udp-v6", mode="transport", encap=True, outer=6),
]


def replay(lab, folder):
    """The kernel starts its numbers again, and gets packets of weir twice: each end rejects them."""
    case, guest = Esp("replay"), lab.guest
    inside(guest)
    weir = Weir(lab, case.config(folder, [f"protect ip4 from {NETS[4][0]} to {NETS[4][1]} sa peer"]), folder)
    try:
        case.guest_states(guest)
        case.guest_policies(guest, [(NETS[4][1], NETS[4][0])])
        capture = Capture(lab.gate, "wan", os.path.join(folder, "wan.pcap"), "esp and src 198.51.100.1")
        ping(lab.host, GUEST[4], count=20)
        frames = [frame for _, frame in capture.stop()]
        expect(len(frames) == 20, f"{len(frames)} packets of weir")
        counted(lab, weir)
        # The guest's new SA has the old key and begins with number 1.
        out = f"src {case.remote} dst {case.local} proto esp spi {0x2001}"
        guest.ip(f"xfrm state delete {out}", f"xfrm state add {case.state(True)}")
        guest(f"ping -n -c 20 -i 0.02 -W 1 {HOST[4]}", check=False)
        pair = weir.show("sa")["sas"][0]["in"]
        expect(pair["replayed"] == 20 and pair["packets"] == 20, f"weir counts {pair}")
        expect(weir.drops().get("esp-replay") == 20, f"weir drops {weir.drops()}")
        # The next number is new again.
        ping(lab.host, GUEST[4], count=5)
        # Packets of weir once more, to the guest.
        inject(lab.gate, "wan", frames)
        time.sleep(0.3)
        errors = lab.xfrm_errors()
        expect(errors == {"XfrmInStateSeqError": 20}, f"the kernel counts {errors}")
        return "20 of 20 rejected by weir, 20 of 20 by the kernel"
    finally:
        weir.end(check=False)


def rollover(lab, folder):
    """The kernel's extended sequence numbers pass 4,294,967,295."""
    case, guest = Esp("rollover", esn=True, peer_window=128, window=128), lab.guest
    inside(guest)
    weir = Weir(lab, case.config(folder, [f"protect ip4 from {NETS[4][0]} to {NETS[4][1]} sa peer"]), folder)
    try:
        out = f"src {case.remote} dst {case.local} proto esp spi {0x2001}"
        guest.ip(f"xfrm state add {case.state(False)}", f"xfrm state add {case.state(True)} replay-oseq 0x80000000")
        case.guest_policies(guest, [(NETS[4][1], NETS[4][0])])
        # A window at 0 takes the last numbers of 32 bits for those in front of 0 (RFC 4303, A2.2): it has to be behind first.
        ping(lab.host, GUEST[4], count=20)
        guest.ip(f"xfrm state delete {out}", f"xfrm state add {case.state(True)} replay-oseq 0xffffffe0")
        for _ in range(4):
            ping(lab.host, GUEST[4], count=20)
        counted(lab, weir, states=False)
        into = weir.show("sa")["sas"][0]["in"]
        expect((into["packets"], into["highest"]) == (100, 0xffffffe0 + 80), f"weir counts {into}")
        return f"numbers to {into['highest']:,}, 80 of 80"
    finally:
        weir.end(check=False)


def inject(space, device, frames):
    """Sends frames by a device."""
    code = ("import socket, sys\ns = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\ns.bind((sys.argv[1], 0))\n"
            "for line in sys.stdin: s.send(bytes.fromhex(line))\n")
    text = "".join(frame.hex() + "\n" for frame in frames)
    subprocess.run(space.command("python3", "-c", code, device), input=text, text=True, check=True, timeout=20)


def forged(lab, folder):
    """Packets of weir with one octet changed: the kernel rejects them, and the window does not move."""
    case, guest = Esp("forged"), lab.guest
    inside(guest)
    weir = Weir(lab, case.config(folder, [f"protect ip4 from {NETS[4][0]} to {NETS[4][1]} sa peer"]), folder)
    try:
        case.guest_states(guest)
        case.guest_policies(guest, [(NETS[4][1], NETS[4][0])])
        # The guest's key of its own packets is wrong at first: weir has to reject all of them.
        wrong = Esp("forged")
        wrong.keys = [case.keys[0], bytes(reversed(case.keys[1]))]
        out = f"src {case.remote} dst {case.local} proto esp spi {0x2001}"
        guest.ip(f"xfrm state delete {out}", f"xfrm state add {wrong.state(True)}")
        guest(f"ping -n -c 10 -i 0.02 -W 1 {HOST[4]}", check=False)
        pair = weir.show("sa")["sas"][0]["in"]
        expect((pair["auth-failed"], pair["replayed"], pair["packets"]) == (10, 0, 0), f"weir counts {pair}")
        guest.ip(f"xfrm state delete {out}", f"xfrm state add {case.state(True)}")
        # Number 1 comes for the first time with the right key.
        guest_ping(guest, HOST[4], count=10)
        pair = weir.show("sa")["sas"][0]["in"]
        expect((pair["auth-failed"], pair["replayed"], pair["packets"]) == (10, 0, 10), f"weir counts {pair}")
        return "10 of 10 rejected for esp-auth; the same numbers accepted with the right key"
    finally:
        weir.end(check=False)


def rekey(lab, folder):
    """Both ends get new SAs under ping, make before break: no packet is lost."""
    case, guest = Esp("rekey"), lab.guest
    inside(guest)
    os.mkdir(os.path.join(folder, "state"), 0o700)
    config = f"""{gateway(spd="edge")}
[ipsec]
state = "{folder}/state"
[spd.edge]
rules = ["bypass udp from any port 500 to any port 500"]
"""
    weir, pinger = Weir(lab, config, folder), None
    try:
        def new(spi):
            case.keys = [os.urandom(20), os.urandom(20)]
            part = os.path.join(folder, str(spi))
            case.keyed(part)
            path = os.path.join(part, "sa.toml")
            with open(path, "w") as file:
                file.write(case.pair(part, spi))
            return path

        weir.weir("sa", "add", "peer", new(0))
        weir.weir("spd", "insert", "edge", f"protect ip4 from {NETS[4][0]} to {NETS[4][1]} sa peer")
        case.guest_states(guest)
        case.guest_policies(guest, [(NETS[4][1], NETS[4][0])], spi=0x2001)
        with open(os.path.join(folder, "ping"), "w") as output:
            pinger = subprocess.Popen(lab.host.command("ping", "-n", "-i", "0.02", GUEST[4]), stdout=output)
        for turn in range(1, 4):
            time.sleep(0.7)
            # weir receives by the new pair at once; it sends by it once the guest does.
            weir.weir("sa", "rekey", "peer", new(turn))
            case.guest_states(guest, turn)
            case.guest_policies(guest, [(NETS[4][1], NETS[4][0])], verb="update", spi=0x2001 + turn)
            end = time.monotonic() + 10
            while weir.weir("sa", "finish", "peer", check=False)[0] != 0:
                expect(time.monotonic() < end, "weir does not send by the new pair, although the peer does")
                time.sleep(0.1)
            for number, source, target in ((0x2001, case.remote, case.local), (0x1001, case.local, case.remote)):
                guest.ip(f"xfrm state delete src {source} dst {target} proto esp spi {number + turn - 1}")
        time.sleep(0.5)
        pinger.send_signal(signal.SIGINT)
        pinger.wait(10)
        with open(os.path.join(folder, "ping")) as output:
            seen = {int(number) for number in re.findall(r"icmp_seq=(\d+)", output.read())}
        # The last ones may be under way.
        lost = set(range(1, max(seen) + 1)) - seen
        expect(len(seen) > 100 and not lost, f"of {max(seen)} pings these are lost: {sorted(lost)}")
        errors = lab.xfrm_errors()
        expect(not errors, f"the kernel counts {errors}")
        sas = weir.show("sa")["sas"]
        expect([pair["out"]["spi"] for pair in sas] == [0x1004], f"SAs are left: {sas}")
        kernel, own = kernel_counts(guest), [sas[0]["out"]["packets"], sas[0]["in"]["packets"]]
        expect(kernel == {0x1004: own[0], 0x2004: own[1]}, f"the kernel counts {kernel}, weir {own} out and in")
        return f"3 changes of both SAs, none of {len(seen)} pings lost"
    finally:
        if pinger:
            pinger.kill()
        weir.end(check=False)


CASES = ([(f"esp-{case.name}", lambda lab, folder, case=case: tunnel(lab, folder, case)) for case in PLAIN]
         + [(f"esp-{case.name}", lambda lab, folder, case=case: transport(lab, folder, case)) for case in TRANSPORT]
         + [("esp-replay", replay), ("esp-esn-rollover", rollover), ("esp-forged", forged), ("esp-rekey", rekey)])
