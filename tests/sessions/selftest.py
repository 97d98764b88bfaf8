#!/usr/bin/python3
"""With weir as the argument, checks that the model finds faults: models with one deliberate fault each have to disagree with weir, and
the model without a fault has to agree. With --random behind it, random cases alone have to find them."""
import multiprocessing
import os
import sys
import tempfile

import cases
from fields import Fields
from lists import IN, OTHER, Rule
from model import World
from packet import ACK, ESP, FIN, ICMP, RST, SYN, TCP
from questions import DEFECTS
from random_sessions import RandomCase

SEEDS = range(1, 41)
FAULTS = {}


def fault(text):
    def add(cls):
        FAULTS[text] = cls
        return cls
    return add


def later(milliseconds):
    """Returns a model whose time-outs are longer."""
    class Later(World):
        def expire(self, now):
            super().expire(now - milliseconds * 10**6)
    return Later


FAULTS["time-outs are 2 ms longer"] = later(2)
FAULTS["time-outs are 2 ms shorter"] = later(-2)


@fault("a SYN in `established` and `syn-recv` restarts the time")
class _(World):
    def segment(self, s, way, f):
        return super().segment(s, way, f) or f.plain_syn


class Belongs(World):
    """A SYN is a packet of the session in these states."""
    states = ()

    def belongs(self, s, way, f):
        return s.state in self.states or super().belongs(s, way, f)


for states in (("fin-wait",), ("time-wait",), ("close",), ("unreplied",), ("refused",)):
    FAULTS[f"a SYN is a packet of the session in `{states[0]}`"] = type("Belongs", (Belongs,), {"states": states})


@fault("a SYN is no packet of the session in `established`")
class _(World):
    def belongs(self, s, way, f):
        return super().belongs(s, way, f) and not (f.plain_syn and s.state == "established")


class Segment(World):
    """Another segment than the one that came."""
    def other(self, s, way, flags):
        raise NotImplementedError

    def segment(self, s, way, f):
        kept, f.flags = f.flags, self.other(s, way, f.flags)
        try:
            return super().segment(s, way, f)
        finally:
            f.flags = kept


@fault("a RST is like an ACK")
class _(Segment):
    def other(self, s, way, flags):
        return flags & ~RST | ACK if flags & RST else flags


@fault("a FIN is like an ACK")
class _(Segment):
    def other(self, s, way, flags):
        return flags & ~FIN | ACK if flags & FIN else flags


@fault("a FIN ends the session as a RST does")
class _(Segment):
    def other(self, s, way, flags):
        return flags & ~FIN | RST if flags & FIN else flags


@fault("a SYN with ACK establishes")
class _(Segment):
    def other(self, s, way, flags):
        return ACK if flags & SYN and flags & ACK else flags


@fault("nothing comes back from `close`")
class _(World):
    def segment(self, s, way, f):
        return True if s.state == "close" and not f.flags & RST else super().segment(s, way, f)


@fault("nothing comes back from `refused`")
class _(World):
    def segment(self, s, way, f):
        return True if s.state == "refused" and not f.flags & (RST | SYN) else super().segment(s, way, f)


@fault("a RST in `syn-sent` leads to `close`")
class _(World):
    def segment(self, s, way, f):
        if f.flags & RST and s.state in ("syn-sent", "syn-recv"):
            s.before, s.state = s.state, "close"
            return True
        return super().segment(s, way, f)


@fault("the answer to another SYN does not begin the session anew")
class _(World):
    def segment(self, s, way, f):
        s.others = frozenset()
        return super().segment(s, way, f)


@fault("replies do not change the state of UDP and others")
class _(World):
    def packet(self, s, way, f, now):
        super().packet(s, way, f, now)
        if s.key[0] != TCP:
            s.state = "new"


@fault("packets do not restart the time")
class _(World):
    def packet(self, s, way, f, now):
        last = s.last
        super().packet(s, way, f, now)
        s.last = last


@fault("a session permits in all zones")
class _(World):
    def find(self, zone, f):
        for other in {i.zone for i in self.setup.interfaces.values()}:
            s, way = super().find(other, f)
            if s is not None:
                return s, way
        return None, 0


