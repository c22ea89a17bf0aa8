# SPDX-License-Identifier: GPL-2.0
"""Tells what a run waits for: on a terminal in a line, in a log only if it takes long."""

import time

from vm.messages import has_terminal, note, show

LONG = 20  # seconds, until a log tells
FOR_EVER = 100000  # with a terminal there is no deadline


class Progress:
    def __init__(self, scale: int) -> None:
        self._long = LONG * scale
        self._what = ""
        self._since = 0.0
        self._noted = False

    def update(self, what: str, deadline: float) -> None:
        now = time.monotonic()
        if what != self._what:
            self._what, self._since, self._noted = what, now, False
        waited, allowed = int(now - self._since), round(deadline - self._since)
        limit = f"of {allowed} " if allowed < FOR_EVER else ""
        text = f"{what}: {waited} {limit}s" if what else ""
        show(text)
        if what and waited >= self._long and not self._noted and not has_terminal():
            self._noted = True
            note(text)
