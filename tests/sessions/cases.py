"""Cases by scenario: each says what has to become of its packets, so that it also tests the model."""
from case import DMZ, LAN, MS, WAN, Case, make_setup
from fields import AboutPart
from lists import IN, OUT, List, Rule
from packet import ACK, DCCP, ESP, FIN, ICMP, ICMP6, PSH, RST, SCTP, SYN, TCP, UDP, UDPLITE, Error, Packet, Part, Raw, echo, tcp, udp, wire

A, B, H, R, S = "10.0.0.5", "10.0.0.6", "10.1.0.5", "8.8.8.8", "9.9.9.9"
A6, R6 = "fd00:1::5", "2001:db8:9::8"
DENY, REJECT = "acl-deny", "acl-reject"


def edge(name, opens=("ip",), answers=(), names=(LAN, WAN), zones=None, timeouts=None, half_open=None, ingress=False, more=None, **keys):
    """A gateway whose lists at wan let connections begin inside, or outside with `ingress`. `answers`: rules for the other direction."""
    d, e = (IN, OUT) if ingress else (OUT, IN)
    lists = {(WAN, d): [List("opens", [r if isinstance(r, Rule) else Rule("permit+reflect", r) for r in opens], "deny")],
             (WAN, e): [List("answers", list(answers), "deny")], **(more or {})}
    setup = make_setup(names, lists, zones, timeouts=timeouts, half_open=half_open, **keys)
    return Case(name, setup, timeouts, half_open)


class Short(Packet):
    """A packet that ends behind `length` octets of its transport header, as its header says."""

    def __init__(self, length, p):
        self.__dict__.update(p.__dict__)
        self.length, self.cut = length, length + (40 if ":" in p.src else 20)

    def payload(self):
        return super().payload()[:self.length]


def back(p, **k):
    """Returns the packet in the other direction."""
    kinds = {8: 0, 13: 14, 15: 16, 17: 18, 128: 129}
    return p.replace(src=p.dst, dst=p.src, sport=p.sport if p.proto in (ICMP, ICMP6) else p.dport, dport=p.sport,
                     kind=kinds.get(p.kind, p.kind) if p.proto in (ICMP, ICMP6) else p.kind, **k)


def reflect():
    """The reply passes, an unrelated packet does not: each protocol, both families, on ingress and on egress."""
    for ingress in (False, True):
        c = edge(f"reflect-{'in' if ingress else 'out'}", ingress=ingress)
        near, far = (WAN, LAN) if ingress else (LAN, WAN)
        for a, b in (((R, A), (R6, A6)) if ingress else ((A, R), (A6, R6))):
            six = ":" in a
            packets = [Packet(proto, a, b, 1000, 53, b"data") for proto in (UDP, UDPLITE, SCTP, DCCP)]
            packets += [tcp(a, b, 1000, 80), echo(a, b, 7), Packet(47, a, b, data=b"\0\0\x08\0data"), Packet(89, a, b, data=b"\0\0\x08\0data")]
            if not six:
                packets += [Packet(ICMP, a, b, kind, data=b"data", kind=kind) for kind in (13, 15, 17)]
            for p in packets:
                c.send(far, back(p, flags=SYN | ACK), want=DENY, note="before its session")
                c.send(near, p, want=far, note="opens")
                c.send(far, back(p, flags=SYN | ACK), want=near, note="reply")
                c.send(near, p.replace(flags=ACK), want=far, note="further packet")
                if p.proto in (UDP, TCP, UDPLITE, SCTP, DCCP):
                    c.send(far, back(p).replace(sport=54), want=DENY, note="another port")
                    c.send(far, back(p).replace(dport=1001), want=DENY, note="another port")
                elif p.proto in (ICMP, ICMP6):
                    c.send(far, back(p).replace(sport=99), want=DENY, note="another identifier")
                    c.send(far, p.replace(src=p.dst, dst=p.src), want=DENY, note="a request is no reply")
                    if not six:
                        c.send(far, back(p).replace(kind=18 if p.kind != 17 else 0), want=DENY, note="another kind of reply")
                c.send(far, back(p).replace(src="9.9.9.9" if not six else "2001:db8:9::9") if not ingress else back(p).replace(src=B if not six else "fd00:1::6"),
                       want=DENY, note="another address")
        yield c


