# SPDX-License-Identifier: GPL-2.0
"""The command line: checks it, and makes a Request of it."""

import os
import random
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn, TextIO

from vm import backing
from vm.guests import MAX_GUESTS, Guest
from vm.messages import note, refuse
from vm.places import Places

MODES = ("run", "shell", "pair", "group")


@dataclass
class Request:
    """What is asked for."""

    mode: str
    guests: list[Guest] = field(default_factory=list)  # servers first
    terminal: Guest | None = None  # that has ours
    name: str = ""
    timeout: int = 0
    ipv6: bool = False
    vlan: int = 0
    mtu: int = 0
    capture: bool = True
    record_cpu: bool = False
    server_end: str = "self"  # stop, kill
    lose: int | None = None  # seed of what a power failure takes
    json: str = ""  # a file for the result

    @property
    def servers(self) -> list[Guest]:
        return [guest for guest in self.guests if guest.side == "server"]

    @property
    def clients(self) -> list[Guest]:
        return [guest for guest in self.guests if guest.side == "client"]


def number(option: str, least: int, most: int, what: str) -> Callable[[str], int]:
    def check(value: str) -> int:
        if re.fullmatch("[1-9][0-9]{0,8}", value, re.ASCII) and least <= int(value) <= most:
            return int(value)
        refuse(f"{option} {value}: {what}")

    return check


def matching(option: str, pattern: str, what: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value, re.ASCII):
            refuse(f"{option} {value}: {what}")
        return value

    return check


def quoted_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        refuse(f"--qemu {text}: a quote is not closed")


def rdma_core(folder: str) -> str:
    if not os.path.exists(f"{folder}/lib/libibverbs.so"):
        refuse(f"--rdma-core {folder}: no build of rdma-core is there")
    return folder


def writable(option: str, file: str) -> str:
    try:
        with open(file, "ab"):
            return file
    except OSError as error:
        refuse(f"{option} {file}: {error.strerror}")


def share(folder: str) -> str:
    if not os.path.isdir(folder):
        refuse(f"--share {folder}: no such folder")
    return folder


# Options without a value: what they set in the request.
FLAGS: dict[str, tuple[str, object]] = {
    "ipv6": ("ipv6", True),
    "record-cpu": ("record_cpu", True),
    "no-capture": ("capture", False),
    "stop-server": ("server_end", "stop"),
    "kill-server": ("server_end", "kill"),
}
# Options of the run: each checks its value.
RUN_OPTIONS: dict[str, Callable[[str], object]] = {
    "name": matching("--name", "[A-Za-z0-9._-]+", "letters, digits, dot, dash and underscore only"),
    "json": partial(writable, "--json"),
    "timeout": number("--timeout", 1, 10**9, "not a number of seconds"),
    "vlan": number("--vlan", 1, 4094, "a VLAN has a number from 1 to 4094"),
    "mtu": number("--mtu", 576, 65000, "a network card takes 576 to 65000 bytes"),
}
# Those of a guest.
GUEST_OPTIONS: dict[str, Callable[[str], object]] = {
    "kernel": str,
    "append": lambda value: [value],
    "qemu": quoted_words,
    "delay": matching("--delay", "[0-9]+(us|ms|s)", "say for example 500us or 1ms"),
    "loss": matching("--loss", r"([0-9]{1,2}(\.[0-9]+)?|100)%", "say for example 1%"),
    "rdma-core": rdma_core,
    "mem": backing.megabytes,
    "cpus": matching("--cpus", "[1-9][0-9]*", "not a number of CPUs"),
    "pmem": lambda value: [backing.pmem(value)],
    "pmem-malloc": backing.byte_count,
    "nvme": backing.megabytes,
    "cmb": backing.cmb,
    "pmr": backing.pmr,
    "share": lambda value: [share(value)],
}


