"""Sentences that the documentation leaves open, and known defects of weir."""

QUESTIONS = {
    "at-the-time-out": "A packet comes exactly at the time-out: 0 the session has ended, 1 it lives.",
    "dropped-later": "A packet of a session passes a list by it and is dropped behind that list: 0 nothing changes, 1 time and state change.",
    "extended-by-dropped": "A packet of a session that is dropped matched a `permit+reflect` rule of the other direction: 0 the rule opened the session "
                           "nevertheless, 1 not.",
    "reply-extends": "A reply matches a `permit+reflect` rule of the direction that opened the session: 0 nothing, 1 the rule opens the session for the "
                     "other orientation.",
    "pickup-of-session": "Without `tcp-pickup`, a mid-stream packet of a session matches a `permit+reflect` rule: 0 it passes, 1 `session-pickup`.",
    "syn-in-unreplied": "In `unreplied`, a SYN of the side that sent the first packet: 0 the state stays, 1 `syn-sent`.",
    "reset-of-unreplied": "In `unreplied`, a RST of the other side, and then a packet: the state before is 0 `unreplied`, 1 `established`.",
    "refused-anew": "A session that began anew by a SYN of the other side is refused: 0 the opener's next SYN begins it anew, 1 that of the other side.",
    "reset-by-opener": "The opener resets in `syn-sent` or `syn-recv`, and then sends a SYN: 0 as if it had been refused, 1 it is the other side that may begin anew.",
    "late-answer": "Between a SYN that is no packet of the session and its answer, other packets of the session pass: 0 the answer begins the session "
                   "anew, 1 not.",
    "renewed-dropped": "A SYN opens a session in the place of one that closed, and is dropped behind the list: 0 both have ended, 1 the old one stays.",
    "oldest": "The oldest half-open session is the one 0 that was opened first, 1 whose last packet was first.",
    "both-full": "There is room for no session, and for no half-open one: 0 `session-limit`, 1 the oldest half-open session makes room.",
    "anew-half-open": "A session that begins anew is half-open: 0 again, 1 not if it was established before.",
    "local-unhandled": "The first packet is for the gateway, which does not serve it: 0 the session ends, 1 it is confirmed.",
    "quoted-syn": "An error quotes a SYN that is no packet of the session with its tuple: 0 the error belongs to the session, 1 not.",
    "answer-of-unconfirmed": "The answer to the dropped first packet of a session passes lists: 0 by the session, 1 not.",
    "own-reset": "A reset of the gateway passes as a packet of a session: 0 state and time change, 1 not.",
    "late-established": "In `syn-sent`, ACKs without SYN pass in both directions: 0 `established`, 1 it stays.",
    "back-and-on": "A packet brings `close` or `refused` back to the state before: 0 and changes that state as it would have, 1 and no more.",
    "other-syn-dropped": "A SYN that is no packet of the session passes a list of its zone and is dropped behind it: 0 it did not pass, 1 it did.",
    "half-open-fin": "A packet of the other direction has passed with the FIN or in front of it, none behind it, and the session was not established: 0 it is not "
                     "half-open, 1 it is.",
    "half-open-reset": "A RST is the only packet of the other direction, and the session comes to `fin-wait`: 0 it is not half-open, 1 it is.",
    "half-open-close": "In `close` behind a `fin-wait` that had an answer, without having been established: 0 the session is not half-open, 1 it is.",
    "half-open-time-wait": "In `time-wait`, without having been established: 0 the session is not half-open, 1 it is.",
}


# Known defects of weir, by the name that `World.flawed` has: a run that only they explain is `open`.
DEFECTS = {}
