# SPDX-License-Identifier: GPL-2.0
"""What crash-states wants of a run: the persistent memory before and after, and what is lost of it.

server.pmem0.start is what a server's memory held before the client's first request, server.pmem0
what it holds at the end; of a group, under the name of each boot.

In a group, clients do not wait for a server that boots again, and servers for no other one:
requests may come before the first of these copies is made.  So .boot has what it held when the
guest booted, and .copied how many bytes of the capture may be older than .start.
"""

import os
import subprocess

from vm.guests import MAX_GUESTS
from vm.machines import Boot
from vm.messages import note, printable
from vm.qemu import Lab


def keep_pmem(boot: Boot, end: str) -> None:
    lab = boot.lab
    if not boot.guest.options.pmem:
        return
    file, to = lab.pmem_path(boot.guest, 0), lab.path(f"{boot.name}.pmem0{end}")
    if not os.path.exists(file) or (os.path.exists(to) and os.path.samefile(file, to)):
        return
    if subprocess.run(["cp", "--sparse=always", "--reflink=auto", file, to]).returncode:
        note(f"cannot keep {to}: crash-states cannot look at this run")


def note_copied(boot: Boot) -> None:
    lab = boot.lab
    start, capture = lab.path(f"{boot.name}.pmem0.start"), lab.path(f"{boot.name}.pcap")
    if lab.request.mode == "group" and os.path.exists(start) and os.path.exists(capture):
        with open(f"{start.removesuffix('start')}copied", "w", encoding="ascii") as file:
            file.write(f"{os.path.getsize(capture)}\n")


def recording_of(boot: Boot) -> str:
    """The folder that crash-states takes for a run; each boot of a group's server has one."""
    lab = boot.lab
    if lab.request.mode == "pair":
        return lab.run
    folder = lab.path(f"{boot.name}.recording")
    os.makedirs(folder, exist_ok=True)
    for kind in "pcap", "memory", "pmem0.boot", "pmem0.start", "pmem0.copied", "pmem0":
        if os.path.exists(lab.path(f"{boot.name}.{kind}")):
            os.symlink(f"../{boot.name}.{kind}", f"{folder}/server.{kind}")
    return folder


def lose_words(lab: Lab, boot: Boot) -> str:
    """QEMU's end has not lost what a power failure loses.  Returns why that failed.

    Each boot has a seed of its own, whatever the order in which they end.
    """
    guest, seed = boot.guest, lab.request.lose
    if seed is None or not guest.ready:
        return ""
    seed += MAX_GUESTS * (guest.boots - 1) + guest.number - 1
    recording = recording_of(boot)
    command = [lab.places.tool("crash-states"), "--lose", lab.pmem_path(guest, 0), "--seed", str(seed)]
    done = subprocess.run([*command, recording], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with open(f"{recording}/lost", "wb") as file:
        file.write(done.stdout)
    said = printable(done.stdout.decode("utf-8", "replace").strip())
    note(said if lab.request.mode == "pair" else f"{guest.name}: {said}")
    if done.returncode == 0:
        return ""
    return said or f"crash-states ended with status {done.returncode}"