@dataclass
class Parser:
    request: Request
    words: list[str]
    servers: list[str] = field(default_factory=list)  # their commands
    clients: list[str] = field(default_factory=list)
    # Options of guests as they were given: whose, option, value.
    given: list[tuple[str, str, object]] = field(default_factory=list)

    def parse(self) -> None:
        while self.words and self.words[0].startswith("--"):
            word = self.words.pop(0)
            key = word.removeprefix("--")
            if not key:
                return
            if key == "help":
                usage(sys.stdout, 0)
            if key in FLAGS:
                setattr(self.request, *FLAGS[key])
            elif key.startswith("kill-server="):
                self.lose_at_kill(key)
            elif not self.words:
                refuse(f"{word} wants a value, or is no option (rxe-vm --help)")
            elif key in RUN_OPTIONS:
                setattr(self.request, key, RUN_OPTIONS[key](self.words.pop(0)))
            else:
                self.option_of_guests(key, self.words.pop(0))

    def lose_at_kill(self, key: str) -> None:
        match = re.fullmatch("kill-server=lose(:([0-9]{1,18}))?", key, re.ASCII)
        if not match:
            refuse(f"--{key}: say --kill-server=lose or --kill-server=lose:SEED")
        self.request.server_end = "kill"
        self.request.lose = int(match[2]) if match[2] else random.getrandbits(30)

    def option_of_guests(self, key: str, value: str) -> None:
        match = re.fullmatch("((server|client)[1-9]?)(-(.*))?", key, re.ASCII | re.DOTALL)
        if match and self.request.mode not in ("pair", "group"):
            refuse(f"--{key}: only rxe-vm pair and group have servers and clients")
        if key == "server":
            self.servers.append(value)
        elif key == "client":
            self.clients.append(value)
        else:
            whose, key = (match[1], match[4] or match[1]) if match else ("all", key)
            check = GUEST_OPTIONS.get(key)
            if not check:
                refuse(f"unknown option --{key} (rxe-vm --help)")
            self.given.append((whose, key, check(value)))

    def add_guest(self, name: str, side: str, nth: int, command: str) -> None:
        guests = self.request.guests
        guests.append(Guest(name, side, len(guests) + 1, nth, command))

    def name_guests(self) -> None:
        mode, total = self.request.mode, len(self.servers) + len(self.clients)
        if mode in ("run", "shell"):
            self.name_single_guest()
            return
        if self.words:
            refuse(
                f"'{self.words[0]}': the commands of a {mode} are given by --server and --client, as one string each"
            )
        if mode == "pair" and not self.servers:
            refuse("no command given: --server COMMAND")
        if not self.clients:
            refuse("no command given: --client COMMAND")
        if mode == "pair" and total != 2:
            refuse("a pair has one --server and one --client: for more say rxe-vm group")
        if total > MAX_GUESTS:
            refuse(f"a group has up to {MAX_GUESTS} guests, not {total}")
        for side, commands in ("server", self.servers), ("client", self.clients):
            for nth, command in enumerate(commands, 1):
                self.add_guest(side if mode == "pair" else f"{side}{nth}", side, nth, command)

    def name_single_guest(self) -> None:
        if self.request.mode == "run":
            if not self.words:
                refuse("no command given: rxe-vm run -- COMMAND [ARG...]")
            self.add_guest("guest", "guest", 1, quote(self.words))
            return
        if self.words:
            refuse(f"'{self.words[0]}': rxe-vm shell takes no command")
        if not os.isatty(0):
            refuse("rxe-vm shell wants a terminal: rxe-vm run needs none")
        self.add_guest("guest", "guest", 1, "exec bash -i")
        self.take_terminal(self.request.guests[0])

    def take_terminal(self, guest: Guest) -> None:
        """It has our terminal for as long as one likes."""
        if self.request.terminal:
            refuse(
                f"{self.request.terminal.name} and {guest.name} cannot both have the terminal:"
                " use rxe-vm attach for one"
            )
        self.request.terminal = guest
        self.request.timeout = self.request.timeout or 1000000

    def find_terminal(self) -> None:
        """A command of a pair or a group that is a shell and nothing else."""
        if self.request.mode not in ("pair", "group") or not os.isatty(0):
            return
        for guest in self.request.guests:
            if re.fullmatch("(/[a-z/]*/)?(ba|da|z)?sh( -i)?", guest.command):
                self.take_terminal(guest)

    def distribute_options(self) -> None:
        """Each option to the guests that it is for; of two, the later one counts."""
        for whose, key, value in self.given:
            meant = [guest for guest in self.request.guests if guest.is_meant_by(whose)]
            if not meant:
                refuse(f"--{whose}-{key}: there is no {whose}")
            for guest in meant:
                name = key.replace("-", "_")
                before = getattr(guest.options, name)
                setattr(guest.options, name, before + value if isinstance(value, list) else value)


