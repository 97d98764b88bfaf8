"""A virtual machine with Debian's kernel: its image, its start, and commands on its second serial port."""
import glob
import os
import re
import shutil
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Modules of the kernel, each loaded behind its dependencies.
MODULES = """virtio_pci virtio_net dummy vrf af_packet
esp4 esp6 xfrm_user xfrm4_tunnel xfrm6_tunnel udp_tunnel ip6_udp_tunnel
gcm ccm ctr cbc seqiv echainiv authenc authencesn aes_generic ghash_generic sha1_generic sha256_generic sha512_generic
jitterentropy_rng drbg
chacha20poly1305 chacha_generic poly1305_generic crypto_null hmac cmac
ip_gre ip6_gre ipip sit ip6_tunnel fou fou6 geneve vxlan 8021q""".split()

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /var/run
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
PATH=/usr/sbin:/usr/bin:/bin:/sbin
export PATH
while read -r module; do
    insmod "/modules/$module.ko" || echo "no module $module"
done </modules/order
ip link set lo up
# The port stays open from now on, as opening it discards what it has received.
exec 3<>/dev/ttyS1
stty raw -echo <&3
# A shell that runs a file prints no prompt.
echo ready >&3
exec sh /proc/self/fd/3 >&3 2>&1
"""


class Failed(Exception):
    """Something is not as a case expects it."""


def newc(entries):
    """Returns an archive of cpio's format newc from (path, mode, content)."""
    parts = []
    for number, (path, mode, content) in enumerate(entries + [("TRAILER!!!", 0, b"")], 1):
        name = path.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0]
        header = b"070701" + b"".join(b"%08x" % field for field in fields)
        parts.append(header + name + bytes(-(len(header) + len(name)) % 4))
        parts.append(content + bytes(-len(content) % 4))
    return b"".join(parts)