def opens_nothing():
    """Packets that `permit+reflect` permits without a session."""
    c = edge("opens-nothing")
    for p, answer in ((Packet(ESP, A, R, data=b"\0\0\1\0data"), Packet(ESP, R, A, data=b"\0\0\1\0data")),
                      (Packet(ICMP, A, R, 7, kind=0), Packet(ICMP, R, A, 7, kind=8)), (Packet(ICMP, A, R, 7, kind=5), Packet(ICMP, R, A, 7, kind=5)),
                      (Packet(ICMP, A, R, 7, kind=9), Packet(ICMP, R, A, 7, kind=9)), (Packet(ICMP6, A6, R6, 7, kind=129), Packet(ICMP6, R6, A6, 7, kind=128)),
                      (tcp(A, R, 1, 80, RST), tcp(R, A, 80, 1, ACK)), (tcp(A, R, 1, 80, SYN | FIN), tcp(R, A, 80, 1, SYN | ACK)),
                      (tcp(A, R, 1, 80, RST | ACK), tcp(R, A, 80, 1, ACK)), (Short(2, udp(A, R, 2, 53)), udp(R, A, 53, 2)),
                      (Short(4, Packet(ICMP, A, R, 9, kind=8)), Packet(ICMP, R, A, 9, kind=0))):
        c.send(LAN, p, want=WAN)
        c.send(WAN, answer, want=DENY)
    c.send(LAN, udp(A, "203.0.113.7", 5, 53), want="blackhole")
    c.send(WAN, udp("203.0.113.7", A, 53, 5), want=DENY, note="the first packet had no route")
    c.send(LAN, udp(A, "192.0.2.7", 5, 53), want="unreachable")
    c.send(WAN, udp("192.0.2.7", A, 53, 5), want=DENY)
    c.send(LAN, udp(A, R, 6, 53, ttl=1), want="ttl-expired")
    c.send(WAN, udp(R, A, 53, 6), want=DENY, note="the first packet's TTL was used up")
    return c


def pickup():
    """Packets in mid-stream open sessions, or are dropped."""
    for on in (True, False):
        c = edge(f"pickup-{'on' if on else 'off'}", pickup=on)
        for n, flags in enumerate((ACK, SYN | ACK, FIN | ACK, PSH | ACK, 0)):
            c.send(LAN, tcp(A, R, n, 80, flags), want=WAN if on else "session-pickup")
            c.send(WAN, tcp(R, A, 80, n, ACK), want=LAN if on else DENY)
        c.send(LAN, tcp(A, R, 9, 80, RST), want=WAN, note="a RST passes in any case")
        c.send(LAN, tcp(A, R, 10, 80, SYN), want=WAN)
        c.send(WAN, tcp(R, A, 80, 10, SYN | ACK), want=LAN)
        c.send(LAN, tcp(A, R, 10, 80, ACK), want=WAN)
        yield c


# For each state: segments that lead to it (a direction and flags each), the key of its time-out, and whether a SYN of the opener or of the other
# side would begin the session anew.
O, T = 0, 1
STATES = {
    "syn-sent": ([(O, SYN)], "tcp-syn-sent"),
    "syn-sent-repeated": ([(O, SYN), (O, SYN)], "tcp-syn-sent"),
    "syn-sent-ack": ([(O, SYN), (O, ACK)], "tcp-syn-sent"),
    "syn-recv": ([(O, SYN), (T, SYN | ACK)], "tcp-syn-recv"),
    "syn-recv-simultaneous": ([(O, SYN), (T, SYN)], "tcp-syn-recv"),
    "established": ([(O, SYN), (T, SYN | ACK), (O, ACK)], "tcp-established"),
    "established-simultaneous": ([(O, SYN), (T, SYN), (O, SYN | ACK), (T, SYN | ACK), (O, ACK)], "tcp-established"),
    "established-mid": ([(O, ACK), (T, ACK)], "tcp-established"),
    "established-mid-syn-ack": ([(O, ACK), (T, SYN | ACK)], "tcp-established"),
    "unreplied": ([(O, ACK)], "tcp-unreplied"),
    "unreplied-syn-ack": ([(O, SYN | ACK)], "tcp-unreplied"),
    "fin-wait": ([(O, SYN), (T, SYN | ACK), (O, ACK), (O, FIN | ACK)], "tcp-fin-wait"),
    "fin-wait-other": ([(O, SYN), (T, SYN | ACK), (O, ACK), (T, FIN | ACK), (O, ACK)], "tcp-fin-wait"),
    "fin-wait-first": ([(O, FIN | ACK)], "tcp-fin-wait"),
    "fin-wait-twice": ([(O, ACK), (T, ACK), (O, FIN | ACK), (O, FIN | ACK)], "tcp-fin-wait"),
    "time-wait": ([(O, SYN), (T, SYN | ACK), (O, ACK), (O, FIN | ACK), (T, FIN | ACK)], "tcp-time-wait"),
    "time-wait-ack": ([(O, ACK), (T, ACK), (T, FIN | ACK), (O, FIN | ACK), (T, ACK)], "tcp-time-wait"),
    "close": ([(O, SYN), (T, SYN | ACK), (O, ACK), (O, RST)], "tcp-close"),
    "close-other": ([(O, ACK), (T, ACK), (T, RST | ACK)], "tcp-close"),
    "close-fin": ([(O, ACK), (T, ACK), (O, FIN | ACK), (T, RST)], "tcp-close"),
    "close-back": ([(O, ACK), (T, ACK), (T, RST), (O, ACK)], "tcp-established"),
    "close-fin-back": ([(O, ACK), (T, ACK), (O, FIN | ACK), (T, RST), (O, ACK)], "tcp-fin-wait"),
    "close-time-wait-back": ([(O, ACK), (T, ACK), (O, FIN | ACK), (T, FIN | ACK), (T, RST), (O, ACK)], "tcp-time-wait"),
    "refused": ([(O, SYN), (T, RST | ACK)], "tcp-refused"),
    "refused-syn-recv": ([(O, SYN), (T, SYN | ACK), (O, RST)], "tcp-refused"),
    "refused-back": ([(O, SYN), (T, RST | ACK), (O, ACK)], "tcp-syn-sent"),
    "refused-anew": ([(O, SYN), (T, RST | ACK), (O, SYN)], "tcp-syn-sent"),
}
TIMES = {"tcp-syn-sent": 21, "tcp-syn-recv": 12, "tcp-established": 61, "tcp-unreplied": 33, "tcp-fin-wait": 17, "tcp-time-wait": 14, "tcp-close": 44,
         "tcp-refused": 7}


