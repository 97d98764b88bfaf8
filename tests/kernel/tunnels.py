"""Cases of tunnels: the other end is a device of the virtual machine's kernel, in clear and under ESP in both modes."""
import os

from esp import ECHO, HOST, OUTER, Esp, counted, gateway, sealed, spare_discovery
from lab import Capture, Packet, Weir, expect, guest_ping, learn_mtu, ping, transfer

GUEST = {4: "10.9.0.2", 6: "2001:db8:9::2"}


class Tunnel:
    """A tunnel at both ends. `device` and `before` are commands of `ip` with {local} and {remote} of the guest; `octets` is the
    length of the headers in front of an inner packet; `protocol` is that of the outer packet."""

    def __init__(self, name, kind, device, octets, protocol, outer=4, inner=(4, 6), more="", before=()):
        self.name, self.kind, self.device, self.octets, self.protocol = name, kind, device, octets, protocol
        self.outer, self.inner, self.more, self.before = outer, inner, more, before
        self.local, self.remote = OUTER[outer]

    def interface(self):
        """Returns the interface of weir."""
        return f"""[[interface]]
name = "t0"
port = {{ {self.kind} = {{ local = "{self.local}", remote = "{self.remote}"{self.more} }} }}
address = ["10.9.0.1/24", "2001:db8:9::1/64"]
"""

    def make(self, guest, weir):
        """Makes the guest's device, with addresses and routes to the host."""
        for command in self.before:
            guest(command)
        device = self.device.format(local=self.remote, remote=self.local)
        guest.ip(f"link add t0 type {device}")
        if self.kind in ("vxlan", "geneve"):
            # The kernel does not know how much a path of IPv6 or ESP leaves. The others begin with what is left.
            mtu = next(interface["mtu"] for interface in weir.show("interfaces")["interfaces"] if interface["name"] == "t0")
            guest.ip(f"link set t0 mtu {mtu}")
        guest.ip("address add 10.9.0.2/24 dev t0",
                 "address add 2001:db8:9::2/64 dev t0 nodad", "link set t0 up",
                 "route add 10.1.0.0/24 via 10.9.0.1 dev t0 src 10.9.0.2",
                 "route add 2001:db8:1::/64 via 2001:db8:9::1 dev t0")


def outside(frames, protocol):
    """Holds frames to have the outer protocol; returns their packets."""
    packets = [packet for packet in (Packet(frame) for _, frame in frames) if not packet.of_link()]
    for packet in packets:
        # 60: the destination option of LIMITED.
        expect(packet.fragment or packet.protocol in (protocol, 60), f"it is not of the tunnel: {packet.octets.hex()}")
    return packets


def through(lab, folder, tunnel, esp=None):
    guest = lab.guest
    if esp:
        config = esp.config(folder, [f"protect ip{tunnel.outer} from {tunnel.local} to {tunnel.remote} sa peer"],
                            tunnel.interface())
    else:
        config = gateway(tunnel.interface())
    if esp:
        # First, as weir announces its addresses in tunnels of frames.
        esp.guest_states(guest)
        spare_discovery(guest, esp)
        width = 32 if tunnel.outer == 4 else 128
        esp.guest_policies(guest, [(f"{tunnel.remote}/{width}", f"{tunnel.local}/{width}")])
    weir = Weir(lab, config, folder)
    try:
        # Last, as the kernel sends multicasts by a new device.
        tunnel.make(guest, weir)
        capture = Capture(lab.gate, "wan", os.path.join(folder, "wan.pcap"))
        notes = []
        for family in tunnel.inner:
            mtu = learn_mtu(lab.host, GUEST[family], ECHO[family])
            if not esp:
                expect(mtu == 1500 - tunnel.octets, f"an MTU of {mtu} is reported")
            ping(lab.host, GUEST[family], 0)
            # DSCP 46 with ECT(1).
            ping(lab.host, GUEST[family], 1000, more=("-Q", "0xb9"))
            if family == 4:
                ping(lab.host, GUEST[family], 3000)
            guest_ping(guest, HOST[family])
            guest_ping(guest, HOST[family], 1000)
            guest_ping(guest, HOST[family], 3000)
            seconds = transfer(lab.host, GUEST[family])
            notes.append(f"v{family}: MTU {mtu}, TCP {seconds:.1f} s")
        packets = sealed(capture.stop(), esp.encap) if esp else outside(capture.stop(), tunnel.protocol)
        longest = max(packet.length for packet in packets)
        expect(1484 < longest <= 1500, f"the longest outer packet has {longest} octets")
        ours = [packet for packet in packets if packet.source in (tunnel.local, address(tunnel.local))]
        marked = [packet for packet in ours if packet.tos == 0xb9]
        expect(len(marked) == 3 * len(tunnel.inner), f"{len(marked)} outer packets have DSCP and ECN of the inner packets")
        fragments = sum(packet.fragment for packet in ours)
        expect(not fragments, f"weir sent {fragments} fragments of outer packets")
        if esp:
            counted(lab, weir)
        drops = {reason: count for reason, count in weir.drops().items() if reason.startswith(("tunnel-", "offload"))}
        expect(not drops, f"weir drops: {drops}")
        shown = weir.show("tunnels")["tunnels"][0]
        out, into = shown["out-packets"], shown["in-packets"]
        expect(shown["refused"] == 0 and out > 100 and into > 100, f"weir counts {shown}")
        return f"{out} out, {into} in; {', '.join(notes)}"
    finally:
        weir.end(check=False)


def address(text):
    """Returns an IPv6 address as `Packet` has it."""
    import ipaddress
    return ipaddress.ip_address(text).packed.hex()


