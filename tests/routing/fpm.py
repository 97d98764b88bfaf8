"""Plays a forwarding plane manager: routes of many prefixes as netlink messages over TCP. Or writes the same into the kernel.

    fpm.py ADDRESS PORT COUNT DEVICE GATEWAY [DEVICE GATEWAY]…
    fpm.py kernel - COUNT DEVICE GATEWAY [DEVICE GATEWAY]…

Sends routes of COUNT prefixes, each with all these paths, then the end of the list. Keeps the connection until standard input ends. The
prefixes are of IPv4 or of IPv6, as the gateways are.
"""
import socket
import struct
import sys

NEWROUTE, DONE, UNICAST, BGP = 24, 3, 1, 186


def attribute(kind, value):
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind, body):
    """Returns a netlink message in a frame of the protocol."""
    netlink = bare(kind, body)
    return struct.pack(">BBH", 1, 1, 4 + len(netlink)) + netlink


def bare(kind, body):
    """Returns a netlink message: a request to create or replace something."""
    return struct.pack("IHHII", 16 + len(body), kind, 0x501, 0, 0) + body


def prefix6(number):
    """Returns a prefix of IPv6 and its length: /48."""
    return ((0x2A00_0000_0000 + number) << 80).to_bytes(16, "big"), 48


def prefix(number):
    """Returns a prefix and its length: first a million of /24, of which the first are those of the providers, then /32."""
    if number >= 1_000_000:
        return (0xB000_0000 + number).to_bytes(4, "big"), 32
    return bytes([10 + (number + (128 << 8) >> 16) * 2, number + (128 << 8) >> 8 & 255, number & 255, 0]), 24


def routes(numbers, ways, message=message, family=socket.AF_INET):
    """Returns the messages of routes over these ways."""
    for number in numbers:
        address, length = prefix(number) if family == socket.AF_INET else prefix6(number)
        header = struct.pack("BBBBBBBBI", family, length, 0, 0, 254, BGP, 0, UNICAST, 0)
        yield message(NEWROUTE, header + attribute(1, address) + ways)


def family_of(words):
    return socket.AF_INET6 if ":" in words[1] else socket.AF_INET


def paths(words):
    family = family_of(words)
    pairs = [(int(device), socket.inet_pton(family, gateway)) for device, gateway in zip(words[::2], words[1::2])]
    if len(pairs) == 1:
        return attribute(5, pairs[0][1]) + attribute(4, struct.pack("I", pairs[0][0]))
    hops = b""
    for device, gateway in pairs:
        own = attribute(5, gateway)
        hops += struct.pack("HBBI", 8 + len(own), 0, 0, device) + own
    return attribute(9, hops)


def into_kernel(count, ways, family):
    """Writes the routes into the kernel, some hundred a call. The kernel handles them before the call returns."""
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    print("ready", flush=True)
    sys.stdin.readline()
    for first in range(0, count, 500):
        netlink.send(b"".join(routes(range(first, min(count, first + 500)), ways, bare, family)))
    netlink.setblocking(False)
    try:
        # Only errors are answered.
        kind, _, error = struct.unpack_from("HHxxxxxxxxi", netlink.recv(65536), 4)
        sys.exit(f"the kernel answers with a message of type {kind}, error {error}")
    except BlockingIOError:
        print("sent", flush=True)


def main():
    if sys.argv[1] == "kernel":
        return into_kernel(int(sys.argv[3]), paths(sys.argv[4:]), family_of(sys.argv[4:]))
    address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ways, family = paths(sys.argv[4:]), family_of(sys.argv[4:])
    # A million is made beforehand, so that only the gateway's time counts.
    everything = b"".join(routes(range(min(count, 1_000_000)), ways, family=family))
    with socket.create_connection((address, port)) as connection:
        print("ready", flush=True)
        sys.stdin.readline()
        connection.sendall(everything)
        for first in range(1_000_000, count, 50_000):
            connection.sendall(b"".join(routes(range(first, min(count, first + 50_000)), ways, family=family)))
        connection.sendall(message(DONE, bytes(4)))
        print("sent", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
