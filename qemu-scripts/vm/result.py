# SPDX-License-Identifier: GPL-2.0
"""The result for programs: RUN/result.json, which --json FILE copies."""

import json
import os
import re

from vm.event_loop import Run
from vm.guests import KILLED, Guest
from vm.machines import Boot

Json = dict[str, object]


def dax_devices(boot: Boot) -> list[Json]:
    """Where a server's device DAX begins in BOOT.pmem0, as its guest tells."""
    if not boot.recorded:
        return []
    with open(boot.recorded.path, encoding="ascii") as memory:
        told = re.findall(r"^device (dax[0-9.]{1,20}) ([0-9]{1,19}) ([0-9]{1,19})$", memory.read(), re.M)
    return [{"device": name, "offset": int(at), "size": int(size)} for name, at, size in told]


def of_boot(boot: Boot) -> Json:
    return {
        "name": boot.name,
        "seconds": round(boot.started - boot.booted, 2) if boot.started else None,
        "dax": dax_devices(boot),
        "dropped_lines": boot.port.dropped,
    }


def of_guest(run: Run, guest: Guest) -> Json:
    return {
        "name": guest.name,
        "side": guest.side,
        "kernel": guest.kernel.image,
        "status": None if guest.ended == KILLED else guest.ended,
        "power_cut": guest.ended == KILLED,
        "boots": [of_boot(boot) for boot in run.all_boots if boot.guest is guest],
    }


def write_result(run: Run) -> None:
    lab, verdict = run.lab, run.verdict
    result: Json = {
        "verdict": verdict.word,
        "reason": verdict.why,
        "status": verdict.status,
        "seconds": round(run.seconds, 2),
        "accelerator": lab.accel,
        "run": lab.run,
        "guests": [of_guest(run, guest) for guest in run.request.guests],
        "files": sorted({*os.listdir(lab.run), "result.json"}),
    }
    for path in filter(None, (lab.path("result.json"), run.request.json)):
        with open(path, "w", encoding="ascii") as file:
            file.write(json.dumps(result) + "\n")
