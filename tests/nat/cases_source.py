"""Sources: dynamic, pools, port ranges, preserve, exhaustion, limits, protocols; keep; states and time-outs."""
from case import DMZ, LAN, WAN, WAN2, Case, Var, reply
from packet import (ACK, DCCP, ESP, FIN, GRE, ICMP, PSH, RST, SCTP, SYN, TCP, UDP, UDPLITE, Packet, echo, tcp, udp)

A, B, C = "10.0.0.5", "10.0.0.6", "10.1.0.7"
R, S = "8.8.8.8", "9.9.9.9"
OUT = "198.51.100.1"
HIGH = range(1024, 65536)
MASQUERADE = "source ip4 from 10.0.0.0/8 to any as interface"
FAR = "192.0.2.9"  # behind wan2


def dynamic():
    c = Case("dynamic", [MASQUERADE])
    p, q, r, e = Var("p", HIGH), Var("q", HIGH), Var("r", HIGH), Var("e", range(65536))
    c.both(LAN, udp(A, R, 1000, 53), WAN, udp(OUT, R, p, 53))
    c.both(LAN, tcp(A, R, 1000, 80), WAN, tcp(OUT, R, q, 80))
    c.go(LAN, tcp(A, R, 1000, 80, ACK, b"GET"), WAN, tcp(OUT, R, q, 80, ACK, b"GET"))
    c.go(WAN, tcp(R, OUT, 80, q, ACK | PSH, b"200"), LAN, tcp(R, A, 80, 1000, ACK | PSH, b"200"))
    c.both(LAN, echo(A, R, 77), WAN, echo(OUT, R, e))
    c.both(DMZ, udp(C, R, 1000, 53), WAN, udp(OUT, R, r, 53), note="another interface inside")
    # Endpoint-dependent: a packet from another endpoint belongs to no translation.
    for other in (udp(S, OUT, 53, p), udp(R, OUT, 54, p)):
        c.gone(other, "another endpoint")
    c.different(p, r)
    # One inside port to two servers: two translations.
    q2 = Var("q2", HIGH)
    c.both(LAN, udp(A, S, 1000, 53), WAN, udp(OUT, S, q2, 53))
    return c


def other_ways():
    """Rules apply to what leaves by the outside interface alone."""
    c = Case("other-ways", [MASQUERADE])
    c.go(LAN, udp(A, C, 1, 2), DMZ, udp(A, C, 1, 2), note="inside to inside")
    c.go(LAN, udp(A, FAR, 1, 2), WAN2, udp(A, FAR, 1, 2), note="by another interface")
    c.go(LAN, udp("172.16.0.1", R, 1, 2), WAN, udp("172.16.0.1", R, 1, 2), note="no rule matches")
    c.go(WAN, udp(R, A, 1, 2), LAN, udp(R, A, 1, 2), note="from outside, not translated")
    return c


def two_edges():
    """Two outside interfaces with one list, each with its own address."""
    c = Case("two-edges", [MASQUERADE], nat={WAN2: "edge"})
    p, q = Var("p", HIGH), Var("q", HIGH)
    c.both(LAN, udp(A, R, 1, 53), WAN, udp(OUT, R, p, 53))
    c.both(LAN, udp(A, FAR, 1, 53), WAN2, udp("203.0.113.1", FAR, q, 53))
    return c


def two_lists():
    c = Case("two-lists", [MASQUERADE], nat={WAN2: "other"},
             lists={"other": ["source udp from 10.0.0.0/8 to any as 203.0.113.1 port 7000-7009"]})
    p, q = Var("p", HIGH), Var("q", range(7000, 7010))
    c.both(LAN, udp(A, R, 1, 53), WAN, udp(OUT, R, p, 53))
    c.both(LAN, udp(A, FAR, 1, 53), WAN2, udp("203.0.113.1", FAR, q, 53))
    c.go(LAN, echo(A, FAR, 9), WAN2, echo(A, FAR, 9), note="the list there has no rule for it")
    return c


