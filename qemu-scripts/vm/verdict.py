# SPDX-License-Identifier: GPL-2.0
"""The result of the run: pass, fail, skip, lost or splat, and why.

The event loop concludes it from what guests report; conclude() in main.py judges then what they left.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

from vm.machines import Boot, Machine
from vm.messages import note, printable, say
from vm.qemu import Lab

STATUS = {"pass": 0, "fail": 1, "skip": 4, "lost": 3, "splat": 5}
# Documentation/admin-guide/tainted-kernels.rst has these bits.
# Those of modules and machines are no trouble.
TROUBLE = {16: "M, machine check", 32: "B, bad page", 128: "D, oops or BUG", 512: "W, warning", 16384: "L, soft lockup"}
DROPPED = re.compile(rb"^(\[ *[0-9.]+\])?(\[ *[TC][0-9]+\])? ?\*\* [0-9]+ printk messages dropped \*\*", re.MULTILINE)
# What programs call the step of ibv_modify_qp() that fails if they address by LID, or if the path MTU is too large
RTR = re.compile(rb"\bRTR\b|\brtr\b")
RTR_HINT = "modify_qp to RTR? RoCE has no LIDs (set is_global, dgid, sgid_index 1): Documentation/when-it-fails.rst"
# The last thing that a kernel prints.
LAST_LINE = b"reboot: Power down"


@dataclass
class Verdict:
    word: str = ""
    status: int = 0
    why: str = ""

    def conclude(self, word: str, why: str, status: int | None = None) -> None:
        """The first verdict stands."""
        if not self.word:
            self.override(word, why, status)

    def override(self, word: str, why: str, status: int | None = None) -> None:
        self.word, self.why = word, why
        self.status = STATUS[word] if status is None else status

    def conclude_status(self, whose: str, status: int) -> None:
        if status == 0:
            self.conclude("pass", "")
        elif status == 4:
            self.conclude("skip", f"{whose} ended with status 4")
        else:
            self.conclude("fail", f"{whose} ended with status {status}", status)

    @property
    def line(self) -> str:
        return f"{self.word}: {self.why}" if self.why else self.word


def lines_of(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []


def last_words(machine: Machine) -> str:
    """What QEMU itself had to say, if anything."""
    path = machine.lab.path(machine.name)
    words = [line for line in lines_of(f"{path}.qemu.log") if "warning:" not in line][-3:]
    words = words or [line for line in lines_of(f"{path}.qemu.resets") if "Triple fault" in line]
    status = machine.process.returncode
    if status == -signal.SIGBUS:
        words = [f"the file system of {machine.lab.run}, or of an NVDIMM, is full"]
    elif not words and status < 0:
        words = [f"QEMU was killed by signal {-status}"]
    elif not words:
        words = [f"QEMU ended with status {status}"]
    return f": {printable('; '.join(words))}"


def why_not_up(boot: Boot) -> str:
    """Why a guest ended before its command began.

    What is missing is no trouble of the kernel, though it may end in a panic.
    """
    console = lines_of(boot.lab.path(f"{boot.name}.console"))
    told = [match[2] for line in console if (match := re.match(r"(\[[^]]*\] *)*rxe-vm: (.*)", line))]
    if told:
        said = printable(told[-1])  # it knows best
    elif any(re.search("Kernel panic .*Unable to mount root fs", line) for line in console):
        said = "the kernel finds no initramfs: has it CONFIG_BLK_DEV_INITRD?"
    elif any(re.search("Kernel panic .*No working init found", line) for line in console):
        said = (
            "the kernel cannot run the guest's first program, a script:"
            " has it CONFIG_BINFMT_SCRIPT and CONFIG_BINFMT_ELF?"
        )
    else:
        return ""
    said += " (`rxe-vm kconfig` prints what a guest's kernel needs)"
    return said if boot.guest.kernel.modules else f"{said}; no modules of it were found"


def silence(boot: Boot) -> str:
    """A word more on a guest that has not said anything."""
    if boot.console.size:
        return ""
    return " and said nothing: has its kernel CONFIG_SERIAL_8250_CONSOLE?"


def find_splats(verdict: Verdict, boots: Iterable[Boot]) -> None:
    """A kernel in trouble overrides whatever the commands made of it."""
    for boot in boots:
        if boot.never_up:
            continue
        command = [f"{boot.lab.places.root}/qemu-scripts/find-splats"]
        command.append(boot.lab.path(f"{boot.name}.console"))
        found = subprocess.run(command, stdout=subprocess.PIPE)
        if found.returncode == 0:
            for line in found.stdout.decode("utf-8", "replace").splitlines():
                say(printable(line, 1000))
            why = f"the kernel of '{boot.guest.name}' is in trouble, see {boot.name}.console"
            verdict.override("splat", why)
        elif tainted := [f"{what}, {boot.taint[bit]}" for bit, what in TROUBLE.items() if bit in boot.taint]:
            why = f"the kernel of '{boot.guest.name}' is tainted ({'; '.join(tainted)})"
            verdict.override("splat", f"{why}, though {boot.name}.console does not say why")


def what_is_missing(boot: Boot) -> str:
    """What a file does not show is no proof if the file is not whole."""
    with open(boot.console.path, "rb") as console:
        said = console.read()
    if DROPPED.search(said):
        return f"the kernel of '{boot.guest.name}' dropped messages, so {boot.name}.console may lack a warning"
    if not boot.killed and LAST_LINE not in said[-8192:]:
        return f"the kernel's last line is not in {boot.name}.console, so a warning may be missing, too"
    if any("dump write error" in line for line in lines_of(boot.log.path)):
        return f"QEMU could not write all of {boot.name}.pcap"
    return ""


def check_files(verdict: Verdict, boots: Iterable[Boot]) -> None:
    for boot in boots:
        missing = what_is_missing(boot)
        if missing and verdict.word in ("pass", "skip"):
            verdict.override("lost", missing)


def note_dropped(boots: Iterable[Boot]) -> None:
    for boot in boots:
        port = boot.port
        if port.dropped:
            note(
                f"{boot.name}: dropped {port.dropped} of the lines that it said;"
                f" the first one: {port.first_dropped}"
            )


def speaks_of_rtr(boot: Boot) -> bool:
    """In the last words of its command"""
    for stream in ("stdout", "stderr"):
        with open(boot.lab.path(f"{boot.name}.{stream}"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            if RTR.search(file.read()):
                return True
    return False


def show_verdict(verdict: Verdict, lab: Lab, boots: Iterable[Boot]) -> None:
    if verdict.word == "pass":
        return
    if verdict.word == "lost":
        for boot in (boot for boot in boots if boot.console.size):
            say(f"==> {boot.name}.console <==")
            for line in lines_of(lab.path(f"{boot.name}.console"))[-5:]:
                say(printable(line, 1000))
    note(f"{verdict.line} ({lab.run})")
    if verdict.word == "fail" and any(speaks_of_rtr(boot) for boot in boots):
        note(RTR_HINT)


def write_verdict(lab: Lab, verdict: Verdict) -> None:
    """On a full disk the old one stays, which says that the run did not come to its end."""
    new = lab.path("verdict.new")
    with open(new, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{verdict.line}\nexit status {verdict.status}\naccelerator {lab.accel}\n")
    os.rename(new, lab.path("verdict"))
