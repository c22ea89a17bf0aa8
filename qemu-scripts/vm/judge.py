# SPDX-License-Identifier: GPL-2.0
"""rxe-vm judge: which bugs of kernel/fixes a kernel has.

The suites run the cases that the records name.  Records of one suite share a call of it, and so a guest.  One whose cases
may take the guest down has a call of its own, and so has each record of a guest that ended before its time.
"""

import json
import os
import re
import textwrap
import time
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase

from vm import records, suites
from vm.command_line import writable
from vm.messages import has_terminal, note, refuse, show
from vm.parts import check_machine, check_readable
from vm.places import Places, make_run_folder, output_of, to_build
from vm.records import NOT_APPLICABLE, NOT_SHOWN, NOT_TRIED, SHOWN, Record
from vm.suites import Outcome, Result

# Options of suites that say what the kernel is like: it is so if this case of conformance fails, run with those before it.
TRAITS = {"--legacy-icrc": "requester.flush_icrc", "--flushes-refused": "failing_behind.write_then_bad_lkey.answered"}
QUICK = ("any host", "a peer")
NOT_QUICK = "--quick is for what another host can reach"
USAGE = "say rxe-vm judge [--kernel KERNEL] [--quick] [--json FILE] [--list] [SUBJECT...]"


@dataclass
class Call:
    words: list[str]
    records: list[Record]

    @property
    def patterns(self) -> list[str]:
        return list(dict.fromkeys(pattern for record in self.records for pattern in record.patterns))


@dataclass
class Judge:
    places: Places
    records: list[Record]  # all, the worst first
    kernel: str = ""
    json: str = ""
    base: str = ""  # the folder of kernel/ for its version, which may not be there
    folder: str = ""
    traits: list[str] = field(default_factory=list)
    done: int = 0
    total: int = 0
    trouble: int = 0  # status of a run that no bug explains
    started: float = field(default_factory=time.monotonic)

    def run(self, words: list[str], patterns: list[str], what: str) -> Outcome:
        self.done += 1
        text = f"judge: run {self.done} of {self.total}, {time.monotonic() - self.started:.0f} s: {words[0]}, {what}"
        show(f"rxe-vm: {text}") if has_terminal() else note(text)
        outcome = suites.run(self.places, words, patterns, self.kernel, f"{self.folder}/{self.done}-{words[0]}")
        show("")
        return outcome

    def probe(self, option: str, case: str) -> None:
        """Does the kernel serve as a guest, and does it want the option?"""
        outcome = self.run(["conformance", *self.traits], [case], "what is this kernel like?")
        if not outcome.results and not outcome.skipped:
            note(f"judge: no case runs on {self.kernel}: {outcome.said} ({outcome.folder})")
            raise SystemExit(outcome.status or 3)
        if outcome.splat:
            note(f"judge: the kernel is in trouble before a case of a bug has run: {outcome.splat} ({outcome.folder})")
            raise SystemExit(5)
        if any(result.word == "not" for result in outcome.results):
            self.traits.append(option)

    def words_for(self, record: Record) -> list[str]:
        until_down = ["--until-down"] if record.is_dangerous and record.words[0] == "conformance" else []
        return [word for word in record.words if word not in TRAITS or word in self.traits] + until_down

    def calls(self) -> list[Call]:
        calls: dict[object, Call] = {}
        for record in self.records:
            if not record.why:
                # A case of a suite that has results of its own has a guest of its own.
                case = record.patterns[0].rpartition("/")[0]
                key = record.subject if record.is_dangerous else (*self.words_for(record), case)
                calls.setdefault(key, Call(self.words_for(record), [])).records.append(record)
        return list(calls.values())

    def carry_out(self, call: Call) -> list[Call]:
        """Returns what has to be run again, each record alone."""
        bugs = f"{len(call.records)} bugs" if len(call.records) > 1 else call.records[0].subject
        outcome = self.run(call.words, call.patterns, bugs)
        alone = len(call.records) == 1
        again = []
        for record in call.records:
            record.run = outcome.folder
            if not conclude(record, outcome, alone):
                again.append(Call(call.words, [record]))
        if outcome.splat and not any(record.verdict == SHOWN for record in call.records) and not again:
            note(f"judge: the kernel is in trouble, and no bug explains it: {outcome.splat} ({outcome.folder})")
            self.trouble = 5
        if outcome.lost and alone and call.records[0].verdict == NOT_TRIED:
            self.trouble = self.trouble or 3
        return again

    def run_all(self) -> None:
        wanted = {word for record in self.records if not record.why for word in record.words}
        if not wanted:
            return
        # The first one also tells whether cases run at all.
        probes = {option: case for n, (option, case) in enumerate(TRAITS.items()) if n == 0 or option in wanted}
        self.total = len(probes) + len(self.calls())  # about, since traits may divide them
        for option, case in probes.items():
            self.probe(option, case)
        calls = self.calls()
        self.total = len(probes) + len(calls)
        while calls:
            again = self.carry_out(calls.pop(0))
            self.total += len(again)
            calls = again + calls


