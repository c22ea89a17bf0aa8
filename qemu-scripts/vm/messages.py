# SPDX-License-Identifier: GPL-2.0
"""What rxe-vm itself says: notes, refusals, and on a terminal a line that tells what it waits for."""

import os
import sys
from typing import NoReturn

_shown = ""  # the line on the terminal


class Refusal(Exception):
    """What was asked for cannot be done: exit status 2, and the message says what to do."""


def refuse(message: str) -> NoReturn:
    raise Refusal(message)


def say(text: str) -> None:
    show("")
    print(text, file=sys.stderr, flush=True)


def note(message: str) -> None:
    say(f"rxe-vm: {message}")


def printable(text: str, limit: int = 400) -> str:
    """What a guest says, for a terminal and for a file of lines."""
    safe = "".join(c if c.isprintable() else "?" for c in text[:limit])
    return safe + ("..." if len(text) > limit else "")


def has_terminal() -> bool:
    return os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb"


def show(text: str) -> None:
    """On a terminal, in the place of what was shown before; no text removes that."""
    global _shown
    if text == _shown or not has_terminal():
        return
    _shown = text
    width = os.get_terminal_size(2).columns or 80
    sys.stderr.write(f"\r\033[K{text[: width - 1]}")
    sys.stderr.flush()