def order():
    """The first rule decides; `keep` ends the search."""
    c = Case("order", ["keep udp from 10.0.0.5 to 8.8.8.8", "source udp from 10.0.0.5 to any port 53 as 198.51.100.1 port 2000",
                       "source udp from 10.0.0.0/16 to any as 198.51.100.1 port 3000-3009",
                       "source tcp from any to any port 80 as interface port 4000-4001"])
    p, q = Var("p", range(3000, 3010)), Var("q", range(4000, 4002))
    c.go(LAN, udp(A, R, 1, 53), WAN, udp(A, R, 1, 53), note="keep")
    c.go(WAN, udp(R, A, 53, 1), LAN, udp(R, A, 53, 1), note="keep, reply")
    c.both(LAN, udp(A, S, 1, 53), WAN, udp(OUT, S, 2000, 53))
    c.both(LAN, udp(A, S, 1, 54), WAN, udp(OUT, S, p, 54))
    c.both(LAN, tcp(A, S, 1, 80), WAN, tcp(OUT, S, q, 80))
    c.go(LAN, tcp(A, S, 1, 81), WAN, tcp(A, S, 1, 81), note="no rule")
    c.go(DMZ, udp(C, S, 1, 53), WAN, udp(C, S, 1, 53), note="no rule")
    return c


def paired_pool():
    """An inside address keeps its outside address, whatever the protocol and peer (RFC 4787, REQ-2)."""
    pool = [f"198.51.100.{n}" for n in range(200, 208)]
    c = Case("paired-pool", ["source ip4 from 10.0.0.0/8 to any as 198.51.100.200-198.51.100.207"], own=[f"{a}/32" for a in pool])
    used = []
    for host in range(1, 25):
        x = Var(f"address of 10.0.7.{host}", pool)
        used.append(x)
        for n in range(3):
            c.both(LAN, udp(f"10.0.7.{host}", R, 1 + n, 53), WAN, udp(x, R, Var("p", HIGH), 53))
        c.both(LAN, tcp(f"10.0.7.{host}", S, 1, 80), WAN, tcp(x, S, Var("p", HIGH), 80))
        c.both(LAN, echo(f"10.0.7.{host}", S, 1), WAN, echo(x, S, Var("p", range(65536))))
    run = c.run

    def spread(weir, folder):
        faults = run(weir, folder)
        if not faults and len({x.value for x in used}) < 4:
            faults.append("24 hosts share fewer than 4 of 8 addresses")
        return faults
    c.run = spread
    return c


def group_pool():
    pool = ["198.51.100.210", "198.51.100.220"]
    c = Case("group-pool", ["source udp from 10.0.0.0/8 to any as @pool port 5000-5099"], own=[f"{a}/32" for a in pool],
             more='[group.pool]\naddresses = ["198.51.100.210", "198.51.100.220"]\n')
    x = Var("address", pool)
    for n in range(5):
        c.both(LAN, udp(A, R, 1 + n, 53), WAN, udp(x, R, Var("p", range(5000, 5100)), 53))
    return c


def preserve():
    c = Case("preserve", ["source ip4 from 10.0.0.0/8 to any as interface preserve"])
    p, q = Var("p", HIGH), Var("q", HIGH)
    c.both(LAN, udp(A, R, 40000, 53), WAN, udp(OUT, R, 40000, 53))
    c.both(LAN, udp(B, S, 40000, 53), WAN, udp(OUT, S, 40000, 53), note="free towards another server")
    c.both(LAN, udp(B, R, 40000, 53), WAN, udp(OUT, R, p, 53), note="in use")
    c.both(LAN, tcp(B, R, 40000, 53), WAN, tcp(OUT, R, 40000, 53), note="another protocol")
    c.both(LAN, udp(A, R, 500, 53), WAN, udp(OUT, R, q, 53), note="none of the target's")
    c.both(LAN, echo(A, R, 123), WAN, echo(OUT, R, 123))
    c.both(LAN, echo(B, R, 123), WAN, echo(OUT, R, Var("e", range(65536))))
    return c


