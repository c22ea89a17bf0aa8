# SPDX-License-Identifier: GPL-2.0
"""rxe-vm judge: which bugs of kernel/fixes a kernel has.

The suites run the cases that the records name, two suites at a time.  Records of one suite share a call of it, and so a
guest; those whose cases may take the guest down share another one.  After a death what it has left undone has a new call.
To boot a stock kernel takes longer than most cases, and so does a case that fails: one failure of a record is enough.
"""

import os
import re
import time
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from vm import records, report, suites
from vm.command_line import writable
from vm.messages import has_terminal, note, refuse, show
from vm.parts import check_machine, check_readable
from vm.places import Places, make_run_folder, output_of, to_build
from vm.records import NOT_APPLICABLE, NOT_SHOWN, NOT_TRIED, SHOWN, Record
from vm.suites import Outcome, Result, Suite

# Options of suites that say what the kernel is like: it is so if this case of conformance fails.
TRAITS = {"--legacy-icrc": "requester.flush_icrc", "--flushes-refused": "failing_behind.write_then_bad_lkey.answered"}
QUICK = ("any host", "a peer")
# One case of a pattern that has failed is enough for them.
ONCE = ("conformance", "hostile")
LANES = min(2, os.cpu_count() or 1)
USAGE = "say rxe-vm judge [--kernel KERNEL] [--quick] [--json FILE] [--html FILE] [--ktap] [--list] [SUBJECT...]"


@dataclass
class Call:
    words: list[str]
    records: list[Record]
    is_probe: bool = False  # asks for the traits, too

    @property
    def patterns(self) -> list[str]:
        found = [*TRAITS.values()] if self.is_probe else []
        for record in self.records:
            found += [record.one_pattern] if "--once" in self.words else record.patterns
        return list(dict.fromkeys(found))

    @property
    def what(self) -> str:
        bugs = f"{len(self.records)} bugs" if len(self.records) > 1 else "".join(record.subject for record in self.records)
        return f"{self.words[0]}, {'what is this kernel like?' if self.is_probe else bugs}"


