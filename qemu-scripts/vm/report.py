# SPDX-License-Identifier: GPL-2.0
"""What rxe-vm judge says of a kernel: text, KTAP, JSON, a page; and a table of several kernels."""

import csv
import datetime
import json
import os
import sys
import textwrap
from dataclasses import asdict, dataclass
from html import escape

from vm.messages import refuse
from vm.places import LAB, version
from vm.records import ATTACKERS, NOT_APPLICABLE, NOT_SHOWN, NOT_TRIED, SHOWN, VERDICTS, Record

NOT_QUICK = "--quick is for what another host can reach"


@dataclass
class Judged:
    kernel: str
    release: str
    base: str
    seconds: int
    records: list[Record]  # the worst first

    @property
    def counts(self) -> dict[str, int]:
        return {verdict: sum(record.verdict == verdict for record in self.records) for verdict in VERDICTS}

    @property
    def shown(self) -> list[Record]:
        return [record for record in self.records if record.verdict == SHOWN]

    @property
    def headline(self) -> str:
        """The worst of it"""
        if not self.shown:
            return f"no bug shows in this kernel ({self.release})"
        worst = self.shown[0]
        harm = "can take this kernel down" if worst.before in ("crashes", "hangs") else "can harm this kernel"
        return f"{worst.reach} {harm if worst.reach in ATTACKERS else 'meets a bug of this kernel'} ({self.release})"

    @property
    def summary(self) -> str:
        bugs = self.counts[SHOWN]
        return ", ".join([f"{bugs} bug{'s' * (bugs != 1)}", *(f"{n} {verdict}" for verdict, n in self.counts.items() if verdict != SHOWN)])

    def by_reason(self, verdict: str) -> dict[str, str]:
        """The subjects, or how many the user has left out"""
        reasons: dict[str, list[str]] = {}
        for record in self.records:
            if record.verdict == verdict:
                reasons.setdefault(record.why, []).append(record.subject)
        return {why: f"{len(subjects)} bugs" if why == NOT_QUICK else "; ".join(subjects) for why, subjects in reasons.items()}

    def told(self, record: Record) -> dict[str, str]:
        return {"seen": record.why, "fix": record.fix(self.base), "upstream": "; ".join(record.upstream) or "nothing is known"}


def print_text(judged: Judged) -> None:
    print(f"{judged.headline}\n")
    for record in judged.shown:
        print(f"{record.reach}: {record.subject}")
        print(textwrap.fill(record.was, 100, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False))
        for name, value in judged.told(record).items():
            print(f"    {name}: {value}")
        print(f"    run: {record.run}\n")
    for verdict in (NOT_TRIED, NOT_APPLICABLE):
        for why, subjects in judged.by_reason(verdict).items():
            print(textwrap.fill(f"{verdict}, {why}: {subjects}", 100, subsequent_indent="    ", break_on_hyphens=False))
    print(judged.summary)


def print_ktap(judged: Judged) -> None:
    print(f"KTAP version 1\n1..{len(judged.records)}\n# {judged.headline}")
    for number, record in enumerate(judged.records, 1):
        if record.verdict == SHOWN:
            for name, value in {"without the fix": record.was, **judged.told(record)}.items():
                print(f"# {name}: {value}")
        word = "not ok" if record.verdict == SHOWN else "ok"
        skip = f" # SKIP {record.verdict}: {record.why}" if record.verdict in (NOT_TRIED, NOT_APPLICABLE) else ""
        print(f"{word} {number} {record.reach}: {record.subject}{skip}")
    print(f"# {judged.summary}")


def as_json(judged: Judged) -> str:
    return json.dumps({
        "kernel": judged.kernel, "release": judged.release, "date": datetime.date.today().isoformat(), "seconds": judged.seconds,
        "counts": judged.counts, "records": [{"reach": record.reach, **asdict(record)} for record in judged.records],
    }) + "\n"


def as_page(judged: Judged) -> str:
    with open(f"{LAB}/page-head.html", encoding="utf-8") as file:
        lines = [file.read(), f"<title>{escape(judged.headline)}</title>"]
    colour = "bad" if judged.shown else "good" if judged.counts[NOT_SHOWN] else "open"
    headline = escape(judged.headline[0].upper() + judged.headline[1:])
    lines.append(f'<header style="--colour: var(--{colour})">\n<b>{escape(judged.summary)}</b>\n<h1>{headline}</h1>')
    lines.append("<p>rxe-vm booted this kernel and ran the cases that show the known bugs of Soft-RoCE (rdma_rxe)."
                 "  Each bug below was seen.</p>\n</header>")
    for record in judged.shown:
        lines.append(f'<section class="finding">\n<h2>{escape(record.reach)}: {escape(record.subject)}</h2>\n<p>{escape(record.was)}</p>\n<dl>')
        for name, value in judged.told(record).items():
            lines.append(f'<dt>{name}<dd{" class=code" * (name == "fix")}>{escape(value)}')
        lines.append("</dl>\n</section>")
    for verdict in (NOT_TRIED, NOT_APPLICABLE, NOT_SHOWN):
        if reasons := judged.by_reason(verdict):
            lines.append(f"<h2>{verdict.capitalize()}: {judged.counts[verdict]}</h2>\n<ul>")
            lines += [f"<li><b>{escape(why)}:</b> {escape(subjects)}" for why, subjects in reasons.items()]
            lines.append("</ul>")
    lines.append(f"<footer>{escape(version())}, {datetime.date.today()}, {judged.seconds} s.  \"Not tried\" says nothing of the kernel."
                 "  One bug may make the cases of another fail, too.</footer>\n</html>\n")
    return "\n".join(lines)


def write(judged: Judged, ktap: bool, json_file: str, html_file: str) -> None:
    for path, made in (json_file, as_json), (html_file, as_page):
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(made(judged))
    (print_ktap if ktap else print_text)(judged)


def print_table(paths: list[str]) -> int:
    """CSV of what --json has written: rows are bugs, columns kernels"""
    kernels = []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                kernels.append(json.load(file))
            kernels[-1]["of"] = {record["subject"]: record for record in kernels[-1]["records"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            refuse(f"--table {path}: not a file of rxe-vm judge --json: {error}")
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["bug", "reach", *(f"{os.path.basename(kernel['release'])}, {kernel['date']}" for kernel in kernels)])
    order = {reach: rank for rank, reach in enumerate(ATTACKERS)}
    tried = {subject: record["reach"] for kernel in kernels for subject, record in kernel["of"].items() if record["verdict"] in (SHOWN, NOT_SHOWN)}
    marks = {SHOWN: "yes", NOT_SHOWN: "not seen", NOT_TRIED: "?", NOT_APPLICABLE: "-"}
    for subject, reach in sorted(tried.items(), key=lambda item: order.get(item[1], len(order))):
        rows.writerow([subject, reach, *(marks[kernel["of"].get(subject, {"verdict": NOT_TRIED})["verdict"]] for kernel in kernels)])
    return 0
