"""Runs cases of an oracle side by side, and prints what failed: the part of `run.py` that all oracles share.

A case has a `name`, a method `run(weir, folder)` that returns its faults, and perhaps `open`: the text of a defect that is
known. Cases are given as functions that make them, so that each begins anew.
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


def run_one(index):
    """Runs one case; returns its name, faults, number of packets and seconds, or None if it was not chosen."""
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
    return case.name, faults, len(getattr(case, PACKETS)), time.monotonic() - begin


def options(doc, drawn):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="weir", help="the program")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="cases with such a name")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--random", nargs=2, type=int, metavar=("SEED", "COUNT"), help=f"{drawn} instead of the cases")
    parser.add_argument("--jobs", type=int, default=3, help="cases at a time, 3 unless given")
    parser.add_argument("--folder", help="where cases run; a new temporary folder unless given")
    parser.add_argument("--keep", action="store_true", help="keep the folders of cases that pass, too")
    parser.add_argument("--show", type=int, default=5, help="faults printed for a case, 5 unless given")
    parser.add_argument("--times", action="store_true", help="print the time of each case")
    return parser


def main(name, doc, cases, drawn, draw, packets="steps"):
    """Runs the functions `cases`, or, with --random, those that `draw` returns for each seed. `drawn`: what is random. `packets`: the
    attribute of a case that has its packets.

    Returns the exit code: 1 if a case fails, or none ran.
    """
    global MAKERS, OPTIONS, PACKETS
    parser = options(doc, drawn)
    OPTIONS = parser.parse_args()
    MAKERS, PACKETS = cases, packets
    if OPTIONS.random:
        seed, count = OPTIONS.random
        MAKERS = [make for number in range(seed, seed + count) for make in draw(number)]
    if OPTIONS.list:
        print("\n".join(make().name for make in MAKERS))
        return 0
    OPTIONS.weir = os.path.abspath(OPTIONS.weir) if os.sep in OPTIONS.weir else shutil.which(OPTIONS.weir)
    if not OPTIONS.weir or not os.access(OPTIONS.weir, os.X_OK):
        parser.error("there is no such program: build weir, and name it with --weir")
    made = OPTIONS.folder is None
    OPTIONS.folder = tempfile.mkdtemp(prefix=f"weir-{name}-") if made else os.path.abspath(OPTIONS.folder)
    passed, failed, sent = 0, 0, 0
    with multiprocessing.get_context("fork").Pool(OPTIONS.jobs) as pool:
        for case, faults, count, seconds in filter(None, pool.imap_unordered(run_one, range(len(MAKERS)))):
            sent += count
            if OPTIONS.times:
                print(f"{seconds:6.2f} s {case}")
            for fault in faults[:OPTIONS.show]:
                print(f"FAIL {case}: {fault}")
            if len(faults) > OPTIONS.show:
                print(f"FAIL {case}: {len(faults) - OPTIONS.show} more")
            passed, failed = passed + (not faults), failed + bool(faults)
            sys.stdout.flush()
    print(f"{passed} passed, {failed} failed, {sent} packets" + (f"; see {OPTIONS.folder}" if failed else ""))
    if made and not failed and not OPTIONS.keep:
        shutil.rmtree(OPTIONS.folder, ignore_errors=True)
    return 1 if failed or not passed else 0