@dataclass
class Judge:
    places: Places
    records: list[Record]  # all, the worst first
    flags: set[str] = field(default_factory=set)
    kernel: str = ""
    json: str = ""
    html: str = ""
    release: str = ""  # of the kernel
    folder: str = ""
    traits: list[str] = field(default_factory=list)
    begun: int = 0
    total: int = 0
    trouble: int = 0  # status of a run that no bug explains
    started: float = field(default_factory=time.monotonic)

    @property
    def base(self) -> str:
        """The folder of kernel/ for its version, which may not be there"""
        version = re.match(r"[0-9]+\.[0-9]+", self.release)
        return f"v{version[0]}" if version else ""

    @property
    def seconds(self) -> int:
        return round(time.monotonic() - self.started)

    def start(self, call: Call) -> Suite:
        self.begun += 1
        if not has_terminal():
            note(f"judge: run {self.begun} of {self.total}, {self.seconds} s: {call.what}")
        return suites.start(self.places, [*call.words, *call.patterns], self.kernel, f"{self.folder}/{self.begun}-{call.words[0]}")

    def probe(self) -> Call:
        """What is the kernel like?  And the bugs whose cases do not depend on that"""
        return Call(["conformance", "--once"], [r for r in self.records if not r.why and r.words == ["conformance"]], True)

    def learn(self, outcome: Outcome) -> None:
        """Does the kernel serve as a guest, and what is it like?"""
        found = {option: outcome.matching(case) for option, case in TRAITS.items()}
        self.traits = [option for option, results in found.items() if any(result.word == "not" for result in results)]
        if all(found.values()):
            return
        if outcome.splat:
            note(f"judge: the kernel is in trouble before it was asked what it is like: {outcome.splat} ({outcome.folder})")
            raise SystemExit(5)
        if outcome.results or not outcome.skipped:
            note(f"judge: no case runs on {self.kernel}: {outcome.said} ({outcome.folder})")
            raise SystemExit(3 if outcome.lost else 4)
        for record in self.records:
            if not record.why and (record.words[0] == "conformance" or record.words[0] in ONCE and "/" in record.cases):
                record.conclude(NOT_TRIED, outcome.skipped)

    def calls(self, with_traits: bool) -> list[Call]:
        """Those that depend on the traits, or the others"""
        calls: dict[object, Call] = {}
        for record in self.records:
            words = record.words
            if not record.why and words != ["conformance"] and (words[0] in ONCE) == with_traits:
                words = [word for word in words if word not in TRAITS or word in self.traits]
                # Of hostile, no bug is about what these options tell.
                words = ["hostile", *self.traits] if words[0] == "hostile" else words
                words += ["--once"] if words[0] in ONCE else []
                # A case of a suite that has results of its own has a guest of its own.
                case = record.patterns[0].rpartition("/")[0]
                key = (*words, case, record.is_dangerous)
                calls.setdefault(key, Call(words, [])).records.append(record)
        return list(calls.values())

    def run_calls(self, calls: list[Call]) -> None:
        """All of them, and what has to be run again"""
        self.total = self.begun + len(calls)
        running: list[tuple[Call, Suite]] = []
        try:
            while calls or running:
                while calls and len(running) < LANES:
                    call = calls.pop(0)
                    running.append((call, self.start(call)))
                show(f"rxe-vm: judge: {self.begun - len(running)} of {self.total} runs, {self.seconds} s: "
                     + "; ".join(call.what for call, _ in running))
                time.sleep(0.1)
                for call, suite in list(running):
                    if outcome := suite.outcome():
                        running.remove((call, suite))
                        calls = self.conclude(call, outcome) + calls
                        if call.is_probe:
                            self.learn(outcome)
                            calls = in_order(calls + self.calls(True))
                        self.total = self.begun + len(calls)
        finally:
            for _, suite in running:
                suite.stop()
            show("")

    def conclude(self, call: Call, outcome: Outcome) -> list[Call]:
        """What the outcome tells of each record; returns what has to be run again."""
        alone = len(call.records) == 1
        again = [record for record in call.records if not conclude(record, outcome, alone)]
        for record in call.records:
            record.run = outcome.folder
        shown = any(record.verdict == SHOWN for record in call.records)
        dangerous = any(record.is_dangerous for record in call.records)
        if outcome.splat and not alone and not shown and not again and dangerous:
            again = call.records
        elif outcome.splat and call.records and not shown and not again:
            note(f"judge: the kernel is in trouble, and no bug explains it: {outcome.splat} ({outcome.folder})")
            self.trouble = 5
        if outcome.lost and alone and call.records[0].verdict == NOT_TRIED:
            self.trouble = self.trouble or 3
        # What is left may take the guest down, too, so two of them go on; or it is not known which of them did.
        parts = 1 if shown and not dangerous else 2
        return [Call(call.words, again[n::parts]) for n in range(parts) if again[n::parts]]

    def run_all(self) -> None:
        if any(not record.why for record in self.records):
            self.run_calls([self.probe(), *in_order(self.calls(False))])


def in_order(calls: list[Call]) -> list[Call]:
    """Floods and races go on for a while."""
    return sorted(calls, key=lambda call: (call.words[0] == "conformance", -len(call.records)))


def in_words(failed: Result) -> str:
    return f"{failed.name} takes the guest down" if failed.why == suites.DOWN else f"{failed.name} fails"


def conclude(record: Record, outcome: Outcome, alone: bool) -> bool:
    """False if this tells nothing of the record, since others have been in the guest."""
    found = [outcome.matching(pattern) for pattern in record.patterns]
    results = [result for some in found for result in some]
    failed = [result for result in results if result.word == "not"]
    missing = not outcome.complete or not all(found)
    trouble = outcome.trouble(record.before == "hangs")
    # That of a trait gives up for what the kernel is like.
    if failed and not alone and all(r.why.startswith(suites.GAVE_UP) and r.name not in TRAITS.values() for r in failed):
        return False
    if failed:
        # A status other than those of rxe-vm's contract comes from a case that did not begin.
        began = [r for r in failed if not r.why.startswith("status ") or r.why in ("status 1", "status 3", "status 5")]
        record.conclude(*(SHOWN, in_words(began[0])) if began else (NOT_TRIED, outcome.said))
    elif outcome.skipped and not results and (outcome.complete or not outcome.results):
        record.conclude(NOT_TRIED, outcome.skipped)
    elif missing and not alone and (trouble or outcome.begun or outcome.lost):
        return False
    elif missing and not trouble:
        record.conclude(NOT_TRIED, outcome.lost or outcome.said or "the suite printed no result")
    elif alone and trouble and (missing or record.is_dangerous):
        record.conclude(SHOWN, trouble)
    elif all(result.word == "skip" for result in results):
        record.conclude(NOT_TRIED, results[0].why)
    else:
        record.conclude(NOT_SHOWN, "its cases pass")
    return True


