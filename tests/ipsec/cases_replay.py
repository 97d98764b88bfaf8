"""Anti-replay (RFC 4303, 3.4.3 and appendix A): windows, duplicates in one vector, forged packets, ESN."""
import random

import wire
from case import WAN, Case
from cases_alg import L4, data, tunnel, tunnel_hosts

WINDOWS = (32, 64, 128, 1024, 4096, 131072)


class Receiver:
    """RFC 4303, appendix A: the highest number seen and the set of those within the window."""

    def __init__(self, window, esn):
        self.window, self.esn, self.top, self.seen = window, esn, 0, set()

    def guess(self, low):
        """Appendix A2.2: the 64-bit number that the receiver takes the low half for; None if it is before 0."""
        if not self.esn:
            return low
        top_high, top_low = self.top >> 32, self.top & 0xffffffff
        bottom = (top_low - self.window + 1) & 0xffffffff
        if top_low >= self.window - 1:
            high = top_high if low >= bottom else top_high + 1
        else:
            high = top_high - 1 if low >= bottom else top_high
        return None if high < 0 else high << 32 | low

    def takes(self, seq):
        """Whether a genuine packet with this number passes; updates the window."""
        if self.window == 0:
            return "pass"
        got = self.guess(seq & 0xffffffff)
        if got is None:
            return "esp-replay"
        if got != seq:
            # Another high half is assumed: the ICV is wrong, unless the assumed number is a replay.
            return "esp-replay" if got <= self.top - self.window or got in self.seen else "esp-auth"
        if seq <= self.top - self.window or seq in self.seen:
            return "esp-replay"
        self.seen.add(seq)
        if seq > self.top:
            self.top = seq
            if len(self.seen) > 4 * self.window:
                self.seen = {s for s in self.seen if s > self.top - self.window}
        return "pass"


class Player:
    """Sends numbers and expects what the receiver of the RFC does."""

    def __init__(self, name, window, esn=False, algorithm="aes128gcm16", udp=False, explicit=True):
        self.sa, rules = tunnel(1, algorithm=algorithm, esn=esn, window=window if explicit else None,
                                encap=(4500, 4500) if udp else None)
        self.case = Case(name, [self.sa], rules)
        self.model = Receiver(window, esn)
        self.rng = random.Random(name)
        self.count = 0

    def packet(self, seq):
        self.count += 1
        inner = wire.udp("192.168.1.9", L4, self.count & 0xffff, 53, data(self.rng, 20))
        return inner, self.sa.from_peer(inner, seq)

    def play(self, *numbers, note=""):
        for seq in numbers:
            inner, p = self.packet(seq)
            fate = self.model.takes(seq)
            text = f"{note} seq {seq} top {self.model.top}"
            if fate == "pass":
                self.case.decrypt(p, inner, note=text)
            else:
                guess = self.model.guess(seq & 0xffffffff)
                self.case.drop(WAN, p, fate if guess == seq else {"esp-replay", "esp-auth"}, note=text)

    def forged(self, *numbers, note="forged"):
        for seq in numbers:
            _, p = self.packet(seq)
            bad = bytearray(p)
            bad[-1 - self.rng.randrange(self.sa.a.icv)] ^= 1 << self.rng.randrange(8)
            got = self.model.guess(seq & 0xffffffff)
            old = self.model.window and (got is None or got <= self.model.top - self.model.window
                                         or got in self.model.seen)
            # Within a vector the ICV may be checked before the number of an earlier packet is marked.
            self.case.drop(WAN, bytes(bad), {"esp-replay", "esp-auth"} if old or seq <= self.model.top else "esp-auth",
                           note=f"{note} seq {seq} top {self.model.top}")

    def then(self):
        self.case.tick()


