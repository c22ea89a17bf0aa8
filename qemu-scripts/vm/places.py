# SPDX-License-Identifier: GPL-2.0
"""Where files are, and what the environment asks for.

These facts stand in files that the shell scripts source, so they are read from there.
"""

import os
import re
import subprocess
from dataclasses import dataclass

from vm.messages import refuse

LAB = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

_FACTS = """
for file in places choices; do . "$0/$file.sh"; done
printf '%s\\0' "$root" "$out" "$kept" "$variant" "$rdma_core_folder" "$scale" "$(uname -m)"
"""


@dataclass(frozen=True)
class Places:
    root: str
    out: str  # where the folders of runs are made
    kept: str  # for what is made once
    variant: str  # of the kernel, the end of its folder's name
    rdma_core: str
    scale: int  # multiplies all deadlines
    machine: str

    def tool(self, name: str) -> str:
        return f"{self.root}/build/crash/{name}"

    def require_tool(self, name: str) -> None:
        if not os.path.exists(self.tool(name)):
            refuse(f"there is no {self.tool(name)}: {to_build('selftests')}")


def output_of(*command: str) -> str:
    """What a program prints.  If it fails, it has said why."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(2)
    return os.fsdecode(done.stdout).removesuffix("\n")


def shell(script: str, *words: str) -> str:
    """What a script of bash prints, which has this folder as $0."""
    return output_of("bash", "-euo", "pipefail", "-c", script, LAB, *words)


def find_places() -> Places:
    root, out, kept, variant, rdma_core, scale, machine, _ = shell(_FACTS).split("\0")
    if not re.fullmatch("[1-9][0-9]*", scale, re.ASCII):
        refuse(f"RXE_TIME_SCALE={scale} is not a whole number")
    return Places(root, out, kept, variant, f"{root}/{rdma_core}", int(scale), machine)


def version() -> str:
    return shell('. "$0/places.sh"; version rxe-vm')


def to_build(target: str) -> str:
    """The cure for what `make TARGET` builds."""
    return shell('. "$0/places.sh"; to_build "$1"', target)


def to_install(*programs: str) -> str:
    """The cure for programs that are missing."""
    return shell('. "$0/places.sh"; to_install "$@"', *programs)


def make_run_folder(out: str, name: str) -> str:
    try:
        return shell('. "$0/run-folder.sh"; make_run_folder "$@" 2>/dev/null', out, name)
    except SystemExit:
        refuse(f"cannot make a folder in {out}: set RXE_OUT to a folder that you may write to")


def which(program: str, path: str) -> str | None:
    folders = [""] if "/" in program else path.split(":")
    for file in (os.path.join(folder, program) for folder in folders):
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    return None
