"""A model of docs/sessions.md, docs/acl.md and the parts of docs/forwarding.md that lists need: rules by a linear search, sessions in a
list, states and time-outs by the tables of the text.

Where the text allows two answers, the model has a question (`QUESTIONS`). A `World` is one history with the answers that it took so far.
`outcomes` gives each world that a packet may lead to, and a caller keeps the worlds that agree with weir. A world answers a question once:
weir has to answer it in the same way each time."""
from fields import NEVER_ANSWERED, REQUESTS, own, six
from packet import ACK, FIN, ICMP, ICMP6, RST, SYN, TCP, UDP, UDPLITE
from questions import DEFECTS, QUESTIONS
from lists import IN, OTHER, OUT

LATE = 1_100_000_000  # nanoseconds in which the place of a session that has ended becomes free: "within a second"


class Session:
    # `counts`: packets of the first one's direction, and of the other one.
    FIELDS = ("zone", "key", "openers", "born", "last", "state", "before", "syns", "acks", "fins", "replied", "others", "between", "refuser", "begun", "established", "since", "counts")

    def __init__(self, **k):
        for name in self.FIELDS:
            setattr(self, name, k.get(name))

    def copy(self):
        s = Session.__new__(Session)
        for name in self.FIELDS:
            setattr(s, name, getattr(self, name))
        s.openers = dict(self.openers)
        return s

    def frozen(self):
        return tuple(tuple(sorted((d, r.text()) for d, r in x.items())) if isinstance(x, dict) else x
                     for x in (getattr(self, name) for name in self.FIELDS[:-1]))

    def timeout(self, setup):
        """Returns the time-out in nanoseconds."""
        proto = self.key[0]
        if proto == TCP:
            name = "tcp-" + self.state
        elif proto in (UDP, UDPLITE):
            name = "udp-stream" if self.state == "stream" else "udp"
        else:
            name = "icmp" if proto in (ICMP, ICMP6) else "generic"
        return setup.timeouts[name] * 10**9

    def ends(self, setup):
        return self.last + self.timeout(setup)


class Result:
    """The fate of a packet. `acl`: pairs of interface and direction with a list name, an action, and the texts of which one is
    the rule that decided; `answers`: the interfaces by which an answer leaves, `None`: not compared."""

    def __init__(self):
        self.verdict, self.reason, self.out, self.acl, self.answers = None, None, [], [], []

    def __str__(self):
        text = f"{self.verdict} {self.reason or ''}{','.join(self.out)}".strip()
        return text + "".join(f"; {i} {d}: {a} by {' or '.join(sorted(t))}" for i, d, a, t in self.acl or [])