@fault("a session permits in both directions")
class _(World):
    def permits(self, s, way, direction):
        return True


@fault("a session permits no replies")
class _(World):
    def permits(self, s, way, direction):
        return way == 0 and super().permits(s, way, direction)


@fault("a session for egress permits as one for ingress")
class _(World):
    def permits(self, s, way, direction):
        return super().permits(s, way, OTHER[direction])


class Read(World):
    """The fields of a packet, changed."""
    def read(self, f):
        raise NotImplementedError

    def step(self, f, entry, now):
        self.read(f)
        return super().step(f, entry, now)


@fault("an error about a packet goes to anybody")
class _(Read):
    def read(self, f):
        if f.quoted is not None and f.fault and f.quoted.src != f.dst and not f.quoted.later:
            f.fault = False


@fault("redirects and source quenches are errors of sessions")
class _(Read):
    def read(self, f):
        if f.proto == ICMP and f.kind in (4, 5) and f.quoted is not None and f.quoted.src == f.dst:
            f.fault = False


@fault("errors belong to no session")
class _(Read):
    def read(self, f):
        f.fault = True


@fault("errors about later fragments belong to sessions")
class _(Read):
    def read(self, f):
        if f.quoted is not None and f.quoted.later and f.quoted.src == f.dst:
            f.fault = False


@fault("the identifier of ICMP does not count")
class _(Read):
    def read(self, f):
        if f.ident is not None:
            f.ident = 7


@fault("ports 1000 to 1002 are alike")
class _(Read):
    def read(self, f):
        if f.proto in (6, 17):
            f.sport, f.dport = (1000 if x in (1001, 1002) else x for x in (f.sport, f.dport))


@fault("a RST opens sessions")
class _(World):
    def reflect(self, zone, direction, rule, f, s, way, mine, seen):
        kept, f.flags = f.flags, f.flags & ~RST
        try:
            return super().reflect(zone, direction, rule, f, s, way, mine, seen)
        finally:
            f.flags = kept


class OpensEsp(Fields):
    def key(self):
        return (self.proto, self.src, self.dst, 0, 0) if self.proto == ESP else super().key()

    def reply_key(self):
        return (self.proto, self.dst, self.src, 0, 0) if self.proto == ESP else super().reply_key()


@fault("ESP opens sessions")
class _(Read):
    def read(self, f):
        f.__class__ = OpensEsp


@fault("`tcp-pickup` is the other way round")
class _(World):
    def reflect(self, zone, direction, rule, f, s, way, mine, seen):
        self.setup.pickup = not self.setup.pickup
        try:
            return super().reflect(zone, direction, rule, f, s, way, mine, seen)
        finally:
            self.setup.pickup = not self.setup.pickup


@fault("a session stays whose first packet is dropped")
class _(World):
    def dropped(self, r, seen, f, entry, reason):
        kept, seen.opened = seen.opened, []
        r = super().dropped(r, seen, f, entry, reason)
        seen.opened = kept
        return r


@fault("a rule of the other direction does not open a session, too")
class _(World):
    def reflect(self, zone, direction, rule, f, s, way, mine, seen):
        return None if mine else super().reflect(zone, direction, rule, f, s, way, mine, seen)


class Bounds(World):
    more = (0, 0)

    def reflect(self, *a):
        x = self.setup
        x.sessions, x.half_open = x.sessions + self.more[0], x.half_open + self.more[1]
        try:
            return super().reflect(*a)
        finally:
            x.sessions, x.half_open = x.sessions - self.more[0], x.half_open - self.more[1]


FAULTS["one session more than the bound"] = type("Bounds", (Bounds,), {"more": (1, 0)})
FAULTS["one session fewer than the bound"] = type("Bounds", (Bounds,), {"more": (-1, 0)})
FAULTS["one half-open session more than the bound"] = type("Bounds", (Bounds,), {"more": (0, 1)})
FAULTS["one half-open session fewer than the bound"] = type("Bounds", (Bounds,), {"more": (0, -1)})


@fault("established sessions are half-open")
class _(World):
    def half_open(self, s):
        return s.key[0] == TCP or super().half_open(s)