ENDS = "local {local} remote {remote}"
GUE = ("ip fou add port 6080 gue",)
GUE6 = ("ip fou add port 6080 gue -6",)
ENCAP = "encap gue encap-sport auto encap-dport 6080"
DIRECT = "encap fou encap-sport auto encap-dport 6080"

TUNNELS = [
    Tunnel("gre-4", "gre", f"gre {ENDS}", 24, 47),
    Tunnel("gre-4-key", "gre", f"gre {ENDS} key 7", 28, 47, more=", key = 7"),
    Tunnel("gre-4-key-csum", "gre", f"gre {ENDS} key 7 csum", 32, 47, more=", key = 7, checksum = true"),
    Tunnel("gre-4-seq", "gre", f"gre {ENDS} key 7 oseq", 28, 47, more=", key = 7"),
    Tunnel("gre-6", "gre", f"ip6gre {ENDS} encaplimit none", 44, 47, outer=6),
    Tunnel("gre-6-key-csum", "gre", f"ip6gre {ENDS} key 7 csum encaplimit none", 52, 47, outer=6,
           more=", key = 7, checksum = true"),
    Tunnel("ipip-4in4", "ipip", f"ipip {ENDS}", 20, 4, inner=(4,)),
    Tunnel("ipip-6in4", "ipip", f"sit {ENDS}", 20, 41, inner=(6,)),
    Tunnel("ipip-4in6", "ipip", f"ip6tnl mode ipip6 {ENDS} encaplimit none", 40, 4, outer=6, inner=(4,)),
    Tunnel("ipip-6in6", "ipip", f"ip6tnl mode ip6ip6 {ENDS} encaplimit none", 40, 41, outer=6, inner=(6,)),
    Tunnel("vxlan-4", "vxlan", f"vxlan id 7 {ENDS} dstport 4789", 50, 17, more=", vni = 7"),
    Tunnel("vxlan-6", "vxlan", f"vxlan id 7 {ENDS} dstport 4789", 70, 17, outer=6, more=", vni = 7"),
    Tunnel("vxlan-6-zero", "vxlan", f"vxlan id 7 {ENDS} dstport 4789 udp6zerocsumtx udp6zerocsumrx", 70, 17, outer=6,
           more=", vni = 7, zero-checksum = true"),
    Tunnel("geneve-4", "geneve", "geneve id 7 remote {remote}", 50, 17, more=", vni = 7"),
    Tunnel("geneve-4-df", "geneve", "geneve id 7 remote {remote} df set", 50, 17, more=", vni = 7, df = \"set\""),
    Tunnel("geneve-6", "geneve", "geneve id 7 remote {remote}", 70, 17, outer=6, more=", vni = 7"),
    Tunnel("geneve-6-zero", "geneve", "geneve id 7 remote {remote} udp6zerocsumtx udp6zerocsumrx", 70, 17, outer=6,
           more=", vni = 7, zero-checksum = true"),
    Tunnel("gue-4in4", "gue", f"ipip {ENDS} {ENCAP}", 32, 17, inner=(4,), before=GUE),
    Tunnel("gue-6in4", "gue", f"sit {ENDS} {ENCAP}", 32, 17, inner=(6,), before=GUE),
    Tunnel("gue-in6", "gue", f"ip6tnl mode any {ENDS} encaplimit none {ENCAP}", 52, 17, outer=6, before=GUE6),
    Tunnel("gue-direct-4in4", "gue", f"ipip {ENDS} {DIRECT}", 28, 17, inner=(4,), before=GUE, more=", direct = true"),
    Tunnel("gue-direct-6in4", "gue", f"sit {ENDS} {DIRECT}", 28, 17, inner=(6,), before=GUE, more=", direct = true"),
    Tunnel("gue-direct-in6", "gue", f"ip6tnl mode any {ENDS} encaplimit none {DIRECT}", 48, 17, outer=6, before=GUE6,
           more=", direct = true"),
]

# The device's default: a destination option with a limit of encapsulations (RFC 2473, 5.1) in front of the inner packet.
LIMITED = [
    Tunnel("gre-6-encaplimit", "gre", f"ip6gre {ENDS}", 44, 47, outer=6),
    Tunnel("ipip-6in6-encaplimit", "ipip", f"ip6tnl mode ip6ip6 {ENDS}", 40, 41, outer=6, inner=(6,)),
]

PROTECTED = ["gre-4-key", "gre-6", "ipip-4in4", "ipip-6in4", "ipip-4in6", "ipip-6in6", "vxlan-4", "vxlan-6", "geneve-4",
             "geneve-6", "gue-4in4", "gue-in6"]


def clear(tunnel):
    return lambda lab, folder: through(lab, folder, tunnel)


# Tunnels inside ESP in tunnel mode: three IP headers.
NESTED = ["gre-4-key", "gre-6", "ipip-4in4", "vxlan-4"]


def protected(tunnel, encap=False, mode="transport"):
    def case(lab, folder):
        return through(lab, folder, tunnel, Esp("esp", mode=mode, outer=tunnel.outer, encap=encap, window=1024))
    return case


CASES = ([(f"tunnel-{tunnel.name}", clear(tunnel)) for tunnel in TUNNELS + LIMITED]
         + [(f"tunnel-{tunnel.name}-esp", protected(tunnel)) for tunnel in TUNNELS if tunnel.name in PROTECTED]
         + [(f"tunnel-{tunnel.name}-esp-tunnel", protected(tunnel, mode="tunnel")) for tunnel in TUNNELS
            if tunnel.name in NESTED]
         + [(f"tunnel-{tunnel.name}-esp-udp", protected(tunnel, True)) for tunnel in TUNNELS
            if tunnel.name in ("gre-4-key", "vxlan-6")])