def edges(window, esn, udp=False):
    p = Player(f"replay-edges-{window}{'-esn' if esn else ''}{'-udp' if udp else ''}", window, esn, udp=udp)
    w, t = window, 3 * window + 100
    p.play(1, 1, 2, 2, 1, note="first")
    p.then()
    p.play(t, note="jump")
    p.then()
    p.play(t - w, t - w + 1, t - w + 1, t - w - 1, t, t - 1, t - 1, note="edge")
    p.then()
    p.play(t + 1, note="one on")
    p.then()
    p.play(t - w + 1, t - w + 2, t - w + 2, note="edge moved by one")
    p.then()
    p.forged(t + 2, t + 10 * w, t - 5, t - w, t - w + 3, note="forged")
    p.then()
    p.play(t - w + 3, t + 2, t - 5, note="after forged: the window has not moved")
    p.then()
    top = p.model.top + 2 * w
    p.play(top, note="far jump")
    p.then()
    p.play(*[top - k for k in (0, 1, 2, w // 2, w - 2, w - 1, w, w + 1)], note="after a far jump")
    p.then()
    p.play(*[top - k for k in (0, 1, 2, w // 2, w - 2, w - 1, w, w + 1)], note="again")
    p.then()
    top = p.model.top
    p.play(top + w - 1, top, top + w, top, top + 1, note="jump by window - 1 and window")
    p.then()
    top = p.model.top
    p.play(top + w, top + 1, top + 2 * w + 1, top + w + 1, top + w + 2, note="jump by window + 1")
    return p.case


def one_vector(window, esn):
    """All in one vector: duplicates, and packets that the window passes."""
    p = Player(f"replay-vector-{window}{'-esn' if esn else ''}", window, esn)
    p.play(*[5] * 100, note="duplicates")
    p.play(6, 6, 7, 7, 7, 6, 5)
    top = 10
    p.play(top, top + window, top, top + 1, top + 1, note="moved past")
    p.then()
    top = p.model.top
    p.play(top + 1, top + 1 + window, top + 2, top + 3, top + 1 + 3 * window, top + 2 + window, note="moved past twice")
    p.then()
    top = p.model.top
    p.forged(*[top + 5] * 3)
    p.play(top + 5, top + 5, note="genuine behind forged ones of the same number")
    p.forged(top + 6)
    p.forged(top + 100 * window)
    p.play(top + 4, top + 6, top + 6)
    p.then()
    top = p.model.top
    p.forged(top + 4 * window)
    p.play(*[top + k for k in range(1, 120)], note="behind a forged far one")
    return p.case


def wander(window, esn, algorithm, seed):
    """Numbers at random around the top, with duplicates, jumps and forged ones; vectors of several lengths."""
    p = Player(f"replay-random-{window}{'-esn' if esn else ''}-{seed}", window, esn, algorithm)
    rng = p.rng
    top, used = 1, [1]
    if esn and seed % 2:
        # Steps that the receiver's guess can follow.
        for s in (2**31, 2**32 - window * 2 - 200):
            p.play(s, note="far")
            p.then()
            top = s
    for _ in range(900):
        kind = rng.random()
        if kind < 0.45:
            top += rng.choice((1, 1, 1, 2, 3, window // 2, window - 1, window, window + 1))
            seq = top
        elif kind < 0.6:
            seq = rng.choice(used[-50:])
        else:
            seq = max(1, top - rng.choice((1, 2, 3, rng.randrange(window), window - 1, window, window + 1,
                                           rng.randrange(2 * window))))
        used.append(seq)
        if rng.random() < 0.1:
            p.forged(seq)
        else:
            p.play(seq)
        if rng.random() < 0.02:
            p.then()
        top = max(top, p.model.top)
    return p.case


def rollover(window, algorithm):
    """ESN: the low half begins again; both halves of the window belong to different high halves."""
    p = Player(f"replay-esn-rollover-{window}-{algorithm}", window, True, algorithm)
    e = 2**32
    p.play(1, 2**31, note="on the way")
    p.then()
    p.play(e - 10, e - 5, e - 3, note="before")
    p.then()
    p.play(e + 2, note="over")
    p.then()
    p.play(e - 4, e - 2, e - 1, e, e + 1, e - 1, e, e + 2, e - 10, note="both sides")
    p.then()
    p.play(e + 2 + window, note="on")
    p.then()
    p.play(e + 3, e + 2, e + 1, e - 1, note="the old side has left the window")
    p.then()
    p.play(e + 2**31, 2 * e - 7, note="second round")
    p.then()
    p.forged(2 * e + 5, 2 * e - 6, note="forged over the edge")
    p.then()
    p.play(2 * e - 6, 2 * e - 1, 2 * e, 2 * e + 1, 2 * e - 2, 2 * e, 2 * e + window, 2 * e + 1, 2 * e + 2,
           note="in one vector")
    return p.case


def rollover_by_guess(window):
    """A packet with a high half that the receiver cannot guess has a wrong ICV, and moves no window."""
    p = Player(f"replay-esn-guess-{window}", window, True)
    e = 2**32
    p.play(100 + window, 101 + window)
    p.then()
    p.play(5 * e + 200 + window, note="another high half: ICV wrong")
    p.then()
    p.play(e + 150 + window, note="another high half")
    p.then()
    p.play(102 + window, 103 + window, 100 + window)
    return p.case


def last_number():
    """Without ESN the highest number is 2^32 - 1, and smaller ones behind it are replays."""
    p = Player("replay-last-number", 64, False)
    e = 2**32
    p.play(e - 200, e - 2, e - 1, e - 1, e - 3, e - 64, e - 65, 1, 2, 5, 100, note="at the end")
    p.then()
    p.play(1, 3, 1000, 2**31, e - 4, note="no wrap")
    return p.case


def off(algorithm):
    p = Player(f"replay-off-{algorithm}", 0, False, algorithm)
    p.play(7, 7, 7, 1, 2**32 - 1, 1, 7, 7, note="window 0")
    p.then()
    p.forged(7, 8, 9)
    p.play(7, 5, 5)
    return p.case


def off_with_esn():
    """Without a window, the high half follows the numbers that came, and repeated ones pass."""
    p = Player("replay-off-esn", 0, True)
    p.rng = random.Random(6)
    e = 2**32
    for numbers in ((1, 2, 2, 1), (2**31,), (e - 3, e - 2, e - 2), (e - 1, e, e + 1, e - 1, e + 1), (e + 2**31,),
                    (2 * e - 5,), (2 * e + 5, 2 * e - 6)):
        for seq in numbers:
            inner, packet = p.packet(seq)
            p.case.decrypt(packet, inner, note=f"seq {seq}")
        p.then()
    return p.case


def default_window():
    """The window is 64 if it is not configured."""
    p = Player("replay-default-window", 64, False, explicit=False)
    p.play(1000, 937, 936, 938, 937)
    return p.case


def sas_apart():
    """Windows of two SAs have nothing to do with each other."""
    a, rules = tunnel(1, window=32)
    b, more = tunnel(2, window=64)
    case = Case("replay-two-sas", [a, b], rules + more)
    rng = random.Random(4)
    ma, mb = Receiver(32, False), Receiver(64, False)
    for _ in range(400):
        i, sa, m = rng.choice(((1, a, ma), (2, b, mb)))
        seq = max(1, m.top + rng.randrange(-80, 20))
        inner = wire.udp(tunnel_hosts(i)[0], L4, 1, 2, data(rng, 20))
        p = sa.from_peer(inner, seq)
        fate = m.takes(seq)
        if fate == "pass":
            case.decrypt(p, inner, note=f"{sa.name} {seq}")
        else:
            case.drop(WAN, p, fate, note=f"{sa.name} {seq}")
    return case


def bad_packets_move_nothing():
    """A packet whose ICV is right has used its number, even if a later check drops it (RFC 4303, 3.4.3)."""
    sa, rules = tunnel(1)
    case = Case("replay-after-selector", [sa], rules)
    rng = random.Random(5)
    wrong = wire.udp("192.168.77.9", L4, 1, 2, data(rng, 20))
    right = wire.udp("192.168.1.9", L4, 1, 2, data(rng, 20))
    case.drop(WAN, sa.from_peer(wrong, 10), "esp-selector")
    case.tick()
    case.drop(WAN, sa.from_peer(right, 10), "esp-replay", note="the number of a packet that failed the selectors")
    case.decrypt(sa.from_peer(right, 11), right)
    case.drop(WAN, sa.from_peer(b"", 100, next_header=59), "esp-dummy")
    case.tick()
    case.drop(WAN, sa.from_peer(right, 36), "esp-replay", note="a dummy moves the window too")
    case.decrypt(sa.from_peer(right, 37), right)
    return case


def cases():
    for w in WINDOWS:
        for esn in (False, True):
            yield lambda w=w, e=esn: edges(w, e)
            yield lambda w=w, e=esn: one_vector(w, e)
            for seed, algorithm in ((1, "aes128gcm16"), (2, "aes128-sha256")):
                yield lambda w=w, e=esn, s=seed, a=algorithm: wander(w, e, a, s)
    yield lambda: edges(64, True, udp=True)
    algorithms = ("aes256gcm16", "aes128-sha1", "aes128ccm16", "aes128gmac", "aes128ctr-sha256", "null-sha512",
                  "chacha20poly1305")
    for w in (32, 64, 4096, 131072):
        for algorithm in algorithms if w == 64 else algorithms[:2]:
            yield lambda w=w, a=algorithm: rollover(w, a)
        yield lambda w=w: rollover_by_guess(w)
    yield last_number
    yield lambda: off("aes128gcm16")
    yield lambda: off("aes256-sha384")
    yield off_with_esn
    yield default_window
    yield sas_apart
    yield bad_packets_move_nothing