def states():
    """Each state, by its time-out: 1 ms in front of it an error about the session passes, 1 ms behind it none does. An error changes
    neither state nor time."""
    for times in (TIMES, {}):
        c = edge("states" if times else "states-default", timeouts=times, opens=("tcp",))
        for n, (segments, key) in enumerate(STATES.values()):
            base = 1000 + n
            for way, flags in segments:
                p = tcp(A, R, base, 80, flags) if way == O else tcp(R, A, 80, base, flags)
                c.send(LAN if way == O else WAN, p, want=WAN if way == O else LAN)
                last = c.groups[-1][0][0]
            error = Error(R, A, tcp(A, R, base, 80))
            seconds = c.setup.timeouts[key]
            c.now = last + seconds * 10**9 - MS
            c.send(WAN, error, want=LAN, note=f"{list(STATES)[n]}: 1 ms in front of its end")
            c.now = last + seconds * 10**9 + MS
            c.send(WAN, error, want=DENY, note=f"{list(STATES)[n]}: 1 ms behind its end")
            c.wait(1)
        yield c


def no_restart():
    """A SYN in `established` and `syn-recv` passes, changes nothing and restarts no time."""
    c = edge("no-restart", timeouts=TIMES, opens=("tcp",))
    for n, (key, name) in enumerate((("tcp-established", "established"), ("tcp-syn-recv", "syn-recv"))):
        for way in (O, T):
            base = 2000 + 2 * n + way
            for w, flags in STATES[name][0]:
                p = tcp(A, R, base, 80, flags) if w == O else tcp(R, A, 80, base, flags)
                c.send(LAN if w == O else WAN, p, want=WAN if w == O else LAN)
                last = c.groups[-1][0][0]
            c.wait(2)
            c.send(*((LAN, tcp(A, R, base, 80, SYN)) if way == O else (WAN, tcp(R, A, 80, base, SYN))), want=WAN if way == O else LAN)
            c.now = last + TIMES[key] * 10**9 - MS
            c.send(WAN, Error(R, A, tcp(A, R, base, 80)), want=LAN)
            c.now = last + TIMES[key] * 10**9 + MS
            c.send(WAN, Error(R, A, tcp(A, R, base, 80)), want=DENY)
    return c


def syn_strange():
    """A SYN that is no packet of the session: the lists decide about it. Here they permit none from outside."""
    c = edge("syn-strange", timeouts=TIMES, opens=(Rule("permit+reflect", "tcp", dports=range(80, 81)),))
    #        state          of the opener          of the other side
    table = {"time-wait": ("renewed", DENY), "close": ("renewed", DENY), "refused": ("anew", DENY), "fin-wait": ("list", DENY), "unreplied": ("packet", DENY),
             "established": ("packet", LAN), "syn-recv": ("packet", LAN), "syn-sent": ("packet", LAN)}
    for n, (name, (_, other)) in enumerate(table.items()):
        for way in (O, T):
            base = 3000 + 2 * n + way
            for w, flags in STATES[name][0]:
                c.send(LAN if w == O else WAN, tcp(A, R, base, 80, flags) if w == O else tcp(R, A, 80, base, flags), want=WAN if w == O else LAN)
            if way == O:
                c.send(LAN, tcp(A, R, base, 80, SYN), want=WAN, note=name)
            else:
                c.send(WAN, tcp(R, A, 80, base, SYN), want=other, note=name)
    return c


