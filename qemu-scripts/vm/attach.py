# SPDX-License-Identifier: GPL-2.0
"""rxe-vm attach: a shell in a guest that another rxe-vm runs.

That rxe-vm has made FIFOs in the run's folder: input goes through BOOT.shell.in, output comes
through BOOT.shell.out, and a line to BOOT.control.in tells the guest to begin.  BOOT.shell.end
exists while someone is attached, and says when the shell has ended.
"""

import os
import re
import select
import stat
import termios
import tty

from vm.messages import note, refuse
from vm.places import Places
from vm.qemu import terminal_size


def is_fifo(path: str) -> bool:
    return os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode)


def boots_in(run: str) -> dict[str, str]:
    """GUEST: its newest boot."""
    newest: dict[str, tuple[int, str]] = {}
    names = os.listdir(run) if os.path.isdir(run) else []
    for name in names:
        match = re.fullmatch(r"([a-z]+[0-9]?)(\.([0-9]+))?\.control\.in", name)
        if match:
            boot = (int(match[3] or 1), name.removesuffix(".control.in"))
            newest[match[1]] = max(newest.get(match[1], boot), boot)
    return {guest: boot for guest, (_, boot) in sorted(newest.items())}


def find_attachable(places: Places, wanted: str) -> str:
    """The path that the names of a boot's files begin with."""
    run, _, guest = wanted.rpartition("/")
    if "/" not in wanted:
        run = f"{places.out}/latest"
    boots = boots_in(run or "/")
    if not boots:
        refuse(f"no guest runs in {run}")
    if not guest and len(boots) > 1:
        refuse(f"which one? rxe-vm attach GUEST, one of: {' '.join(boots)}")
    guest = guest or next(iter(boots))
    if guest not in boots:
        refuse(f"no guest '{guest}' runs in {run}, but: {' '.join(boots)}")
    path = f"{run}/{boots[guest]}"
    if not is_fifo(f"{path}.shell.in"):
        refuse(f"'{guest}' has a terminal already: its shell runs there")
    try:
        # A rxe-vm that was killed may have left what is read no more.
        os.close(os.open(f"{path}.control.in", os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        refuse(f"'{guest}' of {run} runs no more: its rxe-vm was killed")
    return path


def pass_on(path: str, end: int) -> None:
    """Until the shell has ended, or rxe-vm takes the ways away since the run is over."""
    to_shell = os.open(f"{path}.shell.in", os.O_RDWR)
    from_shell = os.open(f"{path}.shell.out", os.O_RDWR | os.O_NONBLOCK)
    poll = select.poll()
    for fd in (0, from_shell, end):
        poll.register(fd, select.POLLIN)
    ended = False
    while not ended and is_fifo(f"{path}.control.in"):
        ready = [fd for fd, _ in poll.poll(500)]
        ended = end in ready
        if from_shell in ready:
            os.write(1, os.read(from_shell, 65536))
        if 0 in ready:
            typed = os.read(0, 1024)
            os.write(to_shell, typed)
            if not typed:
                poll.unregister(0)


def attach(places: Places, words: list[str]) -> None:
    if len(words) > 1:
        refuse(f"'{words[1]}': rxe-vm attach takes one guest")
    path = find_attachable(places, words[0] if words else "")
    boot = os.path.basename(path)
    if not os.isatty(0):
        refuse("rxe-vm attach wants a terminal")
    shell_end = f"{path}.shell.end"
    try:
        os.mkfifo(shell_end)
    except FileExistsError:
        refuse(f"someone is attached to '{boot}' already (if not: rm {shell_end})")
    before = termios.tcgetattr(0)
    try:
        end = os.open(shell_end, os.O_RDWR | os.O_NONBLOCK)
        with open(f"{path}.control.in", "w", encoding="ascii") as control:
            note(f"a shell in '{boot.partition('.')[0]}'; it ends by exit, or with the guest's command")
            control.write(f"shell {terminal_size()}\n")
        tty.setraw(0, termios.TCSADRAIN)  # what was typed before counts
        pass_on(path, end)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        if os.path.exists(shell_end):
            os.unlink(shell_end)
