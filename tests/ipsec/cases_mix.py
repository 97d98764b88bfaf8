"""Random mixtures of tunnels, of both directions, and of good, forged, repeated, too long and fragmented packets."""
import random

import esp
import wire
from case import LAN, WAN, Case, Clear, Together, icmp_error
from cases_alg import L4, L6, data, tunnel, tunnel_hosts
from cases_mtu import pieces
from cases_replay import Receiver


def mix(seed, cache=None):
    rng = random.Random(f"mix {seed}")
    made, models = [], {}
    for i in range(1, rng.randrange(3, 25)):
        esn, window = rng.random() < 0.5, rng.choice((0, 32, 64, 64, 128, 4096, 131072))
        esn = esn and window > 0
        made.append(tunnel(i, algorithm=rng.choice(esp.WITH_INTEGRITY), six=rng.random() < 0.4, esn=esn, window=window,
                           encap=(4500, rng.choice((4500, 1024 + i))) if rng.random() < 0.3 else None,
                           extra={"ecn": rng.choice(("true", "false"))}))
        models[i] = Receiver(window, esn)
    sas = [s for s, _ in made]
    case = Case(f"mix-{seed}", sas, [r for _, own in made for r in own] + ["bypass udp from any to 172.16.0.0/12"],
                cache=cache, lan_mtu=9000)
    case.step = rng.choice((20, 100, 1000))
    numbers = {i: 0 for i in models}
    for n in range(700):
        i = rng.randrange(1, len(made) + 1)
        sa, model = sas[i - 1], models[i]
        r4, r6 = tunnel_hosts(i)
        near, far = ((L4, r4), (L6, r6))[rng.random() < 0.4]
        size = rng.choice((0, 1, 10, 64, 100, 500, 1200, rng.randrange(1500)))
        kind = rng.random()
        if rng.random() < 0.01:
            case.tick()
        if kind < 0.4:
            p = wire.udp(near, far, rng.randrange(65536), 53, data(rng, size), df=rng.random() < 0.5, ident=n,
                         ttl=rng.choice((64, 2, 255)), tos=rng.choice((0, 2, 46 << 2)))
            most = sa.longest(case.mtu)
            if len(p) <= most:
                case.protect(p, sa, note=f"out {len(p)}")
            elif wire.Ip(p).df:
                error = icmp_error(LAN, 2, 0, mtu=most) if wire.v6(near) else icmp_error(LAN, 3, 4, mtu=most)
                case.drop(LAN, p, "mtu-exceeded", [error], note=f"out {len(p)}, {most} fit", secret=True)
            else:
                case.send(LAN, p, "forward", Together(pieces(sa, wire.forwarded(p), case.mtu)),
                          note=f"out {len(p)}, {most} fit", secret=True)
        elif kind < 0.5:
            p = wire.udp(L4, "172.16.3.4", 1, 2, data(rng, size), ident=n)
            case.send(LAN, p, "forward", [Clear(WAN, wire.forwarded(p))] if len(p) <= case.mtu
                      else Together(lambda c, f: None if len(f) == 2 else f"{len(f)} fragments"), note="clear out")
        elif kind < 0.55:
            case.drop(WAN, wire.udp(far, near, 1, 2, data(rng, 40)), "spd-unprotected", note="clear in")
        else:
            inward(case, rng, sa, model, numbers, i, near, far, size % 1300, kind)
    return case


def inward(case, rng, sa, model, numbers, i, near, far, size, kind):
    if rng.random() < 0.8:
        numbers[i] += rng.choice((1, 1, 1, 2, 5, 31, 32, 33, 64))
        seq = numbers[i]
    else:
        seq = max(1, numbers[i] - rng.randrange(1, 80))
    inner = wire.udp(far, near, 53, rng.randrange(65536), data(rng, size), ttl=rng.choice((2, 64)))
    note = f"{sa.name} in seq {seq} top {model.top}"
    if kind < 0.62:
        p = bytearray(sa.from_peer(inner, seq))
        p[-1 - rng.randrange(sa.a.icv)] ^= 0xff
        if not sa.six and sa.encap:
            p[26:28] = b"\0\0"
        elif sa.six and sa.encap:
            u = bytes(p[40:46]) + b"\0\0" + bytes(p[48:])
            p[46:48] = (wire.checksum(wire.pseudo(bytes(p[8:24]), bytes(p[24:40]), 17, len(u)) + u)
                        or 0xffff).to_bytes(2, "big")
        case.drop(WAN, bytes(p), {"esp-auth", "esp-replay"}, note=note + " forged")
        return
    if kind < 0.66:
        inner = wire.udp("198.18.7.7" if ":" not in far else "2001:db8:77::1", near, 53, 5, data(rng, 30))
        fate = model.takes(seq)
        case.drop(WAN, sa.from_peer(inner, seq), "esp-selector" if fate == "pass" else {"esp-replay", "esp-auth"},
                  note=note + " wrong selectors")
        return
    fate = model.takes(seq)
    p = sa.from_peer(inner, seq)
    if fate == "pass":
        case.decrypt(p, inner, note=note)
    else:
        # With ESN an old number may be taken for one of the next 2^32, whose ICV is wrong.
        case.drop(WAN, p, {"esp-replay", "esp-auth"} if sa.esn else fate, note=note)


def cases():
    for seed in range(12):
        yield lambda s=seed: mix(s, (None, "{ outbound = true, inbound = true, flows = 16 }",
                                     "{ outbound = true, inbound = true }")[s % 3])
