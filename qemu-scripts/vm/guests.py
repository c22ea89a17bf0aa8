# SPDX-License-Identifier: GPL-2.0
"""Guests: what was asked for each of them, and how far it is."""

from dataclasses import dataclass, field

from vm.backing import Backing

MAX_GUESTS = 8
KILLED = -1  # in place of an exit status: its power was cut


@dataclass
class Options:
    kernel: str = ""
    rdma_core: str = ""
    mem: int = 1024
    cpus: str = "2"
    pmem: list[Backing] = field(default_factory=list)
    pmem_malloc: int = 0  # bytes
    nvme: int = 0
    cmb: int = 0
    pmr: Backing | None = None
    share: list[str] = field(default_factory=list)
    delay: str = ""
    loss: str = ""
    append: list[str] = field(default_factory=list)
    qemu: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Kernel:
    image: str
    initramfs: str
    modules: str


@dataclass(eq=False)
class Guest:
    name: str
    side: str  # guest, server, client
    number: int  # 1 to 8, the last part of its addresses
    nth: int  # among those of its side, from 1
    command: str
    options: Options = field(default_factory=Options)
    kernel: Kernel = Kernel("", "", "")
    boots: int = 0
    ready: bool = False
    told: str = ""  # to the clients, by rxe-tell
    ended: int | None = None  # the status of its command
    asked_by: "Guest | None" = None  # the client that waits for it to boot again
    # Its power is cut: the clients that wait for that.
    cut_for: list["Guest"] = field(default_factory=list)

    def boot_name(self, n: int) -> str:
        """What the files of its N-th boot begin with: server2, then server2.2 ..."""
        return self.name if n == 1 else f"{self.name}.{n}"

    def is_meant_by(self, whose: str) -> bool:
        return whose in ("all", self.side, self.name)
