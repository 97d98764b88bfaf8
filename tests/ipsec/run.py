#!/usr/bin/python3
"""Runs weir on the cases of this folder and compares what it did with the documentation and the RFCs.

    run.py --weir PATH [--only PATTERN]… [--jobs N] [--list] [--times]
    run.py --weir PATH --random SEED COUNT

The exit code is 1 if a case fails. The folder of a failed case is kept: weir.toml, key files, captures, `command`,
`lines` (JSON), `summary` and `faults`.
"""
import os
import random
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracles"))

try:
    import cryptography  # noqa: F401
except ImportError:
    sys.exit(f"{sys.executable} has no module `cryptography`: install python3-cryptography, and run this by "
             "/usr/bin/python3")

import cases_alg
import cases_check
import cases_fragments
import cases_headers
import cases_hostile
import cases_inbound
import cases_mix
import cases_mtu
import cases_replay
import cases_run
import cases_spd
import random_spd
import runner
from sa import Sa

# Cases of a running gateway come first: they take seconds, most of which they sleep.
MODULES = (cases_run, cases_alg, cases_fragments, cases_headers, cases_mtu, cases_replay, cases_hostile, cases_inbound, cases_mix,
           cases_spd, cases_check)


def anew(make):
    """Has a function make its case with the same random numbers and SPIs each time."""
    def made():
        random.seed(0)
        Sa.made = 0
        return make()
    return made


if __name__ == "__main__":
    sys.exit(runner.main("ipsec", __doc__, [anew(make) for module in MODULES for make in module.cases()], "random SPDs",
                         lambda seed: [anew(lambda: random_spd.case(seed))], "packets"))