def exhaustion():
    """Ten ports: ten translations to one endpoint, and no more; another endpoint has ten of its own."""
    c = Case("exhaustion", ["source udp from 10.0.0.0/8 to any as interface port 6000-6009"])
    first = [Var(f"p{n}", range(6000, 6010)) for n in range(10)]
    for n, p in enumerate(first):
        c.go(LAN, udp(A, R, 100 + n, 53), WAN, udp(OUT, R, p, 53))
    c.different(*first)
    for n in range(3):
        c.drop(LAN, udp(B, R, 100 + n, 53), "nat-exhausted")
    second = [Var(f"q{n}", range(6000, 6010)) for n in range(10)]
    for n, p in enumerate(second):
        c.go(LAN, udp(B, R, 100 + n, 54), WAN, udp(OUT, R, p, 54), note="another port of the server")
    c.different(*second)
    for n, p in enumerate(first):
        c.go(WAN, udp(R, OUT, 53, p), LAN, udp(R, A, 53, 100 + n), note="those before go on")
    c.wait(60)  # stream: 2 minutes. The others are new, 30 seconds.
    c.drop(LAN, udp(B, R, 500, 53), "nat-exhausted", note="still in use")
    c.go(LAN, udp(B, R, 500, 54), WAN, udp(OUT, R, Var("x", range(6000, 6010)), 54), note="free after the time-out")
    c.wait(65)
    c.go(LAN, udp(B, R, 500, 53), WAN, udp(OUT, R, Var("y", range(6000, 6010)), 53), note="free after the time-out")
    return c


def edge_ports():
    """The first and last port, inside and outside."""
    c = Case("edge-ports", ["source udp from any to any port 1 as interface port 0", "source udp from any to any port 2 as interface port 65535",
                            "source udp from any to any as interface port 1-1"])
    c.both(LAN, udp(A, R, 65535, 1), WAN, udp(OUT, R, 0, 1))
    c.both(LAN, udp(A, R, 0, 2), WAN, udp(OUT, R, 65535, 2))
    c.both(LAN, udp(A, R, 0, 65535), WAN, udp(OUT, R, 1, 65535))
    c.both(LAN, udp(A, R, 0, 0), WAN, udp(OUT, R, 1, 0))
    return c


def limit():
    c = Case("limit", ["source udp from 10.0.0.0/8 to any as interface limit-per-address 3", "source tcp from any to any as interface"])
    for host in (A, B):
        for n in range(3):
            c.both(LAN, udp(host, R, 10 + n, 53), WAN, udp(OUT, R, Var("p", HIGH), 53))
        c.drop(LAN, udp(host, S, 20, 53), "nat-limit")
        c.go(LAN, tcp(host, S, 20, 53), WAN, tcp(OUT, S, Var("t", HIGH), 53), note="another rule")
        c.go(LAN, udp(host, R, 10, 53), WAN, udp(OUT, R, c.steps[0 if host == A else 9].out[0][1].sport, 53))
    c.wait(124)
    for n in range(3):
        c.go(LAN, udp(A, S, 30 + n, 53), WAN, udp(OUT, S, Var("p", HIGH), 53), note="after the time-out")
    c.drop(LAN, udp(A, S, 40, 53), "nat-limit")
    return c


def limit_range():
    """A limit and ports together: what finds no port counts for no one."""
    c = Case("limit-range", ["source udp from 10.0.0.0/8 to any as interface port 6000-6001 limit-per-address 3"])
    p = [Var("p", range(6000, 6002)) for _ in range(4)]
    c.go(LAN, udp(A, R, 1, 53), WAN, udp(OUT, R, p[0], 53))
    c.go(LAN, udp(A, R, 2, 53), WAN, udp(OUT, R, p[1], 53))
    for n in range(5):
        c.drop(LAN, udp(A, R, 3 + n, 53), "nat-exhausted")
    c.go(LAN, udp(A, S, 3, 53), WAN, udp(OUT, S, p[2], 53))
    c.drop(LAN, udp(A, S, 4, 53), "nat-limit")
    c.different(p[0], p[1])
    return c


def protocols():
    c = Case("protocols", [MASQUERADE])
    for proto in (UDPLITE, DCCP):
        p = Var("p", HIGH)
        c.both(LAN, Packet(proto, A, R, 1000, 2000, b"data"), WAN, Packet(proto, OUT, R, p, 2000, b"data"))
    c.both(LAN, Packet(SCTP, A, R, 1000, 2000, b"init"), WAN, Packet(SCTP, OUT, R, 1000, 2000, b"init"), note="keeps its ports")
    c.both(LAN, Packet(SCTP, B, S, 1000, 2000, b"init"), WAN, Packet(SCTP, OUT, S, 1000, 2000, b"init"))
    c.drop(LAN, Packet(SCTP, B, R, 1000, 2000, b"init"), "nat-exhausted", note="its port is in use")
    for proto in (GRE, ESP, 4, 99):
        c.both(LAN, Packet(proto, A, R, data=b"\0\0\x08\0payload."), WAN, Packet(proto, OUT, R, data=b"\0\0\x08\0payload."))
        c.drop(LAN, Packet(proto, B, R, data=b"\0\0\x08\0payload."), "nat-exhausted", note="one for each peer")
        c.both(LAN, Packet(proto, B, S, data=b"\0\0\x08\0payload."), WAN, Packet(proto, OUT, S, data=b"\0\0\x08\0payload."))
    return c


