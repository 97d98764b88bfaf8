"""Cases of VLAN tags: a bridge of weir whose ports push, pop and translate them, and routed VLAN interfaces. The other end of each is
a VLAN device of the virtual machine's kernel."""
import os

from lab import Capture, Weir, expect, guest_ping, ping, transfer

# Room for two tags.
MTU = 1508
HOST = {4: "10.1.0.2", 6: "2001:db8:1::2"}
# The service tag of 802.1ad around the customer's one.
SINGLE, DOUBLE, OTHER = ["8100.10"], ["88a8.200", "8100.7"], ["8100.20"]


def interface(name, parent=None, tags=(), addresses=()):
    """Returns an interface of weir: a port, or a VLAN interface on one."""
    text = f'[[interface]]\nname = "{name}"\n'
    if parent:
        numbers = [tag.split(".")[1] for tag in tags]
        vlan = numbers[0] if len(numbers) == 1 else f"{{ outer = {numbers[0]}, inner = {numbers[1]} }}"
        text += f'parent = "{parent}"\nvlan = {vlan}\n'
    else:
        text += f'port = {{ af-packet = "{name}" }}\n'
    if addresses:
        text += f"address = [{', '.join(chr(34) + address + chr(34) for address in addresses)}]\n"
    return text


def bridge(*ports):
    return f"[bridge.lan]\ninterfaces = [{', '.join(chr(34) + port + chr(34) for port in ports)}]\n"


def device(tags, number, space=None):
    """Commands of a shell for the guest: VLAN devices with these tags, the innermost of which is in a network namespace, if one is named,
    and has addresses with this last number. The others have no IPv6, and say nothing by themselves."""
    parent, commands = "eth0", []
    for tag in tags:
        commands += [f"echo 1 >/proc/sys/net/ipv6/conf/{parent}/disable_ipv6"]
        kind, identifier = tag.split(".")
        name = f"v{identifier}"
        protocol = "802.1ad" if kind == "88a8" else "802.1Q"
        commands += [f"ip link add link {parent} name {name} type vlan id {identifier} protocol {protocol}"]
        parent = name
        if tag != tags[-1]:
            commands += [f"ip link set {name} up"]
    # VLAN devices have the address of their parent; stations of one bridge have addresses of their own.
    commands += [f"ip link set {parent} address 02:00:00:00:01:{number:02x}"]
    within = f"ip -netns {space}" if space else "ip"
    if space:
        commands += [f"ip link set {parent} netns {space}"]
    return commands + [f"{within} link set {parent} mtu 1500 up", f"{within} address add 10.1.0.{number}/24 dev {parent}",
                       f"{within} address add 2001:db8:1::{number}/64 dev {parent} nodad"]


def tags_of(frame):
    """Returns the tags of a frame, outermost first."""
    found, at = [], 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        found.append(f"{frame[at:at + 2].hex()}.{int.from_bytes(frame[at + 2:at + 4], 'big') & 0xfff}")
        at += 4
    return found


def make(lab, *devices):
    """Makes devices of the guest: pairs of tags and last numbers, each in a namespace of its own if there are several."""
    guest = lab.guest
    lab.gate.ip(f"link set wan mtu {MTU}")
    guest.ip(f"link set eth0 mtu {MTU}", "address flush dev eth0")
    for place, (tags, number) in enumerate(devices):
        space = f"s{place}" if len(devices) > 1 else None
        if space:
            guest(f"mkdir -p /var/run/netns; ip netns add {space}; ip -netns {space} link set lo up")
        for command in device(tags, number, space):
            guest(command)


def unmake(lab):
    """Removes namespaces and devices of the guest."""
    lab.guest("ip netns delete s0; ip netns delete s1; for v in v10 v20 v200; do ip link delete $v; done; true", check=False)
    lab.guest("ip link set eth0 mtu 1500; echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6", check=False)
    lab.gate.ip("link set wan mtu 1500")


def held(frames, *wanted):
    """Holds frames to have the tags of one of the lists, and each list to be there."""
    seen = {tuple(tags_of(frame)) for _, frame in frames}
    expect(seen == {tuple(tags) for tags in wanted}, f"tags of frames: {sorted(seen)}")