def renewed():
    """A SYN opens a session in the place of one that closed, from either side; by a list that permits it from outside alone nothing is renewed, and
    the answer begins the session anew."""
    syns = [Rule("permit", "tcp", flags=("syn", "syn,ack"))]
    for name in ("time-wait", "close"):
        c = edge(f"renewed-{name}", timeouts=TIMES, opens=("tcp",))
        for w, flags in STATES[name][0]:
            c.send(LAN if w == O else WAN, tcp(A, R, 1000, 80, flags) if w == O else tcp(R, A, 80, 1000, flags), want=WAN if w == O else LAN)
        c.send(LAN, tcp(A, R, 1000, 80, SYN), want=WAN)
        c.now += TIMES["tcp-syn-sent"] * 10**9 - MS
        c.send(WAN, tcp(R, A, 80, 1000, SYN | ACK), want=LAN, note="within syn-sent")
        c.now += TIMES["tcp-syn-recv"] * 10**9 + MS
        c.send(WAN, tcp(R, A, 80, 1000, ACK), want=DENY, note="behind syn-recv")
        yield c
    for name in ("time-wait", "close", "fin-wait", "unreplied"):
        c = edge(f"anew-{name}", timeouts=TIMES, opens=("tcp",), answers=syns)
        for w, flags in STATES[name][0]:
            c.send(LAN if w == O else WAN, tcp(A, R, 1000, 80, flags) if w == O else tcp(R, A, 80, 1000, flags), want=WAN if w == O else LAN)
        c.send(WAN, tcp(R, A, 80, 1000, SYN), want=LAN, note="another SYN, by the list")
        c.send(LAN, tcp(A, R, 1000, 80, SYN | ACK), want=WAN, note="its answer")
        last = c.groups[-1][0][0]
        c.now = last + TIMES["tcp-syn-recv"] * 10**9 - MS
        c.send(WAN, Error(R, A, tcp(A, R, 1000, 80)), want=LAN)
        c.now = last + TIMES["tcp-syn-recv"] * 10**9 + MS
        c.send(WAN, Error(R, A, tcp(A, R, 1000, 80)), want=DENY, note="the session was in syn-recv")
        yield c


def ages():
    """Time-outs of other protocols, without and with a reply."""
    for times in ({"udp": 5, "udp-stream": 9, "icmp": 4, "generic": 11}, {}):
        c = edge("ages" if times else "ages-default", timeouts=times)
        t = c.setup.timeouts
        for p, new, stream in ((udp(A, R, 1, 53), "udp", "udp-stream"), (Packet(UDPLITE, A, R, 1, 53, b"data"), "udp", "udp-stream"), (echo(A, R, 3), "icmp", "icmp"),
                               (echo(A6, R6, 3), "icmp", "icmp"), (Packet(SCTP, A, R, 1, 2, b"data"), "generic", "generic"),
                               (Packet(DCCP, A, R, 1, 2, b"data"), "generic", "generic"), (Packet(47, A6, R6, data=b"\0\0\x08\0data"), "generic", "generic")):
            c.send(LAN, p, want=WAN)
            c.now = c.groups[-1][0][0] + t[new] * 10**9 - MS
            c.send(WAN, back(p), want=LAN, note="1 ms in front of the end")
            c.now = c.groups[-1][0][0] + t[stream] * 10**9 - MS
            c.send(LAN, p, want=WAN)
            c.now = c.groups[-1][0][0] + t[stream] * 10**9 + MS
            c.send(WAN, back(p), want=DENY, note="1 ms behind the end")
            c.send(LAN, p, want=WAN)
            c.now = c.groups[-1][0][0] + t[new] * 10**9 + MS
            c.send(WAN, back(p), want=DENY, note="without a reply")
        yield c


def idle_behind_active():
    """A session that is idle ends though others are active, and the active ones stay."""
    c = edge("idle-behind-active", opens=("udp",))
    c.send(LAN, udp(A, R, 1, 53), want=WAN)
    c.send(LAN, udp(A, R, 2, 53), want=WAN)
    for _ in range(4):
        c.wait(9)
        c.send(LAN, udp(A, R, 1, 53), want=WAN)
    c.send(WAN, udp(R, A, 53, 2), want=DENY)
    c.send(WAN, udp(R, A, 53, 1), want=LAN)
    return c