def icmp_queries():
    c = Case("icmp-queries", [MASQUERADE])
    for kind in (8, 13, 15, 17):
        e = Var(f"identifier of {kind}", range(65536))
        q = Packet(ICMP, A, R, 5, kind=kind, data=b"\0" * 12)
        c.both(LAN, q, WAN, q.replace(src=OUT, sport=e))
        c.gone(reply(q.replace(src=OUT, sport=e)).replace(src=S), "from another host")
    for kind in (0, 14, 5, 4, 9, 40):
        c.drop(LAN, Packet(ICMP, A, R, 6, kind=kind, data=b"\0" * 28), "nat-untranslated", note="neither request nor reply to one")
    return c


def openers():
    """Packets that open nothing: RST, SYN with FIN, errors about unknown packets; mid-stream by `tcp-pickup`."""
    c = Case("openers", [MASQUERADE])
    from packet import Error
    for flags in (RST, RST | ACK, SYN | FIN, SYN | RST, SYN | FIN | ACK):
        c.drop(LAN, tcp(A, R, 1, 80, flags), "nat-untranslated", note=f"flags {flags}")
    c.drop(LAN, Error(A, R, udp(R, A, 5, 6)), "nat-untranslated")
    c.both(LAN, tcp(A, R, 2, 80, ACK), WAN, tcp(OUT, R, Var("p", HIGH), 80, ACK), note="mid-stream")
    c.both(LAN, tcp(A, R, 3, 80, SYN | ACK), WAN, tcp(OUT, R, Var("p", HIGH), 80, SYN | ACK), note="mid-stream")
    c.go(LAN, tcp(A, R, 4, 80, FIN | ACK), WAN, tcp(OUT, R, Var("p", HIGH), 80, FIN | ACK), note="mid-stream")
    c.go(LAN, tcp(A, R, 5, 80, 0), WAN, tcp(OUT, R, Var("p", HIGH), 80, 0), note="mid-stream")
    return c


def no_pickup():
    c = Case("no-pickup", [MASQUERADE], more="[flow-table]\ntcp-pickup = false\n")
    for flags in (ACK, SYN | ACK, FIN | ACK):
        c.drop(LAN, tcp(A, R, 2, 80, flags), "session-pickup")
    c.both(LAN, tcp(A, R, 2, 80), WAN, tcp(OUT, R, Var("p", HIGH), 80))
    return c


def ends_with_first():
    """A translation whose first packet is dropped later ends with it: its port is free again."""
    c = Case("ends-with-first", ["source udp from 10.0.0.0/8 to any as interface port 6000"])
    for n in range(3):
        c.step(LAN, udp(A, R, 10 + n, 53, ttl=1), verdict="drop", reason="ttl-expired", answer=lambda frames: None if len(frames) == 1 else "no error")
    c.go(LAN, udp(B, R, 20, 53), WAN, udp(OUT, R, 6000, 53))
    c.step(LAN, udp(B, R, 20, 53, ttl=1), verdict="drop", reason="ttl-expired", answer=lambda frames: None)
    c.go(WAN, udp(R, OUT, 53, 6000), LAN, udp(R, B, 53, 20), note="a later packet that is dropped ends nothing")
    return c


def bounds():
    c = Case("bounds", [MASQUERADE], more="[flow-table]\nsessions = 4\nhalf-open = 4\n")
    for n in range(4):
        c.both(LAN, udp(A, R, 10 + n, 53), WAN, udp(OUT, R, Var("p", HIGH), 53))
    c.drop(LAN, udp(A, R, 20, 53), "session-limit")
    return c