def carry(lab, number):
    """Pings of the host and of the guest in both families, whole and in fragments, and TCP."""
    for family in (4, 6):
        there = f"10.1.0.{number}" if family == 4 else f"2001:db8:1::{number}"
        for size in (0, 1000, 1452, 3000):
            ping(lab.host, there, size)
        for size in (56, 1452, 3000):
            guest_ping(lab.guest, HOST[family], size)
        transfer(lab.host, there)


def with_host(tags):
    """A station of the host, without tags, and one of the guest behind tags."""
    def case(lab, folder):
        make(lab, (tags, 9))
        config = "version = 1\n" + interface("lan") + interface("wan") + interface("tagged", "wan", tags)
        weir = Weir(lab, config + bridge("lan", "tagged"), folder)
        try:
            captures = [Capture(lab.gate, device, os.path.join(folder, f"{device}.pcap"), "not icmp6 or icmp6[0] = 128")
                        for device in ("lan", "wan")]
            carry(lab, 9)
            bare, tagged = (capture.stop() for capture in captures)
            held(bare, [])
            held(tagged, tags)
            return f"{len(tagged)} frames with {' '.join(tags)}, {len(bare)} without"
        finally:
            weir.end(check=False)
            unmake(lab)
    return case


def between(one, two):
    """Two stations of the guest behind different tags, in namespaces of their own."""
    def case(lab, folder):
        make(lab, (one, 8), (two, 9))
        config = "version = 1\n" + interface("wan") + interface("one", "wan", one) + interface("two", "wan", two)
        weir = Weir(lab, config + bridge("one", "two"), folder)
        try:
            capture = Capture(lab.gate, "wan", os.path.join(folder, "wan.pcap"), "")
            for family, there in ((4, "10.1.0.9"), (6, "2001:db8:1::9")):
                for size in (0, 1000, 1452, 3000):
                    words = f"ip netns exec s0 ping -n -c 3 -i 0.2 -W 2 -s {size} {there}"
                    output = lab.guest(words, check=False)
                    expect(" 3 received" in output, f"`{words}`: {output.strip()}")
            frames = capture.stop()
            held(frames, one, two)
            return f"{len(frames)} frames with {' '.join(one)} and {' '.join(two)}"
        finally:
            weir.end(check=False)
            unmake(lab)
    return case


def routed(tags):
    """A VLAN interface with addresses: the guest has the other network of it."""
    def case(lab, folder):
        make(lab, (tags, 9))
        guest = lab.guest
        name = f"v{tags[-1].split('.')[1]}"
        guest(f"ip address flush dev {name}")
        guest.ip(f"address add 10.9.0.2/24 dev {name}", f"address add 2001:db8:9::2/64 dev {name} nodad",
                 "route add 10.1.0.0/24 via 10.9.0.1", "route add 2001:db8:1::/64 via 2001:db8:9::1")
        config = ("version = 1\n" + interface("lan", addresses=("10.1.0.1/24", "2001:db8:1::1/64")) + interface("wan")
                  + interface("tagged", "wan", tags, ("10.9.0.1/24", "2001:db8:9::1/64")))
        weir = Weir(lab, config, folder)
        try:
            capture = Capture(lab.gate, "wan", os.path.join(folder, "wan.pcap"), "")
            for family, there in ((4, "10.9.0.2"), (6, "2001:db8:9::2")):
                for size in (0, 1452, 3000):
                    ping(lab.host, there, size)
                    guest_ping(guest, HOST[family], size)
                transfer(lab.host, there)
            frames = capture.stop()
            held(frames, tags)
            return f"{len(frames)} frames with {' '.join(tags)}"
        finally:
            weir.end(check=False)
            unmake(lab)
    return case


CASES = [
    ("vlan-push-pop", with_host(SINGLE)),
    ("vlan-push-pop-two", with_host(DOUBLE)),
    ("vlan-translate", between(SINGLE, OTHER)),
    ("vlan-translate-two-to-one", between(DOUBLE, OTHER)),
    ("vlan-routed", routed(SINGLE)),
    ("vlan-routed-two", routed(DOUBLE)),
]