def errors():
    """ICMP errors about packets of a session, from either side; and errors that belong to none."""
    c = edge("errors", answers=[])
    p, six = udp(A, R, 1000, 53, b"question"), udp(A6, R6, 1000, 53, b"question")
    c.send(WAN, Error(R, A, p), want=DENY, note="before the session")
    c.send(LAN, p, want=WAN)
    c.send(LAN, six, want=WAN)
    for kind, code, rest in ((3, 0, 0), (3, 1, 0), (3, 3, 0), (3, 4, 1300), (3, 13, 0), (11, 0, 0), (11, 1, 0), (12, 0, 0)):
        c.send(WAN, Error(S, A, p, None, kind, code, rest), want=LAN, note="a router's")
    for kind, code, rest in ((1, 0, 0), (1, 3, 0), (2, 0, 1300), (3, 0, 0), (4, 1, 6)):
        c.send(WAN, Error("2001:db8:9::9", A6, six, None, kind, code, rest), want=LAN)
    for kind, code in ((4, 0), (5, 1), (6, 0), (10, 0)):
        c.send(WAN, Error(R, A, p, None, kind, code), want=DENY, note="no such error")
    c.send(WAN, Error(R6, A6, six, None, 5, 0), want=DENY)
    c.send(WAN, Error(R, A, p, 28), want=LAN, note="8 octets of the packet")
    c.send(WAN, Error(R, A, p, spoil=7), want=DENY, note="checksum of the message")
    c.send(WAN, Error(R6, A6, six, spoil=7), want=DENY)
    c.send(WAN, Error(R, A, p, corrupt=7), want=DENY, note="checksum of the quoted header")
    c.send(WAN, Error(R, B, p), want=DENY, note="to another host than the sender")
    c.send(WAN, Error(R, A, p.replace(sport=1001)), want=DENY, note="about another port")
    c.send(WAN, Error(R, A, p.replace(dport=54)), want=DENY)
    c.send(WAN, Error(R, A, p.replace(dst=S)), want=DENY)
    c.send(WAN, Error(R, A, tcp(A, R, 1000, 53)), want=DENY, note="about another protocol")
    c.send(WAN, Error(R, A, back(p)), want=DENY, note="about the reply, to its receiver")
    c.send(WAN, AboutPart(R, A, Part(p.replace(data=bytes(100)), 56, 1), None, 3, 1, 0), want=DENY, note="about a later fragment")
    c.send(WAN, AboutPart(R, A, Part(p.replace(data=bytes(100)), 56, 0), None, 3, 1, 0), want=LAN, note="about a first fragment")
    c.send(LAN, Error(A, R, back(p)), want=WAN, note="of the sender, about a reply")
    # An error changes neither state nor age.
    c.now = c.groups[1][0][0] + 30 * 10**9 + MS
    c.send(WAN, back(p), want=DENY, note="30 s behind the only packet")
    # About ICMP and other protocols.
    for q in (echo(A, R, 7), echo(A6, R6, 7), Packet(47, A, R, data=b"\0\0\x08\0data"), tcp(A, R, 5, 80), Packet(SCTP, A, R, 5, 6, b"data")):
        c.send(LAN, q, want=WAN)
        c.send(WAN, Error(q.dst, q.src, q), want=LAN)
    return c


def errors_direction():
    """An error passes where packets in its direction pass: with a session for ingress at lan, those to the opener leave by lan, others enter."""
    opens = [List("opens", [Rule("permit+reflect", "udp")], "deny")]
    c = Case("errors-direction", make_setup((LAN, WAN), {(LAN, IN): opens, (LAN, OUT): [List("none", [], "deny")]}))
    p = udp(A, R, 1000, 53)
    c.send(WAN, Error(R, A, p), want=DENY)
    c.send(LAN, p, want=WAN)
    c.send(WAN, Error(R, A, p), want=LAN)
    c.send(WAN, back(p), want=LAN)
    c.send(LAN, Error(A, R, back(p)), want=WAN)
    c.send(LAN, Error(A, R, back(p).replace(sport=54)), want=DENY)
    return c


def zones():
    """A session permits in its zone alone: replies may come by another interface of the zone, not by one of another zone."""
    deny = List("none", [], "deny")
    more = {(DMZ, IN): [deny]}
    c = edge("zone-one", names=(LAN, DMZ, WAN), more=more)
    c.send(LAN, udp(A, R, 1, 53), want=WAN)
    c.send(DMZ, udp(R, A, 53, 1), want=LAN, note="by another interface of the VRF")
    yield c
    c = edge("zone-two", names=(LAN, DMZ, WAN), more=more, zones={DMZ: "servers"})
    c.send(LAN, udp(A, R, 1, 53), want=WAN)
    c.send(DMZ, udp(R, A, 53, 1), want=DENY, note="by another zone")
    c.send(WAN, udp(R, A, 53, 1), want=LAN)
    yield c
    c = edge("zone-shared", names=(LAN, DMZ, WAN), more=more, zones={DMZ: "outside", WAN: "outside"})
    c.send(LAN, udp(A, R, 1, 53), want=WAN)
    c.send(DMZ, udp(R, A, 53, 1), want=LAN)
    yield c
    # Two zones, each with its session: both have to permit.
    opens, none = List("from-lan", [Rule("permit+reflect", "udp")], "deny"), List("to-lan", [], "deny")
    c = edge("zone-each", opens=("udp",), more={(LAN, IN): [opens], (LAN, OUT): [none]}, zones={LAN: "inside"})
    c.send(LAN, udp(A, R, 1, 53), want=WAN)
    c.send(WAN, udp(R, A, 53, 1), want=LAN)
    c.send(WAN, udp(R, A, 53, 2), want=DENY)
    yield c
    c = edge("zone-half", opens=("udp",), more={(LAN, IN): [List("from-lan", [Rule("permit", "udp")], "deny")], (LAN, OUT): [none]}, zones={LAN: "inside"})
    c.send(LAN, udp(A, R, 1, 53), want=WAN)
    c.send(WAN, udp(R, A, 53, 1), want=DENY, note="lan's zone has no session")
    yield c