def in_words(failed: Result) -> str:
    return f"{failed.name} takes the guest down" if failed.why == suites.DOWN else f"{failed.name} fails"


def conclude(record: Record, outcome: Outcome, alone: bool) -> bool:
    """False if this tells nothing of the record, since others have been in the guest."""
    found = [outcome.matching(pattern) for pattern in record.patterns]
    results = [result for some in found for result in some]
    failed = [result for result in results if result.word == "not"]
    missing = not outcome.complete or not all(found)
    trouble = outcome.trouble(record.before == "hangs")
    if failed:
        # A status other than those of rxe-vm's contract comes from a case that did not begin.
        began = [r for r in failed if not r.why.startswith("status ") or r.why in ("status 1", "status 3", "status 5")]
        record.conclude(*(SHOWN, in_words(began[0])) if began else (NOT_TRIED, outcome.said))
    elif outcome.skipped and not results:
        record.conclude(NOT_TRIED, outcome.skipped)
    elif missing and not alone:
        return False
    elif missing and not trouble:
        record.conclude(NOT_TRIED, outcome.lost or outcome.said or "the suite printed no result")
    elif alone and trouble:
        record.conclude(SHOWN, trouble)
    elif all(result.word == "skip" for result in results):
        record.conclude(NOT_APPLICABLE, results[0].why)
    else:
        record.conclude(NOT_SHOWN, "its cases pass")
    return True


def leave_out(judge: Judge, quick: bool) -> None:
    """What is known, or not tried, before a case has run"""
    refusals: dict[str, str] = {}
    for record in judge.records:
        answer, _, reason = record.answers.get(judge.base, "").partition(": ")
        name = record.words[0] if record.cases else ""
        if name and name not in refusals:
            refusals[name] = suites.refusal(judge.places, record.words)
        if answer == "not there":
            record.conclude(NOT_APPLICABLE, reason.rstrip("."))
        elif not record.cases:
            record.conclude(NOT_TRIED, "no case shows it")
        elif answer == "fixed, not shown":
            record.conclude(NOT_TRIED, reason.rstrip("."))
        elif quick and record.reach not in QUICK:
            record.conclude(NOT_TRIED, NOT_QUICK)
        elif refusals[name]:
            record.conclude(NOT_TRIED, f"the suite {name} refuses {refusals[name]}")


def print_bug(record: Record, base: str) -> None:
    print(f"{record.reach}: {record.subject}")
    print(textwrap.fill(record.was, 100, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False))
    print(f"    seen: {record.why} ({record.run})")
    print(f"    fix: {record.fix(base)}")
    print(f"    upstream: {'; '.join(record.upstream) or 'nothing is known'}\n")


def print_others(judge: Judge, verdict: str) -> None:
    """For each reason their subjects, or how many the user has left out"""
    by_reason: dict[str, list[str]] = {}
    for record in judge.records:
        if record.verdict == verdict:
            by_reason.setdefault(record.why, []).append(record.subject)
    for why, subjects in by_reason.items():
        text = f"{verdict}, {why}: " + (f"{len(subjects)} bugs" if why == NOT_QUICK else "; ".join(subjects))
        print(textwrap.fill(text, 100, subsequent_indent="    ", break_on_hyphens=False))


