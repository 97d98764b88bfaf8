"""Plays a forwarding plane manager: routes of many prefixes as netlink messages over TCP.

    fpm.py ADDRESS PORT COUNT DEVICE GATEWAY [DEVICE GATEWAY]…

Sends routes of COUNT prefixes, each with all these paths, then the end of the list. Keeps the connection until standard input ends.
"""
import socket
import struct
import sys

NEWROUTE, DONE, UNICAST, BGP = 24, 3, 1, 186


def attribute(kind, value):
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind, body):
    """Returns a netlink message in a frame of the protocol."""
    netlink = struct.pack("IHHII", 16 + len(body), kind, 0x500, 0, 0) + body
    return struct.pack(">BBH", 1, 1, 4 + len(netlink)) + netlink


def prefix(number):
    """Returns a prefix and its length: first a million of /24, of which the first are those of the providers, then /32."""
    if number >= 1_000_000:
        return (0xB000_0000 + number).to_bytes(4, "big"), 32
    return bytes([10 + (number + (128 << 8) >> 16) * 2, number + (128 << 8) >> 8 & 255, number & 255, 0]), 24


def routes(numbers, ways):
    """Returns the messages of routes over these ways."""
    for number in numbers:
        address, length = prefix(number)
        header = struct.pack("BBBBBBBBI", 2, length, 0, 0, 254, BGP, 0, UNICAST, 0)
        yield message(NEWROUTE, header + attribute(1, address) + ways)


def paths(words):
    pairs = [(int(device), socket.inet_aton(gateway)) for device, gateway in zip(words[::2], words[1::2])]
    if len(pairs) == 1:
        return attribute(5, pairs[0][1]) + attribute(4, struct.pack("I", pairs[0][0]))
    hops = b""
    for device, gateway in pairs:
        own = attribute(5, gateway)
        hops += struct.pack("HBBI", 8 + len(own), 0, 0, device) + own
    return attribute(9, hops)


def main():
    address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    ways = paths(sys.argv[4:])
    # A million is made beforehand, so that only the gateway's time counts.
    everything = b"".join(routes(range(min(count, 1_000_000)), ways))
    with socket.create_connection((address, port)) as connection:
        print("ready", flush=True)
        sys.stdin.readline()
        connection.sendall(everything)
        for first in range(1_000_000, count, 50_000):
            connection.sendall(b"".join(routes(range(first, min(count, first + 50_000)), ways)))
        connection.sendall(message(DONE, bytes(4)))
        print("sent", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
