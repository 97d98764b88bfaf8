"""Numbered packets of UDP from the customer to the echo servers of the providers, and which of them came back; and packets of one way."""
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import time

PORT = 7777
GAP = 0.001


def serve():
    """Echoes datagrams by the address that they came to."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
    server.bind(("0.0.0.0", PORT))
    print("ready", flush=True)
    while True:
        data, control, _, peer = server.recvmsg(2048, 256)
        # The answer has the address of the request as its source.
        info = [value for level, kind, value in control if (level, kind) == (socket.IPPROTO_IP, 8)]
        try:
            server.sendmsg([data], [(socket.IPPROTO_IP, 8, bytes(4) + info[0][4:8] + bytes(4))], 0, peer)
        except OSError:
            pass  # no route back while the link is down


def send(source, targets):
    """Sends one packet each millisecond, in turn to each target, until standard input ends; prints what came back and when."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.bind((source, 0))
    client.setblocking(False)
    sent, back = [], {}

    def receive():
        while True:
            try:
                back[int(client.recv(2048))] = time.monotonic()
            except BlockingIOError:
                return
            except OSError:
                pass  # an ICMP error

    print("ready", flush=True)
    due, end = time.monotonic(), None
    while end is None or time.monotonic() < end:
        now = time.monotonic()
        if end is None and select.select([sys.stdin], [], [], 0)[0]:
            end = now + 0.5
        if end is None and now >= due:
            number = len(sent)
            sent.append(now)
            try:
                client.sendto(str(number).encode(), (targets[number % len(targets)], PORT))
            except OSError:
                pass
            due = max(due + GAP, now - 0.05)
        receive()
        time.sleep(max(0.0, min(GAP, due - time.monotonic())) if end is None else GAP)
    lost = [number for number in range(len(sent)) if number not in back]
    # The longest time in which packets of one target were lost: from the first lost one to the next that came back.
    longest, end = 0.0, 0.0
    for target in range(len(targets)):
        since = None
        for number in range(target, len(sent), len(targets)):
            if number not in back:
                since = sent[number] if since is None else since
            elif since is not None:
                if sent[number] - since > longest:
                    longest, end = sent[number] - since, sent[number]
                since = None
        if since is not None and sent[-1] - since > longest:
            longest, end = sent[-1] - since, sent[-1]
    print(json.dumps({"sent": len(sent), "lost": len(lost), "longest": longest, "end": end}), flush=True)


def stall():
    """Sleeps 2 ms again and again; prints the longest time beyond that since the line before, for each line of standard input."""
    print("ready", flush=True)
    longest = 0.0
    while True:
        before = time.monotonic()
        readable = select.select([sys.stdin], [], [], 0.002)[0]
        longest = max(longest, time.monotonic() - before - 0.002)
        if readable:
            if not sys.stdin.readline():
                return
            print(longest, flush=True)
            longest = 0.0


def probe(source, target, port):
    """Sends as many packets as a line of standard input says, for each line."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.bind((source, 0))
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            try:
                client.sendto(b"probe", (target, int(port)))
            except OSError:
                pass  # an ICMP error
        print("sent", flush=True)


def count(port):
    """Counts packets; prints how many came so far for each line of standard input."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("0.0.0.0", int(port)))
    server.setblocking(False)
    print("ready", flush=True)
    came = 0
    for _ in sys.stdin:
        try:
            while True:
                server.recv(2048)
                came += 1
        except BlockingIOError:
            print(came, flush=True)


class Talk:
    """A program of this file in a namespace that answers lines with lines."""

    def __init__(self, space, *words):
        words = space.command("python3", os.path.abspath(__file__), *words)
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.kill()
        self.process.communicate()


class Probe:
    """Packets of one source to one target, and how many of them pass."""

    ports = itertools.count(PORT + 1)

    def __init__(self, sender, source, receiver, target):
        port = str(next(Probe.ports))
        self.sender, self.receiver = Talk(sender, "probe", source, target, port), Talk(receiver, "count", port)

    def passed(self, packets):
        """Sends some packets; returns how many came within 0.2 s."""
        before = int(self.receiver.ask("count"))
        self.sender.ask(packets)
        end = time.monotonic() + 0.2
        while True:
            came = int(self.receiver.ask("count")) - before
            if came == packets or time.monotonic() > end:
                return came
            time.sleep(0.002)

    def end(self):
        self.sender.end()
        self.receiver.end()


class Stall:
    """An idle loop: the times for which it did not run are the machine's, not a gateway's."""

    def __init__(self, space):
        self.talk = Talk(space, "stall")
        self.end = self.talk.end

    def longest(self):
        """Returns the longest time for which the loop did not run since the last call."""
        return float(self.talk.ask("now"))


class Stream:
    """A running stream."""

    def __init__(self, space, source, targets):
        words = space.command("python3", os.path.abspath(__file__), "send", source, *targets)
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.begun = time.monotonic()

    def stop(self):
        """Returns packets sent and lost, the longest time of loss, and when that ended, by the monotonic clock."""
        output, _ = self.process.communicate("end\n", timeout=30)
        return json.loads(output)

    def end(self):
        self.process.kill()
        self.process.communicate()


class Echo:
    """A running echo server."""

    def __init__(self, space):
        words = space.command("python3", os.path.abspath(__file__), "serve")
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def end(self):
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    mode, *words = sys.argv[1:]
    if mode == "send":
        send(words[0], words[1:])
    else:
        {"serve": serve, "probe": probe, "count": count, "stall": stall}[mode](*words)
