"""Namespaces around a gateway whose host runs a routing daemon: a customer, and two providers with the same prefixes.

    customer ── cust │ weir │ ispa ── wire ── provider a, AS 64501
      AS 64503       │      │ ispb ── wire ── provider b, AS 64502

With VRFs, provider b and a second customer, who has the addresses of the first, are in the VRF blue.

A wire is a bridge in a namespace of its own: it can stop to pass frames while the links at both ends stay up.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernel"))

from lab import Space, expect  # noqa: E402

PREFIXES = 1000
# The address of the echo servers, the same at both providers, in each of the first prefixes.
TARGETS = [f"10.{128 + n // 256}.{n % 256}.1" for n in range(8)]

LINKS = {
    "cust": ("192.0.2.1", "192.0.2.2"),
    "ispa": ("198.51.100.1", "198.51.100.2"),
    "ispb": ("203.0.113.1", "203.0.113.2"),
}

# The second customer.
BLUE = {"blue": ("192.0.3.1", "192.0.3.2")}
CUSTOMERS = ("cust", "blue")


def prefixes():
    """Returns the prefixes of the providers."""
    return [f"10.{128 + n // 256}.{n % 256}.0/24" for n in range(PREFIXES)]


class Network:
    """The namespaces, and devices between them."""

    def __init__(self, program, links=LINKS):
        self.program = os.path.abspath(program)
        self.spaces, self.links = {}, links
        try:
            self.build()
        except BaseException:
            self.close()
            raise

    def build(self):
        self.gate = self.space("gate")
        for name, (_, far) in self.links.items():
            far_space, wire = self.space(name), self.space(f"wire-{name}")
            wire.ip("link add name wire type bridge", "link set wire up")
            for space, device, end in [(self.gate, name, "near"), (far_space, "eth0", "far")]:
                space.ip(f"link add {device} type veth peer name {end} netns {wire.name}", f"link set {device} up")
                wire.ip(f"link set {end} master wire", f"link set {end} up")
            far_space.ip(f"address add {far}/24 dev eth0")
            far_space.set("net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.eth0.rp_filter=0")
            # The gateway's addresses are those of punt devices: the kernel takes nothing from the ports.
            self.gate.set(f"net.ipv4.conf.{name}.rp_filter=1", f"net.ipv6.conf.{name}.disable_ipv6=1")
            if name in CUSTOMERS:
                far_space.ip("address add 10.9.0.1/24 dev lo")
            else:
                for target in TARGETS:
                    far_space.ip(f"address add {target}/32 dev lo")
        self.gate.set("net.ipv4.conf.all.rp_filter=1")

    def space(self, label):
        self.spaces[label] = Space(label)
        return self.spaces[label]

    def cut(self, name, loud):
        """Cuts a link: with the carrier at both ends, or so that frames are lost and nobody sees it."""
        self.spaces[f"wire-{name}"].ip("link set near down" if loud else "link set wire down",
                                       *([] if loud else ["link set near nomaster"]))

    def mend(self, name):
        self.spaces[f"wire-{name}"].ip("link set near master wire", "link set near up", "link set wire up")

    def config(self, kernel="kernel = true", persistent=False, keys=None):
        """Returns weir's configuration; `keys` are further ones of interfaces."""
        text = "version = 1\n"
        for name, (near, _) in self.links.items():
            punt = f'{{ name = "{name}-host", persistent = true }}' if persistent else f'"{name}-host"'
            text += f'\n[[interface]]\nname = "{name}"\nport = {{ af-packet = "{name}" }}\naddress = "{near}/24"\npunt = {punt}\n'
            text += (keys or {}).get(name, "")
        return f"{text}\n[routes]\n{kernel}\n"

    def close(self):
        for space in self.spaces.values():
            space.remove()


def sources(weir):
    """Returns the states of weir's sources of routes, by their names."""
    # On a busy machine a line about the wait may stand before the answer.
    answer = weir.weir("show", "routes", "--limit", "0", "--json")[1]
    routes = json.loads(answer[answer.index("{"):].splitlines()[0])
    return {entry["source"]: entry for entry in routes["sources"]}


def counted(weir, source):
    """Returns the number of weir's routes of a source."""
    state = sources(weir).get(source)
    expect(state, f"weir has no source {source}")
    return state["routes"]
