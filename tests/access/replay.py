"""Runs of `weir replay` and of a running gateway with pcap ports."""
import json
import os
import shutil
import signal
import subprocess
import time

from packet import wire

START = 1_700_000_000_000_000_000
GAP = 1_000_000  # nanoseconds between frames: each is a vector by itself


class Fault(Exception):
    """weir did not run, or its output contradicts itself."""


def write(folder, text):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "weir.toml"), "w") as f:
        f.write(text)


def replay(weir, folder, text, frames):
    """Replays (time, interface, frame) in order. Returns pairs of line and [(interface, frame)] that left for it, and the
    summary."""
    shutil.rmtree(folder, ignore_errors=True)
    write(folder, text)
    inputs = {}
    for t, i, d in frames:
        inputs.setdefault(i, []).append((t, d))
    command = [weir, "replay", os.path.join(folder, "weir.toml"), "--json", "--out-dir", os.path.join(folder, "out")]
    for name, own in inputs.items():
        path = os.path.join(folder, f"{name}.pcap")
        wire.write_pcap(path, own)
        command.append(f"--in={name}={path}")
    with open(os.path.join(folder, "command"), "w") as f:
        f.write(" ".join(command) + "\n")
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)
    for name, said in (("lines", done.stdout), ("summary", done.stderr)):
        with open(os.path.join(folder, name), "w") as f:
            f.write(said)
    if done.returncode:
        raise Fault(f"weir replay ended with {done.returncode}: {(done.stderr + done.stdout)[:900]}")
    if "every packet is accounted for" not in done.stderr:
        raise Fault("the sum of packets does not hold")
    lines = {}
    for row in done.stdout.splitlines():
        line = json.loads(row)
        lines[line["n"]] = line
    left = {}
    for file in sorted(os.listdir(os.path.join(folder, "out"))):
        for t, d in wire.read_pcap(os.path.join(folder, "out", file)):
            left.setdefault(t, []).append((file[:-5], d))
    seen = [(lines[n], left.pop(t, [])) for n, (t, _, _) in enumerate(frames, 1)]
    if left:
        raise Fault("frames left without one that came in")
    return seen, done.stderr


class Gateway:
    """A running gateway. Interfaces with `port = "null"` that have frames get pcap ports."""

    def __init__(self, weir, folder, text, frames=(), workers=1, paced=False, names=()):
        self.weir, self.folder, self.socket = weir, folder, os.path.join(folder, "s")
        inputs = {n: [] for n in names}
        for t, i, d in frames:
            inputs.setdefault(i, []).append((t, d))
        for name, own in inputs.items():
            wire.write_pcap(os.path.join(folder, f"{name}-in.pcap"), own)
            port = f'port = {{ pcap = {{ input = "{name}-in.pcap", output = "{name}-out.pcap", paced = {str(paced).lower()} }} }}'
            assert f'name = "{name}"\nport = "null"' in text
            text = text.replace(f'name = "{name}"\nport = "null"', f'name = "{name}"\n{port}')
        text += f"\n[workers]\ncount = {workers}\n" + ('\n[service]\nuser = "root"\n' if os.geteuid() == 0 else "")
        with open(os.path.join(folder, "live.toml"), "w") as f:
            f.write(text)

    def __enter__(self):
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen([self.weir, "run", os.path.join(self.folder, "live.toml"), "--socket", self.socket],
                                            stdout=log, stderr=log)
        end = time.time() + 20
        while not os.path.exists(self.socket):
            if self.process.poll() is not None or time.time() > end:
                with open(os.path.join(self.folder, "log"), errors="replace") as f:
                    said = f.read()[-600:]
                self.__exit__()
                raise Fault("weir run did not start: " + said)
            time.sleep(0.02)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def ask(self, *words, stdin=None):
        done = subprocess.run([self.weir, *words, "--socket", self.socket], input=stdin, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def show(self, *words):
        code, out, err = self.ask("show", *words, "--json")
        if code:
            raise Fault(f"weir show {' '.join(words)} ended with {code}: {err[:300]}")
        return json.loads(out)

    def received(self, count, seconds=10):
        """Waits until interfaces received as many frames. The gateway's own station on a bridge gets copies of frames of ports."""
        end = time.time() + seconds
        while time.time() < end:
            got = sum(i["rx-packets"] for i in self.show("interfaces")["interfaces"] if i["name"] != "gw")
            if got >= count:
                return
            time.sleep(0.05)
        raise Fault(f"{got} of {count} frames received")