def leave_out(judge: Judge) -> None:
    """What is known, or not tried, before a case has run"""
    for record in judge.records:
        answer, _, reason = record.answers.get(judge.base, "").partition(": ")
        if answer == "not there":
            record.conclude(NOT_APPLICABLE, reason.rstrip("."))
        elif not record.cases:
            record.conclude(NOT_TRIED, "no case shows it")
        elif answer == "fixed, not shown":
            record.conclude(NOT_TRIED, reason.rstrip("."))
        elif "--quick" in judge.flags and record.reach not in QUICK:
            record.conclude(NOT_TRIED, report.NOT_QUICK)
        elif not os.path.exists(suites.program_of(judge.places, record.words[0])):
            record.conclude(NOT_TRIED, f"this release is without the suite {record.words[0]}, which builds a module")


def release_of(image: str) -> str:
    """It stands in the image where its boot header says (x86 boot protocol)."""
    with open(image, "rb") as file:
        head = file.read(0x210)
        file.seek(int.from_bytes(head[0x20E:0x210], "little") + 0x200)
        return re.split(rb"[ \0]", file.read(100))[0].decode("ascii", "replace")


def hosts_kernel() -> str:
    release = os.uname().release
    for path in (f"/boot/vmlinuz-{release}", f"/lib/modules/{release}/vmlinuz"):
        if os.access(path, os.R_OK):
            return path
    refuse(f"the image of the host's kernel, /boot/vmlinuz-{release}, is not there, or not readable by you: say --kernel KERNEL")


def parse(judge: Judge, words: list[str]) -> list[str]:
    """Returns the subjects."""
    subjects = []
    while words:
        word = words.pop(0)
        if word in ("--quick", "--list", "--ktap"):
            judge.flags.add(word)
        elif word in ("--kernel", "--json", "--html") and words:
            value = words.pop(0)
            setattr(judge, word.removeprefix("--"), os.path.abspath(value if word == "--kernel" else writable(word, value)))
        elif word.startswith("-"):
            refuse(f"'{word}': {USAGE}")
        else:
            subjects.append(word)
    return subjects


def choose(found: list[Record], subjects: list[str]) -> list[Record]:
    """Those whose subject matches a pattern"""
    for pattern in subjects:
        if not any(fnmatchcase(record.subject, pattern) for record in found):
            refuse(f"'{pattern}': no bug has this subject: rxe-vm judge --list prints all")
    return [record for record in found if not subjects or any(fnmatchcase(record.subject, s) for s in subjects)]


def find_kernel(judge: Judge) -> None:
    places = judge.places
    check_machine(places)
    judge.kernel = judge.kernel or os.environ.get("KERNEL") or hosts_kernel()
    check_readable(judge.kernel)
    # It refuses what is no kernel.
    judge.release = release_of(output_of(f"{places.root}/qemu-scripts/initramfs", judge.kernel).split("\n")[0])
    program = f"{places.root}/build/selftests/rxe_conformance"
    if not os.path.exists(program):
        refuse(f"there is no {program}: {to_build('selftests')}")


def run_judge(places: Places, words: list[str]) -> int:
    if words[:1] == ["--table"] and words[1:]:
        return report.print_table(words[1:])
    judge = Judge(places, [])
    subjects = parse(judge, list(words))
    judge.records = choose(records.read_records(places), subjects)
    if judge.kernel or "--list" not in judge.flags:
        find_kernel(judge)
    leave_out(judge)
    if "--list" in judge.flags:
        for record in judge.records:
            left_out = f"{record.verdict}, {record.why}" if record.why else record.cases
            print(f"{record.reach}: {record.subject}: {left_out}")
        return 0
    judge.folder = make_run_folder(places.out, "judge")
    judge.run_all()
    judged = report.Judged(judge.kernel, judge.release, judge.base, judge.seconds, judge.records)
    report.write(judged, "--ktap" in judge.flags, judge.json, judge.html)
    if judged.shown:
        return 1
    return judge.trouble or (0 if judged.counts[NOT_SHOWN] else 4)
