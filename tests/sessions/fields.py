"""The fields of packets that rules and sessions compare."""
from packet import ACK, ESP, ICMP, ICMP6, PORTS, SYN, TCP, Error

REQUESTS = {(ICMP, 8): 0, (ICMP, 13): 14, (ICMP, 15): 16, (ICMP, 17): 18, (ICMP6, 128): 129}
REPLIES = {(proto, reply): kind for (proto, kind), reply in REQUESTS.items()}
# Errors that belong to sessions (RFC 792, RFC 4443), and all that are never answered.
ERRORS = {ICMP: (3, 11, 12), ICMP6: (1, 2, 3, 4)}
NEVER_ANSWERED = {ICMP: (3, 4, 5, 11, 12), ICMP6: tuple(range(128))}


def six(address):
    return ":" in address


class AboutPart(Error):
    """An ICMP error about a fragment."""

    def __init__(self, src, dst, part, length, kind, code, rest):
        super().__init__(src, dst, part.octets(), length, kind, code, rest)
        self.part = part

    def __str__(self):
        return f"error {self.kind}/{self.code} from {self.src} to {self.dst} about a later fragment of {self.part.packet}"


class Fields:
    """The fields of a packet that rules and sessions compare."""

    def __init__(self, p, later=False):
        self.proto, self.src, self.dst, self.ttl, self.later = p.proto, p.src, p.dst, p.ttl, later
        self.sport = self.dport = self.kind = self.code = None
        self.flags, self.ident, self.quoted, self.fault = 0, None, None, None
        self.fragment = later
        if p.proto in (ICMP, ICMP6):
            self.kind, self.code, self.ident = p.kind, p.code, p.sport
        elif p.proto in PORTS:
            self.sport, self.dport = p.sport, p.dport
        if p.proto == TCP:
            self.flags = p.flags
        payload = None if p.cut is None else p.cut - (40 if six(p.src) else 20)
        if payload is not None:  # a truncated packet
            if p.proto in PORTS and payload < 4:
                self.sport = self.dport = None
            if p.proto in (ICMP, ICMP6):
                self.kind, self.code = (self.kind, self.code) if payload >= 2 else (None, None)
                self.ident = self.ident if payload >= 6 else None
        self.truncated = payload is not None
        if isinstance(p, Error):  # nothing is known of a quoted packet behind its length
            self.quoted = Fields(p.part.packet, p.part.index > 0) if isinstance(p, AboutPart) else Fields(p.quoted)
            short = p.length is not None and p.length < (48 if six(p.src) else 28)
            self.fault = bool(p.spoil or p.corrupt or short or p.kind not in ERRORS[p.proto] or self.quoted.later or self.quoted.src != p.dst)
            self.quoted.known_flags = p.length is None

    @property
    def plain_syn(self):
        return self.proto == TCP and self.flags & (SYN | ACK) == SYN

    def key(self):
        """Returns the tuple of the session that the packet would open, and whether it is a reply by its kind; `None`: of none."""
        if self.proto in (ICMP, ICMP6):
            if self.ident is None:
                return None
            if (self.proto, self.kind) in REQUESTS:
                return (self.proto, self.src, self.dst, self.ident, self.kind)
            return None
        if self.proto in PORTS:
            return None if self.sport is None else (self.proto, self.src, self.dst, self.sport, self.dport)
        return None if self.proto == ESP else (self.proto, self.src, self.dst, 0, 0)

    def reply_key(self):
        """Returns the tuple of the session of which the packet would be a reply, or `None`."""
        if self.proto in (ICMP, ICMP6):
            kind = REPLIES.get((self.proto, self.kind))
            return None if kind is None or self.ident is None else (self.proto, self.dst, self.src, self.ident, kind)
        k = self.key()
        return None if k is None else (k[0], k[2], k[1], k[4], k[3])


def own(proto, src, dst, kind=None, code=None, flags=0, sport=None, dport=None, ident=None, quoted=None):
    """Returns the fields of a packet that the gateway makes."""
    f = Fields.__new__(Fields)
    f.proto, f.src, f.dst, f.ttl, f.later, f.fragment, f.truncated = proto, src, dst, 64, False, False, False
    f.sport, f.dport, f.kind, f.code, f.flags, f.ident = sport, dport, kind, code, flags, ident
    f.quoted, f.fault = quoted, quoted is None or quoted.later
    if quoted is not None:
        quoted.known_flags = True
    return f