def order():
    """No rule applies to packets of a session, whatever the order; a rule in front of permit+reflect applies to the first packet."""
    c = edge("order", opens=(Rule("deny", "udp", dst=S), Rule("permit", "udp", dports=range(53, 54)), "udp"), answers=[Rule("deny", "udp"), Rule("reject", "ip")])
    c.send(LAN, udp(A, S, 1, 99), want=DENY)
    c.send(LAN, udp(A, R, 1, 53), want=WAN, note="permitted without a session")
    c.send(WAN, udp(R, A, 53, 1), want=DENY)
    c.send(LAN, udp(A, R, 1, 99), want=WAN)
    c.send(WAN, udp(R, A, 99, 1), want=LAN, note="in front of `deny udp`")
    yield c
    c = edge("next-list", opens=("udp",))
    c.setup.interfaces[WAN].lists[OUT].insert(0, List("first", [Rule("deny", "udp", dst=S)], "next"))
    c.send(LAN, udp(A, S, 1, 99), want=DENY)
    c.send(LAN, udp(A, R, 1, 99), want=WAN)
    c.send(WAN, udp(R, A, 99, 1), want=LAN)
    yield c


def other_policies():
    """Lists of the other direction decide about packets of a session, too."""
    c = edge("other-lists", opens=("udp",), more={(LAN, OUT): [List("to-lan", [Rule("deny", "udp", sports=range(53, 54))], "permit")]})
    c.send(LAN, udp(A, R, 1, 53), want=WAN)
    c.send(WAN, udp(R, A, 53, 1), want=DENY, note="by lan's list, which the session does not skip")
    c.send(LAN, udp(A, R, 1, 99), want=WAN)
    c.send(WAN, udp(R, A, 99, 1), want=LAN)
    return c


def both_directions():
    """A session that rules of both directions opened permits both."""
    deny, opens = List("none", [], "deny"), List("from-lan", [Rule("permit+reflect", "tcp", flags=("syn", "syn,ack"))], "deny")
    c = edge("both-directions", opens=(Rule("permit+reflect", "tcp", flags=("syn", "syn,ack")),), more={(LAN, IN): [opens], (LAN, OUT): [deny]})
    c.send(LAN, tcp(A, R, 1, 80, SYN), want=WAN)
    c.send(WAN, tcp(R, A, 80, 1, SYN | ACK), want=LAN)
    c.send(LAN, tcp(A, R, 1, 80, ACK), want=WAN)
    c.send(LAN, tcp(A, R, 2, 80, ACK), want=DENY)
    return c


def local():
    """Sessions with the gateway itself: the echo reply passes lists for egress."""
    for six in (False, True):
        opens, none = List("from-lan", [Rule("permit+reflect", "icmp6" if six else "icmp")], "deny"), List("none", [], "deny")
        c = Case(f"local-{6 if six else 4}", make_setup((LAN, WAN), {(LAN, IN): [opens], (LAN, OUT): [none]}))
        gate = "fd00:1::1" if six else "10.0.0.1"
        c.send(LAN, echo(A6 if six else A, gate, 7), want="local", note="answered, though lan's list for egress denies")
        c.send(LAN, echo(A6 if six else A, gate, 7), want="local")
        yield c


def fragments():
    """Fragments belong to the session of their packet, in any order; none opens a session."""
    c = edge("fragments", opens=("udp",))
    big, big6 = udp(A, R, 1, 53, bytes(150)), udp(A6, R6, 1, 53, bytes(150))
    for p in (big, big6):
        c.send(WAN, *(Part(back(p), 56, i, 1) for i in range(3)), want=DENY, note="no session")
        c.send(LAN, *(Part(p, 56, i, 2) for i in (0, 1, 2)), want=WAN)
        c.send(WAN, *(Part(back(p), 56, i, 3) for i in (2, 0, 1)), want=LAN)
        c.send(WAN, *(Part(back(p).replace(sport=54), 56, i, 4) for i in (1, 2, 0)), want=DENY, note="another port")
        c.wait(25)
        c.send(WAN, *(Part(back(p), 56, i, 5) for i in (1, 2, 0)), want=LAN)
        c.wait(110)
        c.send(LAN, p, want=WAN)
    return c


def half_open():
    """The oldest half-open session ends for a newer one; those with replies stay. The bound is two at least."""
    for bound in (1, 2, 3):
        c = edge(f"half-open-{bound}", opens=("ip",), half_open=bound)
        keep = max(2, bound)
        c.send(LAN, udp(A, R, 99, 53), want=WAN)
        c.send(WAN, udp(R, A, 53, 99), want=LAN, note="has a reply")
        c.send(LAN, tcp(A, R, 99, 80, SYN), want=WAN)
        c.send(WAN, tcp(R, A, 80, 99, SYN | ACK), want=LAN)
        c.send(LAN, tcp(A, R, 99, 80, ACK), want=WAN, note="established")
        for n in range(keep + 2):
            c.send(LAN, tcp(A, R, n, 80, SYN), want=WAN)
        for n in (0, 1):
            c.send(WAN, tcp(R, A, 80, n, SYN | ACK), want=DENY, note="ended for newer ones")
        for n in range(2, keep + 2):
            c.send(WAN, tcp(R, A, 80, n, SYN | ACK), want=LAN)
        c.send(WAN, udp(R, A, 53, 99), want=LAN)
        c.send(WAN, tcp(R, A, 80, 99, ACK), want=LAN)
        yield c
    c = edge("half-open-established", opens=("ip",), half_open=2)
    c.send(LAN, tcp(A, R, 1, 80, SYN), want=WAN)
    c.send(WAN, tcp(R, A, 80, 1, SYN | ACK), want=LAN, note="not established: still half-open")
    c.send(LAN, tcp(A, R, 2, 80, SYN), want=WAN)
    c.send(LAN, tcp(A, R, 3, 80, SYN), want=WAN)
    c.send(WAN, tcp(R, A, 80, 1, SYN | ACK), want=DENY)
    yield c