@fault("TCP is not half-open once a reply has passed")
class _(World):
    def half_open(self, s):
        return super().half_open(s) and not s.replied


@fault("the newest half-open session ends")
class _(World):
    def reflect(self, *a):
        for s in self.sessions:
            s.born, s.last = -s.born, -s.last
        try:
            return super().reflect(*a)
        finally:
            for s in self.sessions:
                if s.born < 0:
                    s.born, s.last = -s.born, -s.last


@fault("lists for egress do not apply to answers of the gateway")
class _(World):
    def originate(self, f, to, now, reset=False, ended=()):
        super().originate(f, to, now, reset, ended)
        return [to]


@fault("the gateway answers ICMP errors")
class _(World):
    def answer(self, r, seen, f, entry, reason, ended):
        kept, f.kind = f.kind, 8 if f.kind in (3, 11) else f.kind
        try:
            return super().answer(r, seen, f, entry, reason, ended)
        finally:
            f.kind = kept


@fault("the TTL is looked at before lists")
class _(World):
    def lists(self, interface, direction, f, entry, seen, local=False):
        if direction != IN and f.ttl <= 1 and not local:
            return "ttl-expired"
        return super().lists(interface, direction, f, entry, seen, local)


def record(job):
    """Runs weir on a case; returns its number and lines."""
    n, weir, folder = job
    c = made(n)
    os.makedirs(os.path.join(folder, str(n)))
    lines, failed = c.replay(weir, os.path.join(folder, str(n)), "false")
    return n, lines, failed


def made(n):
    return MAKERS[n]()


def found(text):
    """Returns the name of the first case that finds a fault."""
    for n in ORDER:
        c = made(n)
        c.world_of = FAULTS[text]
        c.wanted = {}
        if c.modelled and c.judge(LINES[n], DEFECTS):
            return text, c.name
    return text, None


def rules():
    """The search of rules itself: the first match decides."""
    f = Fields.__new__(Fields)
    f.__dict__.update(proto=TCP, src="10.0.0.5", dst="8.8.8.8", sport=1000, dport=80, kind=None, flags=SYN, later=False, truncated=False)
    for r, want in ((Rule("permit", "ip"), True), (Rule("permit", "ip6"), False), (Rule("permit", "udp"), False), (Rule("permit", "tcp", dports=range(80, 81)), True),
                    (Rule("permit", "tcp", sports=range(80, 81)), False), (Rule("permit", "ip", src="10.0.0.0/16"), True), (Rule("permit", "ip", src="fd00::/16"), False),
                    (Rule("permit", "tcp", flags=("syn", "syn,ack")), True), (Rule("permit", "tcp", flags=("ack", "syn,ack")), False), (Rule("permit", "ip", frag="fragment"), False)):
        assert r.matches(f, "lan") == want, r.text()


if __name__ == "__main__":
    rules()
    if len(sys.argv) < 2:
        sys.exit("selftest.py WEIR [--random]")
    MAKERS, LINES, weir = list(cases.cases()) + [lambda seed=seed: RandomCase(seed) for seed in SEEDS], {}, os.path.abspath(sys.argv[1])
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder, fork.Pool(2) as pool:
        for n, lines, failed in pool.imap_unordered(record, [(n, weir, folder) for n in range(len(MAKERS))]):
            if failed:
                sys.exit(f"{made(n).name}: {failed}")
            LINES[n] = lines
    if "--random" in sys.argv:  # which faults random cases find alone
        LINES = {n: lines for n, lines in LINES.items() if made(n).name.startswith("random-")}
    AGREE = {n for n in LINES if getattr(made(n), "open", None) or not made(n).judge(LINES[n], DEFECTS)}
    ORDER = sorted(AGREE)
    wrong = [made(n).name for n in LINES if n not in AGREE]
    with fork.Pool(2) as pool:
        lost = 0
        for text, name in pool.imap(found, FAULTS):
            print(f"{text}: {name or 'NOT FOUND'}")
            lost += name is None
    print(f"{len(FAULTS) - lost} of {len(FAULTS)} faults found" + (f"; weir and the model differ: {', '.join(wrong)}" if wrong else ""))
    sys.exit(1 if lost else 0)
