# SPDX-License-Identifier: GPL-2.0
"""Runs cases of suites on a kernel, for rxe-vm judge, and reads the KTAP that they print."""

import glob
import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from vm.places import Places

# What a suite takes from the environment: these would choose another kernel, or longer cases.
NOT_PASSED_ON = ("BASE", "DEBUG", "KERNEL", "LONG")
# What conformance says of such a case
DOWN = "took the guest down"


@dataclass
class Result:
    name: str  # with _ for blanks
    word: str  # ok, not, skip
    why: str


@dataclass
class Outcome:
    """What a suite has printed, and what its guests have left."""

    folder: str
    status: int
    results: list[Result] = field(default_factory=list)
    complete: bool = False  # has each plan its results?
    skipped: str = ""  # why the program skipped all cases
    said: str = ""  # its last words
    splat: str = ""  # the kernel's trouble
    lost: str = ""

    def matching(self, pattern: str) -> list[Result]:
        pattern = pattern.partition("/")[2] or pattern
        return [result for result in self.results if fnmatchcase(result.name, pattern)]

    def trouble(self, may_hang: bool) -> str:
        """What the kernel has done to the guest, or nothing.  A guest that is late may be one of a busy host."""
        ended = re.search("Triple fault" + "|a guest did not end" * may_hang, self.lost)
        return self.splat or (self.lost if ended else "")


def read_ktap(lines: list[str], outcome: Outcome) -> None:
    planned: dict[int, int] = {}
    seen: dict[int, int] = {}
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        if plan := re.match(r" *1\.\.([0-9]+)( # SKIP (.*))?", line):
            planned[depth] = planned.get(depth, 0) + int(plan[1])
            outcome.skipped = plan[3] or outcome.skipped
        elif result := re.match(r" *(not )?ok [0-9]+ (?:- )?(.*?)(?: # (SKIP )?(.*))?$", line):
            seen[depth] = seen.get(depth, 0) + 1
            word = "not" if result[1] else "skip" if result[3] else "ok"
            outcome.results.append(Result(re.sub("[ \t]", "_", result[2]), word, result[4] or ""))
    outcome.complete = bool(seen) and planned == seen


def last_words(*texts: str) -> str:
    for text in texts:
        lines = [line.strip("# ") for line in text.splitlines() if not re.match(r" *((not )?ok |1\.\.|K?TAP |#? *$)", line)]
        if lines:
            return re.sub("^.*error: ", "", lines[-1])
    return ""


def read_outcome(folder: str, status: int) -> Outcome:
    outcome = Outcome(folder, status)
    texts = []
    for name in ("stderr", "ktap"):
        with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    read_ktap(texts[1].splitlines(), outcome)
    outcome.said = last_words(*texts)
    for path in sorted(glob.glob(f"{glob.escape(folder)}/*/verdict")):
        with open(path, encoding="utf-8", errors="replace") as file:
            word, _, why = file.readline().strip().partition(": ")
        outcome.splat = why if word == "splat" else outcome.splat
        outcome.lost = why if word == "lost" else outcome.lost
    return outcome


def command(places: Places, words: list[str], kernel: str) -> list[str]:
    return [f"{places.root}/selftests/suites/{words[0]}.sh", *words[1:], "--kernel", kernel]


def refusal(places: Places, words: list[str]) -> str:
    """Why the suite runs on no kernel but the lab's own, or nothing"""
    done = subprocess.run([*command(places, words, "any"), "--list"], capture_output=True, text=True)
    said = last_words(done.stderr) if done.returncode else ""
    return said if said.startswith("--kernel: ") else ""


def run(places: Places, words: list[str], patterns: list[str], kernel: str, folder: str) -> Outcome:
    """In a process group of its own, which ends with this program."""
    os.mkdir(folder)
    environment = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    environment["RXE_OUT"] = folder
    with open(f"{folder}/ktap", "wb") as ktap, open(f"{folder}/stderr", "wb") as stderr:
        suite = subprocess.Popen(
            [*command(places, words, kernel), *patterns],
            stdin=subprocess.DEVNULL, stdout=ktap, stderr=stderr, env=environment, process_group=0,
        )
        try:
            status = suite.wait()
        except BaseException:
            os.killpg(suite.pid, signal.SIGTERM)
            suite.wait()
            raise
    return read_outcome(folder, status)