def half_open():
    """The oldest half-open translation makes room; replied ones stay."""
    c = Case("half-open", ["source udp from any to any as interface preserve"], more="[flow-table]\nsessions = 6\nhalf-open = 3\n")
    for n in range(2):
        c.both(LAN, udp(A, R, 5010 + n, 53), WAN, udp(OUT, R, 5010 + n, 53))
    for n in range(5):
        c.go(LAN, udp(A, R, 5020 + n, 53), WAN, udp(OUT, R, 5020 + n, 53))
    for n in range(2):
        c.gone(udp(R, OUT, 53, 5020 + n), "ended")
    for n in range(2, 5):
        c.go(WAN, udp(R, OUT, 53, 5020 + n), LAN, udp(R, A, 53, 5020 + n))
    for n in range(2):
        c.go(WAN, udp(R, OUT, 53, 5010 + n), LAN, udp(R, A, 53, 5010 + n))
    return c


# States and time-outs: inside its time-out a reply passes, and 3 seconds behind it does not.

def lapse(name, first, outside, more, seconds, ends_udp=True):
    """The packets `more` pass; then a reply comes shortly before the time-out, or 3 seconds after it."""
    for late in (False, True):
        c = Case(f"timeout-{name}-{'after' if late else 'before'}", ["source ip4 from 10.0.0.0/8 to any as interface preserve"])
        c.go(LAN, first, WAN, outside)
        for inside, p in more:
            if inside:
                c.go(LAN, p, WAN, p.replace(src=OUT))
            else:
                c.go(WAN, p.replace(dst=OUT), LAN, p)
        c.wait(seconds + 3 if late else seconds - 2)
        # Mid-stream packets do not tell, as they open a translation: a reply does.
        back = reply(outside)
        if first.proto == TCP:
            back = back.replace(flags=ACK)
        if late:
            c.gone(back, "after the time-out")
        else:
            c.go(WAN, back, LAN, back.replace(dst=first.src), note="before the time-out")
        yield c


def timeouts():
    t, o = tcp(A, R, 4000, 80), tcp(OUT, R, 4000, 80)
    back = tcp(R, A, 80, 4000, SYN | ACK)
    ack = tcp(A, R, 4000, 80, ACK)
    three = [(False, back), (True, ack)]
    fin_out, fin_in = tcp(A, R, 4000, 80, FIN | ACK), tcp(R, A, 80, 4000, FIN | ACK)
    u, uo = udp(A, R, 4000, 53), udp(OUT, R, 4000, 53)
    yield from lapse("syn-sent", t, o, [], 120)
    yield from lapse("syn-recv", t, o, [(False, back)], 60)
    yield from lapse("established", t, o, three, 86400)
    yield from lapse("fin-wait", t, o, three + [(True, fin_out)], 120)
    yield from lapse("fin-wait-in", t, o, three + [(False, fin_in)], 120)
    yield from lapse("time-wait", t, o, three + [(True, fin_out), (False, fin_in)], 120)
    yield from lapse("close", t, o, three + [(False, tcp(R, A, 80, 4000, RST))], 240)
    yield from lapse("close-out", t, o, three + [(True, tcp(A, R, 4000, 80, RST | ACK))], 240)
    yield from lapse("unclosed", t, o, three + [(False, tcp(R, A, 80, 4000, RST)), (True, ack)], 86400)
    yield from lapse("unreplied", ack, o.replace(flags=ACK), [], 300)
    yield from lapse("pickup", ack, o.replace(flags=ACK), [(False, tcp(R, A, 80, 4000, ACK))], 86400)
    yield from lapse("udp", u, uo, [], 30)
    yield from lapse("udp-stream", u, uo, [(False, udp(R, A, 53, 4000))], 120)
    yield from lapse("icmp", echo(A, R, 4000), echo(OUT, R, 4000), [], 30)
    g, go = Packet(GRE, A, R, data=b"12345678"), Packet(GRE, OUT, R, data=b"12345678")
    yield from lapse("generic", g, go, [], 600)


def refresh():
    """A packet in either direction restarts the time (RFC 4787, REQ-6), an error does not."""
    from packet import Error
    c = Case("refresh", ["source udp from any to any as interface preserve"])
    c.both(LAN, udp(A, R, 4000, 53), WAN, udp(OUT, R, 4000, 53))
    for n in range(4):
        c.wait(110)
        if n % 2:
            c.go(LAN, udp(A, R, 4000, 53), WAN, udp(OUT, R, 4000, 53))
        else:
            c.go(WAN, udp(R, OUT, 53, 4000), LAN, udp(R, A, 53, 4000))
    c.wait(80)
    c.go(WAN, Error(S, OUT, udp(OUT, R, 4000, 53)), LAN, Error(S, A, udp(A, R, 4000, 53)))
    c.wait(45)
    c.gone(udp(R, OUT, 53, 4000))
    return c