def libraries(program):
    """Returns the shared libraries that a program needs, by ldd."""
    output = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/[^ ]+\.so[^ ]*) \(", output)


class Image:
    """The kernel of a folder that `setup` filled, and an initial file system for it: with further modules, programs (`place: path`) and
    texts (`place: text`)."""

    def __init__(self, folder, modules=(), programs=None, texts=None):
        self.modules, self.programs, self.texts = [*MODULES, *modules], programs or {}, texts or {}
        kernels = sorted(glob.glob(os.path.join(folder, "kernel/boot/vmlinuz-*")))
        self.kernel = kernels[-1]
        self.version = os.path.basename(self.kernel).removeprefix("vmlinuz-")
        self.initrd = os.path.join(folder, "initrd")
        self.missing = []
        tree = os.path.join(folder, "kernel/lib/modules", self.version)
        self.files = {os.path.basename(path)[:-3].replace("-", "_"): path
                      for path in glob.glob(tree + "/**/*.ko", recursive=True)}
        with open(os.path.join(tree, "modules.builtin")) as lines:
            self.builtin = {os.path.basename(line.strip())[:-3].replace("-", "_") for line in lines}
        self.write(folder)

    def order(self):
        """Returns the names of modules in the order in which they can be loaded."""
        order = []

        def add(name):
            name = name.replace("-", "_")
            if name in order or name in self.builtin:
                return
            if name not in self.files:
                self.missing.append(name)
                return
            with open(self.files[name], "rb") as file:
                depends = re.search(rb"\0depends=([^\0]*)\0", file.read())
            for other in (depends[1].decode().split(",") if depends and depends[1] else []):
                add(other)
            order.append(name)

        for module in self.modules:
            add(module)
        return order

    def write(self, folder):
        helper = os.path.join(folder, "helper")
        subprocess.run(["cc", "-O1", "-Wall", "-o", helper, os.path.join(HERE, "helper.c")], check=True)
        files = {"/bin/helper": helper}
        for program in (shutil.which("busybox"), shutil.which("ip"), shutil.which("ping")):
            place = "/bin/busybox" if program.endswith("busybox") else program
            files[place] = os.path.realpath(program)
        files.update(self.programs)
        for program in list(files.values()):
            for library in libraries(program):
                files[library] = os.path.realpath(library)
        order = self.order()
        for name in order:
            files[f"/modules/{name}.ko"] = self.files[name]
        texts = {"/init": INIT, "/modules/order": "".join(f"{name}\n" for name in order), **self.texts}
        folders = {"/"}
        for path in [*files, *texts]:
            while path != "/":
                path = os.path.dirname(path)
                folders.add(path)
        entries = [(path.lstrip("/") or ".", 0o040755, b"") for path in sorted(folders)]
        entries += [(path.lstrip("/"), 0o100755, text.encode()) for path, text in texts.items()]
        for path, source in files.items():
            with open(source, "rb") as file:
                entries.append((path.lstrip("/"), 0o100755, file.read()))
        with open(self.initrd, "wb") as file:
            file.write(newc(entries))


class Guest:
    """A running virtual machine, whose network card is the tap `device` of a namespace. Without them it has no card."""

    BOOT = 240

    def __init__(self, image, namespace, device, folder, mebibytes=384):
        self.console = os.path.join(folder, "console")
        path = os.path.join(folder, "serial")
        command = [*(["ip", "netns", "exec", namespace] if namespace else []),
                   "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", str(mebibytes),
                   "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                   "-kernel", image.kernel, "-initrd", image.initrd,
                   # The kernel's check of its timer fails if the computer is busy.
                   "-append", "console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off no_timer_check",
                   "-serial", f"file:{self.console}", "-chardev", f"socket,id=c,path={path},server=on,wait=off",
                   "-serial", "chardev:c"]
        if device:
            command += ["-netdev", f"tap,id=n,ifname={device},script=no,downscript=no,vhost=off",
                        "-device", "virtio-net-pci,netdev=n,mac=02:00:00:00:00:02"]
        self.errors = open(os.path.join(folder, "qemu"), "w+")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors)
        self.serial = socket.socket(socket.AF_UNIX)
        self.number = self.code = 0
        self.rest = b""
        end = time.monotonic() + self.BOOT
        while True:
            try:
                self.serial.connect(path)
                break
            except OSError:
                self.alive(end)
                time.sleep(0.05)
        self.serial.settimeout(1)
        while b"ready" not in self.rest:
            self.alive(end)
            try:
                self.rest += self.serial.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                self.process.wait(5)
        # The shell of busybox prefers its own programs.
        self(f'ip() {{ {shutil.which("ip")} "$@"; }}\nping() {{ {shutil.which("ping")} "$@"; }}')

    def alive(self, end):
        if self.process.poll() is not None or time.monotonic() > end:
            self.errors.seek(0)
            self.process.kill()
            raise Failed(f"the virtual machine does not start: {self.errors.read()}; its console is {self.console}")

    def __call__(self, command, seconds=60, check=True):
        """Runs commands of a shell, and returns their output."""
        self.number += 1
        mark = f"=={self.number}=="
        self.serial.sendall(f"{{ {command}\n}} </dev/null 2>&1; code=$?; echo; echo {mark} $code\n".encode())
        end = time.monotonic() + seconds
        found = None
        while found is None:
            found = re.search(rb"(?s)\r?\n" + mark.encode() + rb" (\d+)\r?\n", self.rest)
            if found:
                break
            if time.monotonic() > end:
                raise Failed(f"the virtual machine does not end `{command}` in {seconds} s: {self.rest!r}")
            try:
                got = self.serial.recv(65536)
            except TimeoutError:
                continue
            if not got:
                raise Failed(f"the virtual machine ended; its console is {self.console}")
            self.rest += got
        output = self.rest[:found.start()].decode(errors="replace").replace("\r", "")
        self.rest = self.rest[found.end():]
        self.code = int(found[1])
        if check and self.code != 0:
            lines = command.splitlines()
            raise Failed(f"`{lines[0]}`{' (one of several)' if len(lines) > 1 else ''}: exit code {self.code}: {output.strip()}")
        return output

    def ip(self, *commands):
        """Runs commands of `ip`, all in one batch."""
        text = "\n".join(commands)
        output = self(f"ip -batch - <<'END'\n{text}\nEND", check=False)
        if self.code != 0:
            # A command with a wrong argument ends the batch without its number.
            failed = re.search(r"Command failed -:(\d+)", output)
            which = commands[int(failed[1]) - 1] if failed else "; ".join(commands)
            raise Failed(f"`ip {which}`: {output.strip()}")

    def end(self):
        self.process.kill()
        self.process.wait()
        self.serial.close()
        self.errors.close()
