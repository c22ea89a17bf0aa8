# SPDX-License-Identifier: GPL-2.0
"""Sizes, and the files that hold the content of NVDIMMs and of a device's persistent memory."""

import errno
import fcntl
import os
import re
import time
from dataclasses import dataclass

from vm.messages import refuse


def byte_count(size: str, units: str = "KMG", example: str = "64K or 1M") -> int:
    match = re.fullmatch(f"([1-9][0-9]{{0,8}})([{units}])", size, re.ASCII)
    if not match:
        refuse(f"'{size}' is not a size: say for example {example}")
    return int(match[1]) << {"K": 10, "M": 20, "G": 30}[match[2]]


def megabytes(size: str) -> int:
    """256M, 4G: 256, 4096"""
    return byte_count(size, "MG", "256M or 4G") >> 20


@dataclass(frozen=True)
class Backing:
    """SIZE or FILE[:SIZE], as it was given to an option."""

    option: str
    spec: str
    file: str  # empty: one of the run's folder
    size: int  # in MiB

    def make(self, file: str) -> None:
        if not os.path.exists(file):
            make_sparse(file, self.size, f"{self.option} {self.spec}")


def make_sparse(file: str, size: int, option: str) -> None:
    try:
        with open(file, "xb") as new:
            new.truncate(size << 20)
    except OSError as error:
        refuse(f"{option}: cannot make {file}: {error.strerror}")


def backing(option: str, spec: str) -> Backing:
    if re.fullmatch("[0-9]+[MG]?", spec, re.ASCII):
        return Backing(option, spec, "", megabytes(spec))
    file, colon, size = spec.rpartition(":")
    if not colon:
        file, size = spec, ""
    wanted = megabytes(size) if colon or not file else None
    if os.path.exists(file):
        if not os.path.isfile(file) or not os.access(file, os.R_OK | os.W_OK):
            refuse(f"{option} {spec}: you cannot read and write {file}")
        have = os.path.getsize(file) >> 20
        if wanted not in (None, have):
            refuse(f"{option} {spec}: {file} has {have}M")
        wanted = have
    if wanted is None:
        refuse(f"{option} {spec}: no such file; say {spec}:SIZE to make one")
    return Backing(option, spec, file, wanted)


def pmem(spec: str) -> Backing:
    wanted = backing("--pmem", spec)
    if wanted.size < 16 or wanted.size % 16:
        refuse(f"--pmem {spec}: the size must be a multiple of 16M")
    return wanted


def power_of_two(option: str, spec: str, size: int) -> None:
    """Each is one BAR of the NVMe device."""
    if size <= 0 or size & (size - 1):
        refuse(f"{option} {spec}: the size must be a power of two")


def cmb(spec: str) -> int:
    size = megabytes(spec)
    power_of_two("--cmb", spec, size)
    return size


def pmr(spec: str) -> Backing:
    wanted = backing("--pmr", spec)
    power_of_two("--pmr", spec, wanted.size)
    return wanted


class Locks:
    """Until this run ends no other one shall write to these files.

    What had one before may be about to end.
    """

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def take(self, option: str, file: str) -> None:
        if file in self._held:
            return
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        give_up = time.monotonic() + 5
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno != errno.EWOULDBLOCK:
                    break  # a file system without locks
                if time.monotonic() > give_up:
                    refuse(f"{option} {file}: another run uses it: wait until that ends, or name another file")
                time.sleep(0.05)
        self._held[file] = fd