def reopened():
    """A SYN in `fin-wait`, `time-wait` and `close` keeps the translation; the SYN with ACK begins it anew."""
    for name, ending in (("fin-wait", [(True, FIN | ACK)]), ("time-wait", [(True, FIN | ACK), (False, FIN | ACK), (True, ACK)]),
                         ("close", [(False, RST | ACK)])):
        c = Case(f"reopened-{name}", [MASQUERADE])
        p = Var("p", HIGH)
        inside, outside = tcp(A, R, 4000, 80), tcp(OUT, R, p, 80)

        def walk(steps):
            for out, flags in steps:
                if out:
                    c.go(LAN, inside.replace(flags=flags), WAN, outside.replace(flags=flags))
                else:
                    c.go(WAN, reply(outside).replace(flags=flags), LAN, reply(inside).replace(flags=flags))
        three = [(True, SYN), (False, SYN | ACK), (True, ACK), (False, ACK)]
        walk(three + ending)
        c.wait(30)
        walk(three)
        c.wait(4000)  # established again
        walk([(False, ACK), (True, ACK)])
        yield c
    c = Case("half-reopened", [MASQUERADE])
    p = Var("p", HIGH)
    inside, outside = tcp(A, R, 4000, 80), tcp(OUT, R, p, 80)
    walk_steps = [(True, SYN), (False, SYN | ACK), (True, ACK), (True, FIN | ACK), (False, FIN | ACK)]
    for out, flags in walk_steps:
        if out:
            c.go(LAN, inside.replace(flags=flags), WAN, outside.replace(flags=flags))
        else:
            c.go(WAN, reply(outside).replace(flags=flags), LAN, reply(inside).replace(flags=flags))
    for _ in range(3):  # SYNs restart no time: 2 minutes after the last FIN it ends
        c.wait(39)
        c.go(LAN, inside, WAN, outside)
    c.wait(10)
    c.gone(reply(outside).replace(flags=ACK))
    yield c


def syn_established():
    """A SYN in `established` passes, and restarts no time."""
    c = Case("syn-established", [MASQUERADE], more='[flow-table.timeouts]\ntcp-established = "100s"\n')
    p = Var("p", HIGH)
    inside, outside = tcp(A, R, 4000, 80), tcp(OUT, R, p, 80)
    c.both(LAN, inside, WAN, outside)
    c.go(LAN, inside.replace(flags=ACK), WAN, outside.replace(flags=ACK))
    c.wait(60)
    c.go(LAN, inside, WAN, outside)
    c.wait(60)
    c.gone(reply(outside).replace(flags=ACK))
    return c


def vrfs():
    """Interfaces of another VRF are not concerned, and the same addresses there are others."""
    more = """
[[vrf]]
name = "blue"
[[interface]]
name = "blue-wan"
port = "null"
vrf = "blue"
address = "198.51.100.1/24"
[[route]]
prefix = "0.0.0.0/0"
vrf = "blue"
via = { address = "198.51.100.254" }
"""
    c = Case("vrfs", [MASQUERADE], more=more)
    c.both(LAN, udp(A, R, 1, 53), WAN, udp(OUT, R, Var("p", HIGH), 53))
    return c


def ttl_and_tos():
    """What translation leaves alone: TTL but for the hop, DSCP, identification, DF, IPv4 options."""
    c = Case("header", ["source udp from any to any as interface preserve"])
    for k in ({"tos": 0xb8}, {"ident": 777}, {"df": True}, {"options": b"\x94\x04\0\0"}, {"ttl": 2}):
        c.both(LAN, udp(A, R, 4000, 53, **k), WAN, udp(OUT, R, 4000, 53, **k))
    return c


def cases():
    yield from (dynamic, other_ways, two_edges, two_lists, order, paired_pool, group_pool, preserve, exhaustion, edge_ports,
                limit, limit_range, protocols, icmp_queries, openers, no_pickup, ends_with_first, bounds, half_open, refresh,
                syn_established, vrfs, ttl_and_tos)
    for made in (timeouts, reopened):
        for n in range(len(list(made()))):
            yield lambda made=made, n=n: list(made())[n]
