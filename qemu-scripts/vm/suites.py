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
NOT_PASSED_ON = ("BASE", "DEBUG", "LONG")
# What conformance says of such a case
DOWN = "took the guest down"
# A case whose program gave up, since it could not do its own part: perhaps for what one before it has left
GAVE_UP = "gave up: "


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
    skipped: str = ""  # why the program skipped all, or the suite its case
    said: str = ""  # its last words
    splat: str = ""  # the kernel's trouble
    lost: str = ""

    @property
    def begun(self) -> bool:
        """Has any case, below the one of the suite?"""
        return any(not result.why.startswith("status ") for result in self.results)

    def matching(self, pattern: str) -> list[Result]:
        pattern = pattern.partition("/")[2] or pattern
        return [result for result in self.results if fnmatchcase(result.name, pattern)]

    def trouble(self, may_hang: bool) -> str:
        """What the kernel has done to the guest, or nothing.  A guest that is late may be one of a busy host."""
        ended = re.search("Triple fault" + "|a guest did not end" * may_hang, self.lost)
        return self.splat or (self.lost if ended else "")


def read_ktap(lines: list[str], outcome: Outcome) -> str:
    """Returns the case that has begun and has no result."""
    planned: dict[int, int] = {}
    seen: dict[int, int] = {}
    running = gave_up = ""
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        if plan := re.match(r" *1\.\.([0-9]+)( # SKIP (.*))?", line):
            planned[depth] = planned.get(depth, 0) + int(plan[1])
            outcome.skipped = plan[3] or outcome.skipped
        elif begun := re.match(r" *#  RUN +(\S+) \.\.\.", line):
            running = begun[1]
        elif error := re.match("[# ]*(?:rxe_conformance|hostile-wqes|hostile-qps): (.*)", line):
            gave_up = GAVE_UP + error[1]
        elif result := re.match(r" *(not )?ok [0-9]+ (?:- )?(.*?)(?: *# (SKIP )?(.*))?$", line):
            seen[depth] = seen.get(depth, 0) + 1
            word = "not" if result[1] else "skip" if result[3] else "ok"
            # The harness of an old kernel does not name what is skipped.
            outcome.results.append(Result(re.sub("[ \t]", "_", result[2]) or running, word, result[4] or gave_up))
            gave_up = ""
            if word == "skip" and not depth:
                outcome.skipped = outcome.skipped or result[4] or ""
            # The result of the suite's case comes even if the guest has gone.
            running = "" if depth or outcome.results[-1].name == running else running
    outcome.complete = bool(seen) and planned == seen
    return running


def last_words(*texts: str) -> str:
    for text in texts:
        if bail := re.search("Bail out! *(.*)", text):
            return bail[1]
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
    running = read_ktap(texts[1].splitlines(), outcome)
    outcome.said = last_words(*texts)
    for path in sorted(glob.glob(f"{glob.escape(folder)}/*/verdict")):
        with open(path, encoding="utf-8", errors="replace") as file:
            word, _, why = file.readline().strip().partition(": ")
        outcome.splat = why if word == "splat" else outcome.splat
        outcome.lost = why if word == "lost" else outcome.lost
    if running and outcome.trouble(False):
        outcome.results.append(Result(running, "not", DOWN))
    elif outcome.lost and not outcome.trouble(False):
        outcome.results = [result for result in outcome.results if result.why not in (DOWN, "status 3")]
    return outcome


@dataclass
class Suite:
    """One that runs, in a process group of its own."""

    folder: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()

    def outcome(self) -> Outcome | None:
        """Nothing as long as it runs"""
        status = self.process.poll()
        return None if status is None else read_outcome(self.folder, status)


def program_of(places: Places, name: str) -> str:
    return f"{places.root}/selftests/suites/{name}.sh"


def start(places: Places, words: list[str], kernel: str, folder: str) -> Suite:
    os.mkdir(folder)
    environment = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    environment |= {"RXE_OUT": folder, "KERNEL": kernel}
    with open(f"{folder}/ktap", "wb") as ktap, open(f"{folder}/stderr", "wb") as stderr:
        return Suite(folder, subprocess.Popen(
            [program_of(places, words[0]), *words[1:]],
            stdin=subprocess.DEVNULL, stdout=ktap, stderr=stderr, env=environment, process_group=0,
        ))
