# SPDX-License-Identifier: GPL-2.0
"""Running QEMUs: starts them, and has the ways to and from them."""

import fcntl
import os
import subprocess
import time

from vm.command_line import quote
from vm.control import Message, Port
from vm.guests import Guest
from vm.output import LIMIT, Cut, Log
from vm.qemu import Command, Lab, environment


def make_fifo(path: str) -> int:
    """Open for both, so that it never ends, and nothing waits for the other side."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


class Machine:
    """A QEMU process: it must not outlive this program, however that ends."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name = lab, name
        self.running = False
        self.killed = False
        self.qmp = make_fifo(lab.path(f"{name}.qmp.out"))
        log, self._stderr = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(log, False)
        self.log = Log(lab.path(f"{name}.qemu.log"), log)
        # What QEMU writes, and the other ways to and from it.
        self.logs, self.ways = [self.log], [self.qmp]

    def start(self, words: list[str], terminal: bool = False) -> None:
        script = self.lab.path(f"{self.name}.qemu")
        with open(script, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"#!/bin/sh\ncd {quote([self.lab.run])}\nexec {quote(words)}\n")
        os.chmod(script, 0o755)
        with open("/dev/tty" if terminal else os.devnull, "rb") as stdin:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *words],
                cwd=self.lab.run,
                stdin=stdin,
                stdout=None if terminal else self._stderr,
                stderr=self._stderr,
            )
        self.running = True
        os.close(self._stderr)
        self.pidfd = os.pidfd_open(self.process.pid)
        self.ways.append(self.pidfd)

    def greets(self) -> bool:
        """The first thing that QMP says, when QEMU has opened everything."""
        try:
            return os.read(self.qmp, 65536).startswith(b'{"QMP"')
        except BlockingIOError:
            return False

    def kill(self) -> None:
        if self.running:
            self.killed = True
            self.process.kill()

    def gone(self) -> None:
        self.running = False
        self.process.wait()
        for log in self.logs:
            log.close()
        for way in self.ways:
            os.close(way)


class Boot(Machine):
    """One boot of a guest."""

    def __init__(self, lab: Lab, guest: Guest) -> None:
        guest.boots += 1
        super().__init__(lab, guest.boot_name(guest.boots))
        self.guest = guest
        self.words = Command(lab, guest, self.name).words
        self.started = 0.0  # when its command has begun
        self.booted = time.monotonic()
        self.never_up = ""  # why it did not come up, as far as its console tells
        self.taint: dict[int, str] = {}  # the bits that it has told of its kernel, and since when
        self.port = Port()
        self.recorded: Log | None = None  # a server's memory, or what a client has posted
        self._to_guest = make_fifo(lab.path(f"{self.name}.control.in"))
        self.control = make_fifo(lab.path(f"{self.name}.control.out"))
        self.ways += [self._to_guest, self.control]
        for way in "in", "out":
            os.mkfifo(lab.path(f"{self.name}.shell.{way}"))
        self.console, self.stdout, self.stderr = map(self._log, ("console", "stdout", "stderr"))
        self.logs += [self.console, self.stdout, self.stderr]
        # It comes in single bytes, and is fetched at times only: see event_loop.
        try:
            fcntl.fcntl(self.console.pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
        except OSError:
            pass  # the user has many pipes

    def _log(self, name: str) -> Log:
        file = self.lab.path(f"{self.name}.{name}")
        return Log(file, make_fifo(f"{file}.out"))

    def boot(self) -> None:
        with open(self.lab.path(f"{self.name}.env"), "w", encoding="utf-8", errors="surrogateescape") as env:
            env.write(environment(self.lab, self.guest))
        self.start(self.words, self.guest is self.lab.request.terminal)

    def tell(self, line: str) -> None:
        try:
            if self.running:
                os.write(self._to_guest, f"{line}\n".encode())
        except BlockingIOError:
            pass  # it reads nothing

    def check_resets(self) -> None:
        """Beside the capture, the one file that QEMU writes without end, if CPUs are reset again and again."""
        file = f"{self.name}.qemu.resets"
        if os.path.exists(self.lab.path(file)) and os.path.getsize(self.lab.path(file)) > LIMIT:
            raise Cut(f"{file} has more than {LIMIT >> 20} MiB")

    def record(self, message: Message) -> None:
        """For crash-states, in the file BOOT.memory or BOOT.posted."""
        self.recorded = self.recorded or Log(self.lab.path(f"{self.name}.{message.word}"))
        self.recorded.write(f"{message.text}\n".encode())