def limit():
    """The bound of sessions: a packet that would open one more is dropped; one place is free once a session ends."""
    c = edge("limit", opens=("udp",), sessions=3, half_open=3)
    for n in range(3):
        c.send(LAN, udp(A, R, n, 53), want=WAN)
        c.send(WAN, udp(R, A, 53, n), want=LAN)
        c.wait(10)
    c.send(LAN, udp(A, R, 3, 53), want="session-limit")
    c.send(LAN, udp(A, R, 0, 53), want=WAN, note="packets of sessions pass")
    c.wait(120)
    c.send(LAN, udp(A, R, 3, 53), want=WAN)
    return c


def rate_limit():
    """A rule's limit applies to each packet of its sessions, in both directions, and to errors; a packet above it changes nothing."""
    c = edge("rate-limit", opens=(Rule("permit+reflect", "udp", limit="1pps burst 4"),))
    c.modelled = False
    p, late = udp(A, R, 1, 53), "acl-rate-limit"
    c.send(LAN, p, want=WAN)
    c.send(WAN, back(p), want=LAN)
    c.send(WAN, Error(R, A, p), want=LAN)
    c.send(LAN, p, want=WAN)
    c.send(LAN, p, want=late)
    c.send(WAN, back(p), want=late)
    c.send(WAN, Error(R, A, p), want=late)
    c.send(LAN, udp(A, R, 2, 53), want=late, note="the first packet of another session")
    c.send(WAN, udp(R, A, 53, 2), want=DENY, note="which has ended")
    c.wait(1)
    c.send(WAN, back(p), want=LAN)
    c.send(LAN, p, want=late)
    yield c
    c = edge("rate-limit-time", opens=(Rule("permit+reflect", "udp", limit="1pps burst 2"),))
    c.modelled = False
    c.send(LAN, p, want=WAN)
    c.wait(25)
    for want in (WAN, WAN, late):  # no reply: each passing packet restarts 30 s, the dropped one does not
        c.send(LAN, p, want=want)
    c.now = c.groups[-2][0][0] + 30 * 10**9 - MS
    c.send(WAN, back(p), want=LAN)
    yield c


def options():
    """Packets with IPv4 options and IPv6 extension headers belong to sessions as others do, and so do quoted ones."""
    c = edge("options", opens=("udp",))
    c.modelled = False

    def six(src, dst, sport, dport, *kinds):
        rest = wire.udp_part(src, dst, sport, dport, b"data")
        for kind, following in reversed(list(zip(kinds, [*kinds[1:], UDP]))):
            rest = bytes([following]) + (bytes([0, 0, 0, 0, 0, 0, 9]) if kind == 44 else bytes([0, 1, 4, 0, 0, 0, 0])) + rest
        return wire.ip6(src, dst, kinds[0] if kinds else UDP, rest)

    def four(src, dst, sport, dport, options):
        return wire.ip4(src, dst, UDP, wire.udp_part(src, dst, sport, dport, b"data"), options=options)

    def about(quote):
        if quote[0] >> 4 == 6:
            return Raw(wire.ip6("2001:db8:9::77", A6, ICMP6, wire.icmp_part("2001:db8:9::77", A6, 1, 3, 0, quote)))
        return Raw(wire.ip4(S, A, ICMP, wire.icmp_part(S, A, 3, 1, 0, quote)))
    p, q = six(A6, R6, 1000, 53, 60), four(A, R, 1000, 53, b"\x94\x04\0\0")
    c.send(WAN, about(wire.forwarded(p)), want=DENY)
    c.send(LAN, Raw(p), want=WAN)
    c.send(LAN, Raw(q), want=WAN)
    for answer in (six(R6, A6, 53, 1000), six(R6, A6, 53, 1000, 0, 60), six(R6, A6, 53, 1000, 44), four(R, A, 53, 1000, b""), four(R, A, 53, 1000, b"\1\1\1\1")):
        c.send(WAN, Raw(answer), want=LAN)
    c.send(WAN, Raw(six(R6, A6, 54, 1000, 60)), want=DENY)
    c.send(WAN, Raw(four(R, A, 54, 1000, b"\1\1\1\1")), want=DENY)
    for quote, whole in ((p, 56), (six(A6, R6, 1000, 53), 48), (six(A6, R6, 1000, 53, 0), 56), (six(A6, R6, 1000, 53, 44), 56), (q, 32), (four(A, R, 1000, 53, b""), 28)):
        quote = wire.forwarded(quote)
        c.send(WAN, about(quote), want=LAN)
        c.send(WAN, about(quote[:whole]), want=LAN, note="8 octets of UDP")
        for length in (whole - 5, whole - 8, 20, 6, 0):
            c.send(WAN, about(quote[:length]) if length else about(quote[:1]), want=DENY, note="without both ports")
    return c