class World:
    def __init__(self, setup):
        self.setup, self.sessions, self.answers, self.script, self.taken, self.serial = setup, [], {}, [], [], 0
        self.defects = ()  # the known ones that it may have
        self.ghosts = []  # (the time at which it ended, whether it was half-open) of sessions that may still count for bounds

    def copy(self):
        w = type(self)(self.setup)
        w.defects, w.ghosts = self.defects, list(self.ghosts)
        w.sessions, w.answers, w.serial = [s.copy() for s in self.sessions], dict(self.answers), self.serial
        return w

    def frozen(self):
        return tuple(sorted(repr(s.frozen()) for s in self.sessions)), tuple(self.ghosts)

    def choose(self, question, options=2):
        """Returns the answer to a question: the one of before, the next one of the script, or the first."""
        assert question in QUESTIONS or question in DEFECTS, question
        if question not in self.answers:
            at = len(self.taken)
            answer = self.script[at] if at < len(self.script) else 0
            self.taken.append((answer, options))
            self.answers[question] = answer
        return self.answers[question]

    def either(self):
        """Returns a yes or no that the text leaves open each time anew."""
        at = len(self.taken)
        answer = self.script[at] if at < len(self.script) else 0
        self.taken.append((answer, 2))
        return answer

    def flawed(self, defect):
        """Returns whether weir has a known defect here."""
        return defect in self.defects and bool(self.choose(defect))

    # Sessions

    def expire(self, now):
        gone = [s for s in self.sessions if now > s.ends(self.setup) or now == s.ends(self.setup) and not self.choose("at-the-time-out")]
        self.ghosts = [g for g in self.ghosts if now - g[0] < LATE] + [(s.ends(self.setup), self.half_open(s)) for s in gone if now - s.ends(self.setup) < LATE]
        self.sessions = [s for s in self.sessions if s not in gone]

    def find(self, zone, f):
        """Returns the session of a zone with the packet's tuple, and the packet's direction: 0 that of the first packet, 1 that of replies."""
        key, reply = f.key(), f.reply_key()
        for s in self.sessions:
            if s.zone == zone:
                if key == s.key:
                    return s, 0
                if reply == s.key:
                    return s, 1
        return None, 0

    def belongs(self, s, way, f):
        """Returns whether a packet with the session's tuple is a packet of it."""
        if not f.plain_syn or f.flags & (FIN | RST):
            return True
        if s.state in ("time-wait", "close", "fin-wait"):
            return False
        if s.state == "unreplied":
            return way == 0
        if s.state == "refused":
            return way == self.refused_side(s)
        return True

    def refused_side(self, s):
        """Returns the direction of the side that was refused."""
        if s.begun and self.choose("refused-anew"):
            return s.begun
        return 1 if s.refuser == 0 and not s.begun and self.choose("reset-by-opener") else 0

    def permits(self, s, way, direction):
        """Returns whether packets of the session in the direction `way` skip the lists of `direction`."""
        return (direction if way == 0 else OTHER[direction]) in s.openers

    # Lists

    def lists(self, interface, direction, f, entry, seen, local=False):
        """Applies the lists of an interface to a packet. Returns the drop reason or `None`. `seen` collects sessions that see it."""
        i = self.setup.interfaces[interface]
        lists = i.lists[direction]
        s, way = self.find(i.zone, f)
        mine = s is not None and self.belongs(s, way, f)
        if not lists:
            if s is not None:
                if not f.later:
                    (seen.rules if mine else seen.strange).append((s, way))
            return None
        if mine and self.permits(s, way, direction):
            seen.by.append((s, way))
            seen.note(interface, direction, "permit", {r.text() for r in s.openers.values()})
            return None
        if f.quoted is not None and not f.fault:
            e, quoted_way = self.find(i.zone, f.quoted)
            if e is not None and f.quoted.known_flags and not self.belongs(e, quoted_way, f.quoted) and self.choose("quoted-syn"):
                e = None
            if e is not None and self.permits(e, 1 - quoted_way, direction):
                seen.note(interface, direction, "permit", {r.text() for r in e.openers.values()})
                return None
        action, rule = "deny", None
        for part in lists:
            rule = next((r for r in part.rules if r.matches(f, entry)), None)
            if rule is not None:
                action = rule.action
                break
            if part.default != "next":
                action = part.default
                break
        plain = {"permit+reflect": "permit", "reject+icmp": "reject", "reject+reset": "reject"}.get(action, action)
        texts = {rule.text()} if rule is not None else {f"{plain} by default", "behind the last list: deny"} if plain == "deny" else {f"{plain} by default"}
        seen.note(interface, direction, action, texts)
        seen.action = action
        if plain != "permit":
            return "acl-" + plain
        if rule is not None and rule.reflects and not local:
            if reason := self.reflect(i.zone, direction, rule, f, s, way, mine, seen):
                return reason
            if seen.opened and seen.opened[-1] in self.sessions and seen.opened[-1].zone == i.zone:
                return None
        if s is not None:
            (seen.rules if mine else seen.strange).append((s, way))
        return None

    def reflect(self, zone, direction, rule, f, s, way, mine, seen):
        """A `permit+reflect` rule matched. Returns the drop reason or `None`."""
        midstream = f.proto == TCP and not f.plain_syn
        if mine:
            if midstream and not self.setup.pickup and s not in seen.opened and not f.flags & RST and self.choose("pickup-of-session"):
                return "session-pickup"
            d = direction if way == 0 else OTHER[direction]
            if d not in s.openers and not f.later and (way == 0 or self.choose("reply-extends")):
                s.openers[d] = rule
                seen.extended.append((s, d))
            return None
        if f.key() is None or f.later:
            return None
        if f.proto == TCP and (f.flags & RST or f.flags & (SYN | FIN) == SYN | FIN):
            return None
        if s is not None:
            if s.state not in ("time-wait", "close", "refused"):
                return None
        elif midstream and not self.setup.pickup:
            return "session-pickup"
        full = len(self.sessions) >= self.setup.sessions
        if not full and len(self.sessions) + len(self.ghosts) >= self.setup.sessions:
            full = self.either()
        if s is None and full:
            if not (self.half_opens() >= self.setup.half_open and self.choose("both-full")):
                return "session-limit"
        if s is not None:
            self.sessions.remove(s)
            seen.renewed.append(s)
        full = self.half_opens() >= self.setup.half_open
        if not full and self.half_opens() + sum(half for _, half in self.ghosts) >= self.setup.half_open:
            full = self.either()
        if full:
            half = [x for x in self.sessions if x not in seen.opened and self.half_open(x)]
            if half:
                first, idle = min(half, key=lambda x: x.born), min(half, key=lambda x: (x.last, x.born))
                self.sessions.remove(idle if first is not idle and self.choose("oldest") else first)
        self.serial += 1
        n = Session(zone=zone, key=f.key(), openers={direction: rule}, born=self.serial, last=seen.now, syns=frozenset(), acks=frozenset(), fins=frozenset(),
                    others=frozenset(), replied=False, begun=0, established=False, counts=(1, 0))
        n.state = "new"
        if f.proto == TCP:
            n.state = "syn-sent" if f.plain_syn else "fin-wait" if f.flags & FIN else "unreplied"
            n.syns = frozenset({0}) if f.plain_syn else frozenset()
            n.acks = frozenset({0}) if f.flags & ACK and not f.flags & SYN else frozenset()
            n.fins = frozenset({0}) if f.flags & FIN else frozenset()
        self.sessions.append(n)
        seen.opened.append(n)
        return None

    def half_opens(self):
        return sum(self.half_open(s) for s in self.sessions)

    def half_open(self, s):
        if s.key[0] != TCP:
            return not s.replied
        if s.established:
            return False
        if not s.replied or s.state not in ("fin-wait", "time-wait", "close"):
            return True
        if s.state == "close":
            return s.before not in ("fin-wait", "time-wait") or bool(self.choose("half-open-close"))
        if s.state == "fin-wait":
            return not s.since and bool(self.choose("half-open-fin"))
        return bool(self.choose("half-open-time-wait"))

    # States

    def packet(self, s, way, f, now):
        """A packet of the session passes."""
        s.counts = (s.counts[0] + (not way), s.counts[1] + way)
        if s.key[0] != TCP:
            if way:
                s.state, s.replied = "stream", True
            s.last = now
            return
        was = s.state
        if self.segment(s, way, f):
            s.last = now
        s.since = was == "fin-wait" and (s.since or way) if s.state == "fin-wait" else None  # whether a reply has passed behind the FIN
        if way and not s.replied and not (f.flags & RST and self.choose("half-open-reset")):
            s.replied = True
        if s.state == "established":
            s.established = True

    def segment(self, s, way, f):
        """Changes the state; returns whether the time restarts."""
        if f.plain_syn and f.flags & (FIN | RST):  # no packet of TCP
            return False
        if f.plain_syn and s.state in ("established", "syn-recv"):
            return False
        return self.change(s, way, f.flags)

    def change(self, s, way, flags):
        if s.others and flags & (SYN | ACK) != SYN | ACK:
            s.between = True
        if flags & RST:
            if s.state in ("syn-sent", "syn-recv"):
                s.before, s.state, s.refuser = s.state, "refused", way
            elif s.state not in ("close", "refused"):
                s.before, s.state = s.state, "close"
                if s.before == "unreplied" and way and self.choose("reset-of-unreplied"):
                    s.before, s.established = "established", True
            return True
        if flags & (SYN | ACK) == SYN:
            if s.state == "refused":  # of the side that was refused
                self.anew(s, "syn-sent", way)
            elif s.state == "unreplied":
                if self.choose("syn-in-unreplied"):
                    s.state, s.syns = "syn-sent", frozenset({way})
            else:
                s.syns |= {way}
                if len(s.syns) == 2:
                    s.state = "syn-recv"
            return True
        if flags & SYN and flags & ACK and 1 - way in s.others:
            if not s.between or not self.choose("late-answer"):
                self.anew(s, "syn-recv", 1 - way)
                s.syns = frozenset({0, 1})
                return True
        if s.state in ("close", "refused"):
            s.state, s.before = s.before, None
            if self.choose("back-and-on"):
                return True
        if flags & SYN:
            s.syns |= {way}
            if s.state == "syn-sent" and len(s.syns) == 2:
                s.state = "syn-recv"
        elif flags & ACK:
            s.acks |= {way}
            if s.state == "syn-recv":
                s.state = "established"
            elif s.state == "syn-sent" and len(s.acks) == 2 and not self.choose("late-established"):
                s.state = "established"
        if s.state == "unreplied" and way:
            s.state = "established"
        s.established |= s.state == "established"
        if flags & FIN:
            s.fins |= {way}
            s.state = "time-wait" if len(s.fins) == 2 else "fin-wait"
        return True

    def anew(self, s, state, syn):
        s.state, s.before, s.fins, s.acks, s.syns, s.others, s.between, s.refuser, s.begun = state, None, frozenset(), frozenset(), frozenset({syn}), frozenset(), None, None, syn
        if s.established and not self.choose("anew-half-open"):
            s.established = False
        s.replied = s.established

    # The way of a packet

    def step(self, f, entry, now):
        """Moves a packet that comes in by `entry` through the gateway."""
        self.expire(now)
        r = Result()
        seen = Seen(now, r)
        setup = self.setup
        reason = self.lists(entry, IN, f, entry, seen)
        if reason:
            return self.dropped(r, seen, f, entry, reason)
        to = setup.route(f.dst)
        if to is None:
            return self.local(r, seen, f, entry)
        if to not in setup.interfaces:
            return self.dropped(r, seen, f, entry, to)
        reason = self.lists(to, OUT, f, entry, seen)
        if reason:
            return self.dropped(r, seen, f, entry, reason)
        if f.ttl <= 1:
            return self.dropped(r, seen, f, entry, "ttl-expired")
        r.verdict, r.out = "forward", [to]
        self.passed(seen, f, now)
        return r

    def passed(self, seen, f, now):
        """A packet has passed: sessions that it opened are confirmed, others see it."""
        done = list(seen.opened)

        def see(pairs):
            for s, way in pairs:
                if s in self.sessions and s not in done:
                    done.append(s)
                    self.packet(s, way, f, now)
        see(seen.by + seen.rules)
        strange = [(s, way) for s, way in seen.strange if s in self.sessions]
        for s, way in strange:
            if f.plain_syn:
                s.others, s.between = s.others | {way}, False

    def dropped(self, r, seen, f, entry, reason):
        r.verdict, r.reason = "drop", reason
        ended = [s for s in seen.opened if s in self.sessions]
        if reason == "local-unhandled" and ended and self.choose("local-unhandled"):
            ended = []
        r.answers = self.answer(r, seen, f, entry, reason, ended)
        self.sessions = [s for s in self.sessions if s not in ended]
        if seen.renewed and ended and self.choose("renewed-dropped"):
            self.sessions += [s for s in seen.renewed if s.zone in [e.zone for e in ended]]
        for s, d in seen.extended:
            if s in self.sessions and self.choose("extended-by-dropped"):
                del s.openers[d]
        by = [(s, way) for s, way in seen.by if s in self.sessions and s not in seen.opened]
        if by and self.choose("dropped-later"):
            for s, way in by:
                self.packet(s, way, f, seen.now)
        strange = [(s, way) for s, way in seen.strange if s in self.sessions and f.plain_syn]
        if strange and self.choose("other-syn-dropped"):
            for s, way in strange:
                s.others, s.between = s.others | {way}, False
        return r

    def answer(self, r, seen, f, entry, reason, ended):
        """Returns the interfaces by which an answer leaves; `None`: not compared."""
        setup = self.setup
        kinds = {"ttl-expired": ((11, 0), (3, 0)), "acl-reject": ((3, 13), (1, 1)), "unreachable": ((3, 1), (1, 6)), "local-unhandled": ((3, 3), (1, 4))}
        if reason not in kinds:
            return []
        if f.fragment:
            return None
        if reason == "local-unhandled":
            if f.proto in (TCP, ICMP, ICMP6):
                return []
            if f.proto != UDP:
                return None
        to = setup.route(f.src)
        if to not in setup.interfaces:
            return None
        reset = reason == "acl-reject" and (seen.action == "reject+reset" or seen.action == "reject" and f.proto == TCP)
        if reset:
            if f.flags & RST or f.truncated:
                return [] if f.flags & RST else None
            a = own(TCP, f.dst, f.src, flags=RST if f.flags & ACK else RST | ACK, sport=f.dport, dport=f.sport)
        else:
            if f.proto in (ICMP, ICMP6) and (f.kind is None or f.kind in NEVER_ANSWERED[f.proto]):
                return []
            kind, code = kinds[reason][six(f.src)]
            src = f.dst if setup.route(f.dst) is None and six(f.src) else setup.interfaces[to].address[six(f.src)]
            a = own(ICMP6 if six(f.src) else ICMP, src, f.src, kind, code, quoted=f)
        return self.originate(a, to, seen.now, reset, ended)

    def originate(self, f, to, now, reset=False, ended=()):
        """A packet of the gateway passes the lists of `to`. Returns the interfaces that it leaves by."""
        kept = self.sessions
        key = f.quoted if f.quoted is not None else f
        involved = [s for s in ended if s.key in (key.key(), key.reply_key())]
        if involved and self.choose("answer-of-unconfirmed"):
            self.sessions = [s for s in kept if s not in ended]
        seen = Seen(now, Result())
        reason = self.lists(to, OUT, f, None, seen, local=True)
        self.sessions = kept
        if reason:
            return []
        ending, self.sessions = self.sessions, [s for s in self.sessions if s not in ended]  # an answer does not keep them
        met = any(s in self.sessions for s, _ in seen.by + seen.rules)
        if met and not (reset and self.choose("own-reset")):
            self.passed(seen, f, now)
        self.sessions = ending
        return [to]

    def local(self, r, seen, f, entry):
        if not (f.proto in (ICMP, ICMP6) and f.kind in (8, 128) and (f.proto, f.kind) in REQUESTS and not f.later):
            return self.dropped(r, seen, f, entry, "local-unhandled")
        r.verdict = "local"
        self.passed(seen, f, seen.now)
        to = self.setup.route(f.src)
        if to not in self.setup.interfaces:
            r.answers = None
            return r
        a = own(f.proto, f.dst, f.src, REQUESTS[f.proto, f.kind], 0, ident=f.ident)
        r.answers = self.originate(a, to, seen.now)
        return r


