# SPDX-License-Identifier: GPL-2.0
"""The control port: what a guest may say.

A guest is not trusted.  Whatever runs in it can write to the port.  So a line is one of the known
words with numbers in their range, or it is dropped and counted.  No word of a guest becomes a
path here, and text of a guest is printable ASCII of a limited length.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vm.guests import MAX_GUESTS
from vm.messages import printable

LONGEST_LINE = 4000
MOST_MESSAGES = 1000  # of one boot, without what is recorded
# What is kept as it comes, and which side says it.
RECORDED = {"memory": "server", "posted": "client"}

_NUMBER = "(?P<number>0|[1-9][0-9]{0,9})"
_MEMORY = "link|device|region|piece|window|sent|unknown"
_CALLER = r" /[^ ]+\+0x[0-9a-f]{1,16}"
_POSTED = f"site [0-9.]{{1,20}}({_CALLER}){{1,8}}|request 0x[0-9a-f]{{1,6}} [0-9]{{1,8}} [0-9.]{{1,20}}"
# Of each word what follows it, and the largest number.
_WORDS: dict[str, tuple[str, int]] = {
    "started": ("", 0),
    "ready": ("", 0),
    "shell-ended": ("", 0),
    "exit": (f" {_NUMBER}", 255),
    "taint": (f" {_NUMBER}", 2**31),
    "kill-server": (f" {_NUMBER}", MAX_GUESTS),
    "start-server": (f" {_NUMBER}", MAX_GUESTS),
    "tell": (" (?P<text>.{1,200})", 0),
    "fail": (" (?P<text>.+)", 0),
    "memory": (f" (?P<text>({_MEMORY}) .+)", 0),
    "posted": (f" (?P<text>{_POSTED})", 0),
}
_PATTERNS = {word: re.compile(word + rest) for word, (rest, _) in _WORDS.items()}


@dataclass(frozen=True)
class Message:
    word: str
    number: int = 0
    text: str = ""


def parse(line: bytes) -> Message | None:
    if not all(32 <= c < 127 for c in line):
        return None
    said = line.decode("ascii")
    word = said.partition(" ")[0]
    match = _PATTERNS[word].fullmatch(said) if word in _PATTERNS else None
    if not match:
        return None
    given = match.groupdict()
    number = int(given.get("number") or 0)
    return Message(word, number, given.get("text") or "") if number <= _WORDS[word][1] else None


class Port:
    """Takes bytes as they come, and gives the messages in them."""

    def __init__(self) -> None:
        self._rest = b""
        self._too_long = False
        self._messages = 0
        self.dropped = 0
        self.first_dropped = ""

    def drop(self, line: bytes) -> None:
        self.dropped += 1
        self.first_dropped = self.first_dropped or printable(line.decode("ascii", "replace"), 60)

    def feed(self, data: bytes) -> Iterator[Message]:
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            too_long, self._too_long = self._too_long or len(line) > LONGEST_LINE, False
            message = None if too_long else parse(line)
            self._messages += message is not None and message.word not in RECORDED
            if message and self._messages <= MOST_MESSAGES:
                yield message
            else:
                self.drop(line)
        # Of a line that is too long no more is kept than shows that.
        self._rest = rest[: LONGEST_LINE + 1]
        self._too_long = self._too_long or len(rest) > LONGEST_LINE
