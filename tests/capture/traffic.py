"""Traffic between the two hosts of record.sh: real sockets where they will do, frames of our own where they will not."""

import fcntl
import os
import select
import socket
import struct
import sys
import threading
import time

UDP_PORT, TCP_PORT = 5000, 5001
IP_MTU_DISCOVER, IP_PMTUDISC_DONT, IP_PMTUDISC_DO, IP_PMTUDISC_PROBE = 10, 0, 2, 3
IPV6_MTU_DISCOVER = 23
GAP = 0.002


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def datagram_socket(target, source=None, device=None):
    s = socket.socket(family_of(target), socket.SOCK_DGRAM)
    s.settimeout(0.5)
    if device:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    if source:
        s.bind((source, 0))
    return s


def discover(s, how):
    if s.family == socket.AF_INET:
        s.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, how)
    else:
        s.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, how)


def payload(length):
    return bytes(i * 7 % 251 for i in range(length))


def send(s, data, target, port=UDP_PORT):
    try:
        s.sendto(data, (target, port))
    except OSError:
        pass  # an error that an earlier packet brought back
    time.sleep(GAP)


def serve():
    """Echoes datagrams and streams."""

    def datagrams(family, address):
        s = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        discover(s, IP_PMTUDISC_DONT)
        s.bind((address, UDP_PORT))
        while True:
            data, peer = s.recvfrom(65536)
            try:
                s.sendto(data, peer)
            except OSError:
                pass

    def streams(family, address):
        s = socket.socket(family, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((address, TCP_PORT))
        s.listen()
        while True:
            connection, _ = s.accept()
            while data := connection.recv(65536):
                connection.sendall(data)
            connection.close()

    for target in (datagrams, streams):
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            threading.Thread(target=target, args=(family, address), daemon=True).start()
    time.sleep(55)


def stream(target, octets, source=None, device=None):
    s = socket.socket(family_of(target), socket.SOCK_STREAM)
    s.settimeout(5)
    if device:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    if source:
        s.bind((source, 0))
    s.connect((target, TCP_PORT))
    s.sendall(payload(octets))
    s.shutdown(socket.SHUT_WR)
    got = 0
    while data := s.recv(65536):
        got += len(data)
    assert got == octets, got


def exchange(target, octets, source=None, device=None):
    """Datagrams of several lengths and a stream, echoed; a connection that is refused."""
    s = datagram_socket(target, source, device)
    for length in (0, 1, 100, 1200):
        send(s, payload(length), target)
        s.recv(65536)
    stream(target, octets, source, device)
    refused = socket.socket(family_of(target), socket.SOCK_STREAM)
    refused.settimeout(2)
    try:
        refused.connect((target, 9))
    except OSError:
        pass
    send(datagram_socket(target, source, device), b"nobody", target, 9)


def hops(target):
    """As traceroute: datagrams and TCP segments that live for one, two and three hops."""
    level, option = (
        (socket.IPPROTO_IP, socket.IP_TTL)
        if family_of(target) == socket.AF_INET
        else (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS)
    )
    for ttl in (1, 2, 3):
        for length in (0, 32, 1400):
            s = datagram_socket(target)
            s.setsockopt(level, option, ttl)
            send(s, payload(length), target, 33434 + ttl)
    s = socket.socket(family_of(target), socket.SOCK_STREAM)
    s.settimeout(0.2)
    s.setsockopt(level, option, 1)
    try:
        s.connect((target, TCP_PORT))
    except OSError:
        pass


def datagrams(target, count):
    for length in range(count):
        send(datagram_socket(target), payload(length * 100), target, 4000)


def fragile(target):
    """Datagrams longer than the next link: may be fragmented, and may not."""
    for how in (IP_PMTUDISC_DONT, IP_PMTUDISC_PROBE):
        for length in (1200, 1252, 1253, 1260, 1300, 1400, 1452):
            s = datagram_socket(target)
            discover(s, how)
            send(s, payload(length), target, 4000)


def large(target):
    """Datagrams that the host itself fragments."""
    for length in (10000,):
        s = datagram_socket(target)
        discover(s, IP_PMTUDISC_DONT)
        send(s, payload(length), target, 4000)


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(**changed):
    """A datagram; whatever is named is as the caller wants it, right or wrong."""
    field = dict(version=4, tos=0, id=0x1234, flags=0, ttl=64, protocol=17, source="10.1.0.2", to="10.2.0.2", options=b"",
                 data=None, length=None, ihl=None, sum=None)
    field.update(changed)
    f = field
    data = f["data"] if f["data"] is not None else struct.pack("!HHHH", 4000, 4000, 8 + 24, 0) + payload(24)
    options = f["options"]
    ihl = f["ihl"] if f["ihl"] is not None else 5 + len(options) // 4
    length = f["length"] if f["length"] is not None else 20 + len(options) + len(data)
    header = struct.pack("!BBHHHBBH4s4s", f["version"] << 4 | ihl, f["tos"], length, f["id"], f["flags"], f["ttl"],
                         f["protocol"], 0, socket.inet_aton(f["source"]), socket.inet_aton(f["to"])) + options
    right = checksum(header)
    header = header[:10] + struct.pack("!H", right if f["sum"] is None else f["sum"]) + header[12:]
    return header + data


def ipv6(**changed):
    f = dict(first=0x60000000, length=None, next=17, hops=64, source="2001:db8:1::2", to="2001:db8:2::2", data=None)
    f.update(changed)
    source, to = (socket.inet_pton(socket.AF_INET6, f[key]) for key in ("source", "to"))
    data = f["data"]
    if data is None:
        body = payload(24)
        udp = struct.pack("!HHHH", 4000, 4000, 8 + len(body), 0) + body
        sum_ = checksum(source + to + struct.pack("!IHBB", len(udp), 0, 0, 17) + udp)
        data = udp[:6] + struct.pack("!H", sum_ or 0xFFFF) + udp[8:]
    length = f["length"] if f["length"] is not None else len(data)
    return struct.pack("!IHBB", f["first"], length, f["next"], f["hops"]) + source + to + data


def crafted(device):
    """What no well-behaved host sends, and what only few do."""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind((device, 0))
    gate, own = bytes.fromhex("020000000a01"), bytes.fromhex("020000000a02")

    def frame(packet, ethertype=None, to=gate):
        if ethertype is None:
            ethertype = 0x0800 if packet[0] >> 4 == 4 else 0x86DD
        octets = to + own + struct.pack("!H", ethertype) + packet
        # As a network card does: no frame is shorter than 60 octets.
        s.send(octets.ljust(60, b"\0"))
        time.sleep(GAP)

    udp = struct.pack("!HHHH", 4000, 4000, 8, 0)
    # Well-formed and unusual.
    frame(ipv4())
    frame(ipv4(data=udp))
    frame(ipv4(tos=0xB8))
    frame(ipv4(protocol=253, data=b"experiment"))
    frame(ipv4(protocol=132, data=bytes(12)))
    frame(ipv4(data=b""))
    frame(ipv4(flags=0x2000, data=udp))
    frame(ipv4(flags=0x0003, data=payload(16)))
    frame(ipv4(flags=0x4000))
    frame(ipv4(ttl=255))
    frame(ipv4(ttl=2))
    frame(ipv4(options=b"\x01\x01\x01\x00"))
    frame(ipv4(options=b"\x94\x04\x00\x00"))
    frame(ipv4(options=b"\x82\x0b" + bytes(9) + b"\x00"))
    frame(ipv6())
    frame(ipv6(first=0x6B812345))
    frame(ipv6(hops=2))
    frame(ipv6(next=59, data=b""))
    frame(ipv6(next=253, data=b"experiment"))
    frame(ipv6(next=60, data=b"\x11\x00\x01\x04\0\0\0\0" + ipv6()[40:]))
    frame(ipv6(next=0, data=b"\x11\x00\x01\x04\0\0\0\0" + ipv6()[40:]))
    frame(ipv6(next=44, data=b"\x11\x00\x00\x01\0\0\0\x07" + ipv6()[40:72]))
    frame(ipv6(next=44, data=b"\x11\x00\x00\x20\0\0\0\x07" + payload(11)))
    frame(ipv6(next=43, data=b"\x11\x02\x02\x00\0\0\0\0" + bytes(16) + ipv6()[40:]))
    # Padding behind the packet.
    frame(ipv4() + b"padding" * 3)
    frame(ipv6() + b"padding" * 3)
    # The end of their lives; with errors about errors.
    frame(ipv4(ttl=1))
    frame(ipv4(ttl=0))
    frame(ipv6(hops=1))
    frame(ipv6(hops=0))
    error4 = struct.pack("!BBHI", 3, 1, 0, 0) + ipv4()[:28]
    error4 = error4[:2] + struct.pack("!H", checksum(error4)) + error4[4:]
    frame(ipv4(ttl=1, protocol=1, data=error4))
    frame(ipv4(ttl=1, flags=0x0003, data=payload(16)))
    frame(ipv6(hops=1, next=58, data=b"\x01\0\0\0" + bytes(4) + ipv6()[:48]))
    # Malformed headers.
    frame(ipv4(sum=0x1234))
    frame(ipv4(version=5), 0x0800)
    frame(ipv4(ihl=4))
    frame(ipv4(ihl=15, data=b""))
    frame(ipv4(length=19))
    frame(ipv4(length=200))
    frame(ipv4()[:12])
    frame(ipv6(first=0x50000000), 0x86DD)
    frame(ipv6(length=200))
    frame(ipv6()[:20])
    frame(ipv4(), 0x86DD)
    frame(ipv6(), 0x0800)
    # Options that cannot be, and routes that the source wants.
    frame(ipv4(options=b"\x07\x02\x04\x00"))
    frame(ipv4(options=b"\x94\x09\x00\x00"))
    frame(ipv4(options=b"\x83\x07\x04\x0a\x02\x00\x02\x00"))
    frame(ipv4(options=b"\x89\x07\x04\x0a\x02\x00\x02\x00"))
    # Addresses that nobody has.
    for source in ("127.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "240.0.0.1"):
        frame(ipv4(source=source))
    for to in ("127.0.0.1", "240.0.0.1", "0.0.0.0"):
        frame(ipv4(to=to))
    for source in ("::", "::1", "ff02::1", "fe80::1"):
        frame(ipv6(source=source))
    for to in ("::", "::1", "fe80::1"):
        frame(ipv6(to=to))
    # Groups and broadcasts, of either layer.
    frame(ipv4(to="255.255.255.255"), to=b"\xff" * 6)
    frame(ipv4(to="10.2.0.255"))
    frame(ipv4(to="10.2.0.0"))
    frame(ipv4(to="10.1.0.255"))
    frame(ipv4(to="239.1.2.3"), to=bytes.fromhex("01005e010203"))
    frame(ipv6(to="ff0e::1234"), to=bytes.fromhex("333300001234"))
    frame(ipv4(), to=b"\xff" * 6)
    frame(ipv6(), to=bytes.fromhex("333300000001"))
    frame(ipv4(), to=bytes.fromhex("020000000aff"))
    # Other protocols.
    frame(b"\xde\xad" * 20, 0x88B5)


def tags(device, mac):
    """VLANs of a device: a tap device for each, whose frames are tagged on their way to the device."""
    vlans = {f"{device}.7": b"\x81\x00\x00\x07", f"{device}.200": b"\x88\xa8\x00\x64\x81\x00\x00\xc8"}
    TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
    SIOCSIFHWADDR, ARPHRD_ETHER = 0x8924, 1
    SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING, TP_STATUS_VLAN_VALID = 263, 8, 23, 1 << 4

    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    link.bind((device, 3))
    link.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    link.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    taps = {}
    for name, tag in vlans.items():
        tap = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        address = struct.pack("16sH6s16x", name.encode(), ARPHRD_ETHER, bytes.fromhex(mac.replace(":", "")))
        fcntl.ioctl(link, SIOCSIFHWADDR, address)
        taps[tap] = tag
    while True:
        ready, _, _ = select.select([link, *taps], [], [])
        for source in ready:
            if source is link:
                frame, control, _, _ = link.recvmsg(65536, 64)
                # The kernel takes the outer tag off and tells it beside the frame.
                for _, kind, data in control:
                    status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data[:20])
                    if kind == PACKET_AUXDATA and status & TP_STATUS_VLAN_VALID:
                        frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
                for tap, tag in taps.items():
                    if frame[12 : 12 + len(tag)] == tag:
                        os.write(tap, frame[:12] + frame[12 + len(tag) :])
            else:
                frame = os.read(source, 65536)
                link.send(frame[:12] + taps[source] + frame[12:])


if __name__ == "__main__":
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "serve":
        serve()
    elif what == "exchange":
        exchange(arguments[0], int(arguments[1]))
    elif what == "bound":
        exchange(arguments[2], 5000, arguments[1], arguments[0])
    elif what == "hops":
        hops(arguments[0])
    elif what == "datagrams":
        datagrams(arguments[0], int(arguments[1]))
    elif what == "fragile":
        fragile(arguments[0])
    elif what == "large":
        large(arguments[0])
    elif what == "tags":
        tags(arguments[0], arguments[1])
    elif what == "crafted":
        crafted(arguments[0])
    else:
        sys.exit(f"no traffic {what}")
