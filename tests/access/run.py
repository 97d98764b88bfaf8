#!/usr/bin/python3
"""Runs weir on the cases of this folder, and compares it with the documentation.

    run.py --weir PATH [--only PATTERN]… [--jobs N] [--list] [--times]
    run.py --weir PATH --random SEED COUNT

The exit code is 1 if a case fails. The folder of a failed case is kept: weir.toml, captures, `command`, `lines` (JSON),
`summary` and `faults`.
"""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))

import bridge
import classify
import finds
import refused
import runner
import steer

# Cases of a running gateway come first: they take seconds, most of which they sleep.
MODULES = (classify, steer, bridge, finds, refused)
DRAWN = (steer, classify, bridge)

if __name__ == "__main__":
    sys.exit(runner.main("access", __doc__, [make for module in MODULES for make in module.cases()],
                         "random configurations", lambda seed: [lambda m=m: m.random_case(seed) for m in DRAWN]))
