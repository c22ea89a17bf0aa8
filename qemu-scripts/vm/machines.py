# SPDX-License-Identifier: GPL-2.0
"""Running QEMUs: starts them, and has the ways to and from them."""

import fcntl
import os
import subprocess
import time

from vm.command_line import quote
from vm.control import Port
from vm.guests import Guest
from vm.output import LIMIT, Channel, Cut, Log
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
        self.pidfd = -1
        log, self._stderr = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(log, False)
        self.log = Channel(log, Log(lab.path(f"{name}.qemu.log")))

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

    def channels(self) -> list[Channel]:
        return [self.log]

    def pipes(self) -> list[int]:
        return [self.qmp, self.log.pipe, self.pidfd]

    def gone(self) -> None:
        self.running = False
        self.process.wait()
        for fd in self.pipes():
            os.close(fd)


class Boot(Machine):
    """One boot of a guest."""

    def __init__(self, lab: Lab, guest: Guest) -> None:
        guest.boots += 1
        super().__init__(lab, guest.boot_name(guest.boots))
        self.guest = guest
        self.started = 0.0  # when its command has begun
        self.booted = time.monotonic()
        self.never_up = ""  # why it did not come up, as far as its console tells
        self.taint: dict[int, str] = {}  # the bits that it has told of its kernel, and since when
        self.port = Port()
        self.memory: Log | None = None
        self._to_guest = make_fifo(lab.path(f"{self.name}.control.in"))
        self.control = make_fifo(lab.path(f"{self.name}.control.out"))
        for way in "in", "out":
            os.mkfifo(lab.path(f"{self.name}.shell.{way}"))
        self.console = self._channel("console")
        # It comes in single bytes, and is fetched at times only: see event_loop.
        try:
            fcntl.fcntl(self.console.pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
        except OSError:
            pass  # the user has many pipes
        self.stdout, self.stderr = self._channel("stdout"), self._channel("stderr")

    def _channel(self, name: str) -> Channel:
        file = self.lab.path(f"{self.name}.{name}")
        return Channel(make_fifo(f"{file}.out"), Log(file))

    def boot(self, words: list[str]) -> None:
        with open(self.lab.path(f"{self.name}.env"), "w", encoding="utf-8", errors="surrogateescape") as env:
            env.write(environment(self.lab, self.guest))
        self.start(words, self.guest is self.lab.request.terminal)

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

    def note_memory(self, line: str) -> None:
        """What guest/registrations tells, for crash-states."""
        self.memory = self.memory or Log(self.lab.path(f"{self.name}.memory"))
        self.memory.write(f"{line}\n".encode())

    def channels(self) -> list[Channel]:
        return [*super().channels(), self.console, self.stdout, self.stderr]

    def pipes(self) -> list[int]:
        mine = [self.console.pipe, self.stdout.pipe, self.stderr.pipe]
        return [*super().pipes(), *mine, self._to_guest, self.control]


def command_for(boot: Boot) -> list[str]:
    return Command(boot.lab, boot.guest, boot.name).words