class Seen:
    """The sessions that a packet met: `by` let it pass a list, of `rules` it is a packet, too, of `strange` it is no packet."""

    def __init__(self, now, result):
        self.now, self.result, self.action = now, result, None
        self.by, self.rules, self.strange, self.opened, self.extended, self.renewed = [], [], [], [], [], []

    def note(self, interface, direction, action, texts):
        plain = {"permit+reflect": "permit", "reject+icmp": "reject", "reject+reset": "reject"}.get(action, action)
        self.result.acl.append((interface, direction, plain, texts))


def outcomes(world, steps):
    """Yields (results, world) for each way in which the questions may be answered. `steps`: function of a world that returns results."""
    scripts = [[]]
    while scripts:
        script = scripts.pop()
        w = world.copy()
        w.script = script
        results = steps(w)
        for at in range(len(script), len(w.taken)):
            for other in range(1, w.taken[at][1]):
                scripts.append([a for a, _ in w.taken[:at]] + [other])
        yield results, w


def merge(worlds):
    """Joins worlds with equal sessions: what they answered alike stays answered."""
    found = {}
    for w in worlds:
        key = w.frozen()
        if key in found:
            have = found[key].answers
            found[key].answers = {q: a for q, a in have.items() if w.answers.get(q) == a}
        else:
            found[key] = w
    return list(found.values())