def report(judge: Judge) -> int:
    counts = {verdict: sum(record.verdict == verdict for record in judge.records)
              for verdict in (SHOWN, NOT_SHOWN, NOT_TRIED, NOT_APPLICABLE)}
    for record in judge.records:
        if record.verdict == SHOWN:
            print_bug(record, judge.base)
    print_others(judge, NOT_TRIED)
    print_others(judge, NOT_APPLICABLE)
    if judge.json:
        seconds = round(time.monotonic() - judge.started, 1)
        with open(judge.json, "w", encoding="ascii") as file:
            json.dump({"kernel": judge.kernel, "seconds": seconds, "counts": counts,
                       "records": [{"reach": record.reach, **asdict(record)} for record in judge.records]}, file)
            file.write("\n")
    print(f"{counts[SHOWN]} bug{'s' * (counts[SHOWN] != 1)}, " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items() if verdict != SHOWN))
    if counts[SHOWN]:
        return 1
    return judge.trouble or (0 if counts[NOT_SHOWN] else 4)


def base_of(image: str) -> str:
    """The version stands in the image where its boot header says (x86 boot protocol)."""
    with open(image, "rb") as file:
        head = file.read(0x210)
        file.seek(int.from_bytes(head[0x20E:0x210], "little") + 0x200)
        version = re.match(rb"[0-9]+\.[0-9]+", file.read(20))
    return f"v{version[0].decode()}" if version else ""


def hosts_kernel() -> str:
    release = os.uname().release
    for path in (f"/boot/vmlinuz-{release}", f"/lib/modules/{release}/vmlinuz"):
        if os.access(path, os.R_OK):
            return path
    refuse(f"the image of the host's kernel, /boot/vmlinuz-{release}, is not there, or not readable by you: say --kernel KERNEL")


def parse(judge: Judge, words: list[str]) -> tuple[set[str], list[str]]:
    flags, subjects = set(), []
    while words:
        word = words.pop(0)
        if word in ("--quick", "--list"):
            flags.add(word)
        elif word in ("--kernel", "--json") and words:
            value = words.pop(0)
            setattr(judge, word.removeprefix("--"), os.path.abspath(writable(value) if word == "--json" else value))
        elif word.startswith("-"):
            refuse(f"'{word}': {USAGE}")
        else:
            subjects.append(word)
    return flags, subjects


def choose(found: list[Record], subjects: list[str]) -> list[Record]:
    """Those whose subject matches a pattern"""
    for pattern in subjects:
        if not any(fnmatchcase(record.subject, pattern) for record in found):
            refuse(f"'{pattern}': no bug has this subject: rxe-vm judge --list prints all")
    return [record for record in found if not subjects or any(fnmatchcase(record.subject, s) for s in subjects)]


def find_kernel(judge: Judge) -> None:
    places = judge.places
    check_machine(places)
    judge.kernel = judge.kernel or hosts_kernel()
    check_readable(judge.kernel)
    # It refuses what is no kernel.
    judge.base = base_of(output_of(f"{places.root}/qemu-scripts/initramfs", judge.kernel).split("\n")[0])
    program = f"{places.root}/build/selftests/rxe_conformance"
    if not os.path.exists(program):
        refuse(f"there is no {program}: {to_build('selftests')}")


def run_judge(places: Places, words: list[str]) -> int:
    judge = Judge(places, [])
    flags, subjects = parse(judge, list(words))
    judge.records = choose(records.read_records(places), subjects)
    if judge.kernel or "--list" not in flags:
        find_kernel(judge)
    leave_out(judge, "--quick" in flags)
    if "--list" in flags:
        for record in judge.records:
            left_out = f"{record.verdict}, {record.why}" if record.why else record.cases
            print(f"{record.reach}: {record.subject}: {left_out}")
        return 0
    judge.folder = make_run_folder(places.out, "judge")
    judge.run_all()
    return report(judge)
