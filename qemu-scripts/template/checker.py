#!/usr/bin/env python3
# Judges for crash-states what a power cut may have left.  For each line on stdin it answers "0" and what it has recovered,
# or "1" and why that is wrong; without a line, its exit status says the same.
import os
import sys
import traceback

SIZE = 2 << 20  # as @NAME@.py has them
RECORD = 64
WORD = 8


def promised() -> int:
    """How many records the initiator had called durable."""
    with open(os.environ["TOLD"], encoding="utf-8") as told:
        return sum("is durable" in line for line in told)


def check(log: bytes) -> tuple[bool, str]:
    """What recovery does: it reads the tail, and then each record that the tail counts."""
    tail = int.from_bytes(log[:WORD], "little")
    promises = promised()
    if tail < promises:
        return False, f"the tail is {tail}, but {promises} records were promised"
    if tail > SIZE // RECORD - 1:
        return False, f"the tail is {tail}, more than there is room for"
    for i in range(tail):
        at = RECORD * (i + 1)
        if log[at : at + RECORD] != (i + 1).to_bytes(WORD, "little") * (RECORD // WORD):
            return False, f"record {i} is lost or torn, but the tail counts it"
    return True, f"{tail} records"


def look() -> tuple[bool, str]:
    with open(os.environ["IMAGE"], "rb") as image:
        return check(image.read(SIZE))


def main() -> int:
    serves = False
    for _ in sys.stdin:
        survives, text = look()
        print(0 if survives else 1, text, flush=True)
        serves = True
    if serves:
        return 0
    survives, text = look()
    print(text)
    return 0 if survives else 1


try:
    sys.exit(main())
except Exception:  # an exception's own status, 1, would mean "inconsistent"
    traceback.print_exc()
    sys.exit(3)
