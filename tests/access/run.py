#!/usr/bin/python3
"""Runs weir on the cases of this folder, and compares it with the documentation.

    run.py --weir PATH [--only PATTERN]… [--jobs N] [--list] [--times]
    run.py --weir PATH --random SEED COUNT

The exit code is 1 if a case fails. The folder of a failed case is kept: weir.toml, captures, `command`, `lines` (JSON),
`summary` and `faults`.
"""
import argparse
import fnmatch
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback

import bridge
import classify
import finds
import steer

# Cases of a running gateway come first: they take seconds, most of which they sleep.
MODULES = (classify, steer, bridge, finds)


def run_one(index):
    """Runs one case; returns its name, faults, number of frames and seconds, or None if it was not chosen."""
    begin = time.monotonic()
    case = MAKERS[index]()
    if OPTIONS.only and not any(fnmatch.fnmatch(case.name, pattern) for pattern in OPTIONS.only):
        return None
    path = os.path.join(OPTIONS.folder, case.name)
    try:
        faults = case.run(OPTIONS.weir, path)
    except Exception as e:  # a fault of the case, or output of weir that it cannot read
        os.makedirs(path, exist_ok=True)
        faults = [f"the case failed: {e!r} at {[f[:3] for f in traceback.extract_tb(e.__traceback__)[-2:]]}"]
    faults = [" ".join(fault.split()) for fault in faults]
    if getattr(case, "open", False):
        print(f"OPEN {case.name}: {faults[0]}" if faults else f"OPEN {case.name} passes: its mark can go", flush=True)
        faults = []
    if faults:
        with open(os.path.join(path, "faults"), "w") as f:
            f.writelines(fault + "\n" for fault in faults)
    elif not OPTIONS.keep:
        shutil.rmtree(path, ignore_errors=True)
    return case.name, faults, len(case.steps), time.monotonic() - begin


def main():
    global MAKERS, OPTIONS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="weir", help="the program")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="cases with such a name")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--random", nargs=2, type=int, metavar=("SEED", "COUNT"),
                        help="random configurations of these seeds instead of the cases")
    parser.add_argument("--jobs", type=int, default=3, help="cases at a time, 3 unless given")
    parser.add_argument("--folder", help="where cases run; a new temporary folder unless given")
    parser.add_argument("--keep", action="store_true", help="keep the folders of cases that pass, too")
    parser.add_argument("--show", type=int, default=5, help="faults printed for a case, 5 unless given")
    parser.add_argument("--times", action="store_true", help="print the time of each case")
    OPTIONS = parser.parse_args()
    if OPTIONS.random:
        seed, count = OPTIONS.random
        MAKERS = [lambda m=m, s=s: m.random_case(s) for s in range(seed, seed + count) for m in (steer, classify, bridge)]
    else:
        MAKERS = [make for module in MODULES for make in module.cases()]
    if OPTIONS.list:
        print("\n".join(make().name for make in MAKERS))
        return 0
    OPTIONS.weir = os.path.abspath(OPTIONS.weir) if os.sep in OPTIONS.weir else shutil.which(OPTIONS.weir)
    if not OPTIONS.weir or not os.access(OPTIONS.weir, os.X_OK):
        parser.error("there is no such program: build weir, and name it with --weir")
    made = OPTIONS.folder is None
    OPTIONS.folder = tempfile.mkdtemp(prefix="weir-access-") if made else os.path.abspath(OPTIONS.folder)
    passed, failed, frames = 0, 0, 0
    with multiprocessing.get_context("fork").Pool(OPTIONS.jobs) as pool:
        for name, faults, count, seconds in filter(None, pool.imap_unordered(run_one, range(len(MAKERS)))):
            frames += count
            if OPTIONS.times:
                print(f"{seconds:6.2f} s {name}")
            for fault in faults[:OPTIONS.show]:
                print(f"FAIL {name}: {fault}")
            if len(faults) > OPTIONS.show:
                print(f"FAIL {name}: {len(faults) - OPTIONS.show} more")
            passed, failed = passed + (not faults), failed + bool(faults)
            sys.stdout.flush()
    print(f"{passed} passed, {failed} failed, {frames} frames" + (f"; see {OPTIONS.folder}" if failed else ""))
    if made and not failed and not OPTIONS.keep:
        shutil.rmtree(OPTIONS.folder, ignore_errors=True)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