def held():
    """Where sessions apply, later fragments wait for the first one for two seconds, though no rule has ports."""
    for what in ("ip", "udp"):
        c = edge(f"held-{what}", opens=(what,))
        c.modelled = False
        p = udp(A, R, 1000, 53, bytes(150))
        c.send(LAN, Part(p, 56, 1), want="acl-fragment", note="without a first fragment")
        c.wait(2.5)
        c.send(LAN, Part(p, 56, 0), want=WAN)
        c.wait(1.5)
        c.send(LAN, Part(p, 56, 1), want=WAN)
        c.wait(2.5)
        c.send(LAN, Part(p, 56, 2), want="acl-fragment", note="the first fragment is forgotten")
        c.wait(3)
        c.send(LAN, udp(A, R, 1, 53), want=WAN)
        yield c


def land():
    """Packets whose source is their destination, and port 0."""
    c = edge("land", opens=("ip",))
    c.modelled = False
    for p in (udp(R, R, 53, 53), tcp(R, R, 5, 5, SYN), tcp(R, R, 5, 5, ACK), tcp(R, R, 5, 5, FIN | ACK), echo(R, R, 7), Packet(47, R, R, data=b"\0\0\x08\0data"),
              udp(R, R, 53, 54), udp(R, R, 54, 53)):
        c.send(LAN, p, want=WAN)
    c.send(LAN, tcp(A, R, 0, 0, SYN), want=WAN)
    c.send(WAN, tcp(R, A, 0, 0, SYN | ACK), want=LAN)
    return c


def rejected():
    """A session whose first packet a later list rejects ends with it, whatever the answer."""
    for action in ("deny", "reject", "reject+icmp", "reject+reset"):
        lists = {(WAN, IN): [List("opens", [Rule("permit+reflect", "tcp")], "deny")], (WAN, OUT): [List("resets", [Rule("permit", "tcp", flags=("rst", "rst"))], "deny")],
                 (LAN, OUT): [List("to-lan", [Rule(action, "tcp", dports=range(80, 81))], "permit")]}
        c = Case(f"rejected-{action.replace('+', '-')}", make_setup((LAN, WAN), lists))
        c.send(WAN, tcp(R, A, 1000, 80, SYN), want=DENY if action == "deny" else REJECT)
        c.wait(1)
        c.send(LAN, tcp(A, R, 80, 1000, ACK), want=DENY)
        yield c


def unseen():
    """Packets of a session count where an interface of its zone has no list."""
    opens = List("from-lan", [Rule("permit+reflect", "tcp"), Rule("permit+reflect", "udp")], "deny")
    for zone in (False, True):
        c = Case(f"no-list-{'zone' if zone else 'vrf'}", make_setup((LAN, WAN), {(LAN, IN): [opens]}, {LAN: "inside"} if zone else {}, pickup=False))
        for flags, way in ((SYN, O), (SYN | ACK, T), (ACK, O), (ACK, T)):
            c.send(LAN if way == O else WAN, tcp(A, R, 1, 80, flags) if way == O else tcp(R, A, 80, 1, flags), want=WAN if way == O else LAN)
        c.wait(130)
        c.send(LAN, tcp(A, R, 1, 80, ACK), want=WAN, note="established")
        yield c
    c = Case("no-list-fragments", make_setup((LAN, WAN), {(LAN, IN): [opens]}))
    p = udp(A, R, 1, 53, bytes(150))
    c.send(LAN, p, want=WAN)
    c.wait(25)
    c.send(WAN, *(Part(back(p), 56, i) for i in range(3)), want=LAN)
    c.wait(15)
    c.send(LAN, Error(A, R, back(p)), want=WAN, note="the session has a reply")
    yield c


def syn_fin():
    """A SYN with FIN or RST is easily forged, too: it ends no session at once."""
    for flags in (SYN | FIN, SYN | RST):
        c = edge("syn-fin-idle" if flags & FIN else "syn-rst-idle", opens=("tcp",))
        for way, f in STATES["established"][0]:
            c.send(LAN if way == O else WAN, tcp(A, R, 1, 80, f) if way == O else tcp(R, A, 80, 1, f), want=WAN if way == O else LAN)
        c.wait(300)
        c.send(WAN, tcp(R, A, 80, 1, flags), want=LAN)
        c.wait(1)
        c.send(WAN, tcp(R, A, 80, 1, ACK), want=LAN)
        yield c


def cases():
    yield from (opens_nothing, no_restart, syn_strange, idle_behind_active, errors, errors_direction, other_policies, both_directions, fragments, land, limit, options)
    for many in (reflect, pickup, states, renewed, ages, zones, order, local, half_open, held, rate_limit, rejected, unseen, syn_fin):
        yield from (lambda c=c: c for c in many())
