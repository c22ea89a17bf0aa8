# SPDX-License-Identifier: GPL-2.0
"""The records of kernel/fixes for rxe-vm judge, and what became of each on the kernel."""

import json
import os
import subprocess
from dataclasses import dataclass

from vm.messages import refuse
from vm.places import Places

# Attackers, the worst first.  Any other `who` of a record names the place where an application meets the bug.
ATTACKERS = ("any host", "a peer", "a local user", "a kernel user")

VERDICTS = SHOWN, NOT_SHOWN, NOT_TRIED, NOT_APPLICABLE = "shown", "not shown", "not tried", "not applicable"


@dataclass
class Record:
    subject: str
    who: str
    was: str  # what happens without the fix
    cases: str
    before: str  # what the cases do without it
    evidence: str
    upstream: list[str]
    patches: dict[str, list[str]]  # {base: files}, the newest base first
    answers: dict[str, str]
    verdict: str = NOT_TRIED
    why: str = ""
    run: str = ""  # the folder that shows it

    @property
    def rank(self) -> int:
        return min((ATTACKERS.index(who) for who in self.who.split(", ") if who in ATTACKERS), default=len(ATTACKERS))

    @property
    def reach(self) -> str:
        return ATTACKERS[self.rank] if self.rank < len(ATTACKERS) else "an application"

    @property
    def words(self) -> list[str]:
        """The suite and its options"""
        return self.cases.partition(": ")[0].split()

    @property
    def patterns(self) -> list[str]:
        return self.cases.partition(": ")[2].split()

    @property
    def one_pattern(self) -> str:
        """Of all cases"""
        case, slash, _ = self.patterns[0].rpartition("/")
        names = [pattern.removeprefix(case + slash) for pattern in self.patterns]
        return case + slash + (f"@({'|'.join(names)})" if names[1:] else names[0])

    @property
    def is_dangerous(self) -> bool:
        """Its cases may take the guest down, or only warnings of the kernel tell of the bug."""
        return self.before not in ("", "fails")

    def fix(self, base: str) -> str:
        """The patches for the base, or the newest one's, and why this has none"""
        if files := self.patches.get(base, []):
            return ", ".join(files)
        reasons = [f"{base} is {self.answers[base]}"] if base in self.answers else []
        newest = next((files for files in self.patches.values() if files), ["no base has a patch"])
        return "; ".join([*reasons, ", ".join(newest)])

    def conclude(self, verdict: str, why: str = "") -> None:
        self.verdict, self.why = verdict, why


def read_records(places: Places) -> list[Record]:
    # A release has what the program prints.
    program, printed = f"{places.root}/scripts/fixes", f"{places.root}/kernel/fixes.json"
    if os.path.exists(program):
        said = subprocess.run([program, "json"], cwd=places.root, stdout=subprocess.PIPE, check=True).stdout
    elif os.path.exists(printed):
        with open(printed, "rb") as file:
            said = file.read()
    else:
        refuse("this release is without the records of bugs: take a newer one, or the project's tree")
    records = [Record(**record) for record in json.loads(said)]
    return sorted(records, key=lambda record: (record.rank, not record.is_dangerous))
