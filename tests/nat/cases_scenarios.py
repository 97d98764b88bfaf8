"""Scenarios of VPP's tests of nat44-ed that other cases have not: README.md lists all of them."""
from case import DMZ, LAN, WAN, Case, Var, reply
from packet import ACK, FIN, GRE, SYN, Packet, Part, echo, tcp, udp

A, B, C, WEB = "10.0.0.5", "10.0.0.6", "10.1.0.7", "10.0.0.9"
R = "8.8.8.8"
OUT, MAPPED = "198.51.100.1", "198.51.100.80"
HIGH = range(1024, 65536)
MASQUERADE = "source ip4 from 10.0.0.0/8 to any as interface"


def hairpin_fragments():
    """Fragments of a packet that goes back inside, in order and with the last one first."""
    for order in ((0, 1, 2), (2, 0, 1)):
        c = Case(f"hairpin-fragments-{order[0]}", ["destination udp from any to interface port 80 as 10.0.0.9 port 8080", MASQUERADE])
        x = Var("p", HIGH)
        c.both(DMZ, udp(C, OUT, 5000, 80), LAN, udp(OUT, WEB, x, 8080), note="binds the port")
        p, q = udp(C, OUT, 5000, 80, b"f" * 600), udp(OUT, WEB, x, 8080, b"f" * 600)
        for i in order:
            c.go(DMZ, Part(p, 256, i), LAN, Part(q, 256, i))
        for i in range(3):
            c.go(LAN, Part(reply(q), 256, i), DMZ, Part(reply(p), 256, i), note="reply")
        yield c


def hairpin_protocols():
    """A protocol without ports goes back inside by a map."""
    c = Case("hairpin-protocols", [f"map ip4 from 10.0.0.80 to any as {MAPPED}", MASQUERADE], own=[f"{MAPPED}/32"])
    for proto in (GRE, 99):
        p = Packet(proto, C, MAPPED, data=b"\0\0\x08\0payload.")
        q = Packet(proto, OUT, "10.0.0.80", data=b"\0\0\x08\0payload.")
        c.go(DMZ, p, LAN, q)
        c.go(LAN, q.replace(src=q.dst, dst=q.src), DMZ, p.replace(src=p.dst, dst=p.src), note="reply")
    return c


def session(name):
    """A case with a translation, and a function that sends segments of it: from inside or not, with flags."""
    c = Case(name, [MASQUERADE])
    inside, outside = tcp(A, R, 4000, 80), tcp(OUT, R, Var("p", HIGH), 80)

    def send(*segments):
        for is_out, flags in segments:
            if is_out:
                c.go(LAN, inside.replace(flags=flags), WAN, outside.replace(flags=flags))
            else:
                c.go(WAN, reply(outside).replace(flags=flags), LAN, reply(inside).replace(flags=flags))
    return c, send


def close_simultaneous():
    """Both sides close before either has seen the other's FIN: the session ends two minutes after the last segment."""
    c, send = session("close-simultaneous")
    send((True, SYN), (False, SYN | ACK), (True, ACK), (True, FIN | ACK), (False, FIN | ACK), (False, ACK), (True, ACK))
    c.wait(115)
    send((False, ACK))
    c.wait(121)
    p = reply(tcp(OUT, R, c.steps[0].out[0][1].sport, 80)).replace(flags=ACK)
    c.gone(p, "it has ended")
    return c


def retransmitted():
    """A SYN with ACK that is sent again, before and after the ACK of the handshake, changes nothing."""
    for name, segments in (("before", ((True, SYN), (False, SYN | ACK), (False, SYN | ACK), (True, ACK))),
                           ("after", ((True, SYN), (False, SYN | ACK), (True, ACK), (False, SYN | ACK), (True, ACK)))):
        c, send = session(f"retransmitted-{name}")
        send(*segments)
        c.wait(4000)
        send((False, ACK), (True, ACK))
        yield c


class Trailed:
    """A packet in a frame with more octets than its header says."""

    def __init__(self, packet):
        self.packet = packet

    def octets(self):
        return self.packet.octets() + b"\xab" * 6

    def __str__(self):
        return f"{self.packet} and a trailer"


def trailer():
    """A trailer of the frame is no part of the packet: it neither stays nor counts for a checksum."""
    c = Case("trailer", [MASQUERADE])
    e, p = Var("e", range(65536)), Var("p", HIGH)
    for inside, outside in ((echo(A, R, 7), echo(OUT, R, e)), (udp(A, R, 4000, 53), udp(OUT, R, p, 53))):
        c.step(LAN, Trailed(inside), [(WAN, outside.replace(ttl=63))])
        c.step(WAN, Trailed(reply(outside)), [(LAN, reply(inside).replace(ttl=63))])
    return c


def cases():
    yield from (hairpin_protocols, close_simultaneous, trailer)
    for many in (hairpin_fragments, retransmitted):
        yield from (lambda c=c: c for c in many())
