#!/usr/bin/python3
"""Runs weir on the cases of this folder, and compares it with the documentation of sessions and access lists.

    run.py --weir PATH [--only PATTERN]… [--jobs N] [--list] [--times]
    run.py --weir PATH --random SEED COUNT

The exit code is 1 if a case fails. The folder of a failed case is kept: weir.toml, captures, `command`, `lines` (JSON),
`summary` and `faults`.
"""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))

import cases
import live
import random_sessions
import runner

SEEDS = range(1, 17)  # random cases of a run without --random

# Cases of a running gateway come first: they take seconds, most of which they sleep.
MAKERS = [*live.cases(), *cases.cases(), *(lambda seed=seed: random_sessions.RandomCase(seed) for seed in SEEDS)]

if __name__ == "__main__":
    sys.exit(runner.main("sessions", __doc__, MAKERS, "random lists and packets", lambda seed: [lambda: random_sessions.RandomCase(seed)]))
