"""A running gateway with pcap ports, for oracles."""
import json
import os
import signal
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ipsec"))
import wire  # noqa: E402


class Gateway:
    """A gateway that runs; `inputs`: lists of (time, octets) by interface, `neighbors`: pairs of interface and address, `keys`: more lines of
    `[flow-table]`."""

    def __init__(self, weir, folder, text, inputs, neighbors, workers=1, enabled='"auto"', paced=True, keys=""):
        self.weir, self.folder, self.socket = weir, folder, os.path.join(folder, "s")
        self.inputs = inputs
        for name in inputs:
            out = os.path.join(folder, f"{name}-out.pcap")
            if os.path.exists(out):
                os.remove(out)
            port = f'port = {{ pcap = {{ input = "{name}-in.pcap", output = "{name}-out.pcap", paced = {str(paced).lower()} }} }}'
            text = text.replace(f'name = "{name}"\nport = "null"', f'name = "{name}"\n{port}')
        text = text.replace("[flow-table.timeouts]", "[flow-table-timeouts]")
        flow = f"\n[flow-table]\nenabled = {enabled}\n{keys}"
        text += flow + f"\n[workers]\ncount = {workers}\n" + ('\n[service]\nuser = "root"\n' if os.geteuid() == 0 else "")
        text = text.replace("[flow-table-timeouts]", "[flow-table.timeouts]")
        text += "".join(f'\n[[neighbor]]\ninterface = "{i}"\naddress = "{a}"\nmac = "02:00:00:00:00:40"\n' for i, a in neighbors)
        self.text = text
        self.write(text)

    def write(self, text):
        path = os.path.join(self.folder, "live.toml")
        with open(path + ".new", "w") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def start(self):
        command = [self.weir, "run", os.path.join(self.folder, "live.toml"), "--socket", self.socket]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def ask(self, *words):
        done = subprocess.run([self.weir, *words, "--socket", self.socket], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def errors(self):
        """Returns the counts of drop reasons."""
        code, text = self.ask("show", "errors", "--json")
        if code:
            return {}
        counts = {}

        def walk(x):
            if isinstance(x, dict):
                if "reason" in x and isinstance(x.get("count", x.get("packets")), int):
                    counts[x["reason"]] = counts.get(x["reason"], 0) + x.get("count", x.get("packets"))
                for v in x.values():
                    walk(v)
            elif isinstance(x, list):
                for v in x:
                    walk(v)
        walk(json.loads(text.splitlines()[0]))
        return counts

    def output(self, name):
        try:
            return [d[14:] for _, d in wire.read_pcap(os.path.join(self.folder, f"{name}-out.pcap")) if d[12:14] in (b"\x08\x00", b"\x86\xdd")]
        except Exception:  # while the port writes it
            return []

    def settle(self, want, seconds, count=len):
        """Waits until as many packets have left as are wanted."""
        end = time.time() + seconds
        while time.time() < end and self.process.poll() is None:
            if {n: count(self.output(n)) for n in self.inputs} == want:
                return
            time.sleep(0.1)