def quote(words: list[str]) -> str:
    """For any POSIX shell."""
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def usage(to: TextIO, status: int) -> NoReturn:
    with open(f"{os.path.dirname(__file__)}/usage.txt", encoding="utf-8") as text:
        print(text.read(), end="", file=to)
    raise SystemExit(status)


def check_pmem(request: Request, places: Places) -> None:
    """A file is the NVDIMM of one guest; and what takes from it wants one."""
    owner: dict[str, Guest] = {}
    for guest in request.guests:
        for wanted in guest.options.pmem:
            file = os.path.realpath(wanted.file) if wanted.file else ""
            if file in owner:
                refuse(
                    f"--pmem {wanted.spec}: {owner[file].name} and {guest.name} cannot share"
                    f" an NVDIMM: say --{guest.name}-pmem OTHER"
                )
            if file:
                owner[file] = guest
    if request.lose is None:
        return
    places.require_tool("crash-states")
    for guest in request.servers:
        first = guest.options.pmem[:1]
        if request.mode != "group" and not (first and first[0].file):
            refuse("--kill-server=lose wants the NVDIMM to outlive the run: --server-pmem FILE:SIZE")
        if not first:
            refuse(f"--kill-server=lose wants an NVDIMM: --{guest.name}-pmem SIZE")


def check_record_cpu(request: Request, places: Places) -> None:
    if not request.record_cpu:
        return
    if request.mode != "pair":
        refuse("--record-cpu: only rxe-vm pair records the CPU of its server")
    if not request.servers[0].options.pmem:
        refuse("--record-cpu wants an NVDIMM: --server-pmem SIZE")
    if not request.capture:
        refuse("--record-cpu wants the capture, which gives the time: leave out --no-capture")
    places.require_tool("record-cpu.so")


def check_request(request: Request, places: Places) -> None:
    if request.server_end != "self" and not request.servers:
        refuse(f"--{request.server_end}-server: there is no server")
    if request.lose is not None and not request.capture:
        refuse("--kill-server=lose looks at the capture: leave out --no-capture")
    check_pmem(request, places)
    for guest in request.guests:
        if guest.options.pmem_malloc:
            if not guest.options.pmem:
                refuse(f"--pmem-malloc: {guest.name} has no NVDIMM: say --pmem SIZE, too")
            places.require_tool("pmem-malloc.so")
        if (guest.options.cmb or guest.options.pmr) and not guest.options.nvme:
            refuse(f"--cmb, --pmr: {guest.name} has no NVMe device: say --nvme SIZE, too")
    check_record_cpu(request, places)
    if request.mode in ("run", "shell"):
        options = request.guests[0].options
        if options.delay or options.loss:
            note("--delay, --loss: what a guest sends to itself is neither late nor lost")


def parse(mode: str, words: list[str], places: Places) -> Request:
    parser = Parser(Request(mode), list(words))
    request = parser.request
    parser.parse()
    if request.ipv6 and request.mtu and request.mtu < 1280:
        refuse(f"--mtu {request.mtu}: IPv6 wants 1280 or more")
    parser.name_guests()
    parser.distribute_options()
    check_request(request, places)
    parser.find_terminal()
    request.name = request.name or mode
    request.timeout = request.timeout or 300
    return request
