#!/usr/bin/python3
"""Runs weir on the cases of this folder, and compares its packets with the documentation and the RFCs.

    run.py --weir PATH [--only PATTERN]… [--jobs N] [--list] [--times]
    run.py --weir PATH --random SEED COUNT

The exit code is 1 if a case fails. The folder of a failed case is kept: weir.toml, captures, `command`, `lines` (JSON),
`summary` and `faults`.
"""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))

import cases_destination
import cases_icmp
import cases_mapping
import cases_scenarios
import cases_source
import cases_vrfs
import live
import random_nat
import runner

# Cases of a running gateway come first: they take seconds, most of which they sleep.
MODULES = (live, cases_source, cases_destination, cases_mapping, cases_scenarios, cases_icmp,
           cases_vrfs)

if __name__ == "__main__":
    sys.exit(runner.main("nat", __doc__, [make for module in MODULES for make in module.cases()], "random policies",
                         lambda seed: [lambda: random_nat.RandomCase(seed)]))
