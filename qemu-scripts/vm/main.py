# SPDX-License-Identifier: GPL-2.0
"""Runs what the command line asks for."""

import os
import signal
import sys
import termios
from types import FrameType

from vm import verdict
from vm.attach import attach
from vm.command_line import MODES, Request, parse, usage
from vm.event_loop import Run
from vm.messages import Refusal, note, printable, refuse, say, show
from vm.new import new
from vm.parts import check_machine, find_parts
from vm.places import Places, find_places, make_run_folder, version
from vm.qemu import Lab
from vm.result import write_result
from vm.verdict import Verdict


NOT_AT_END = "rxe-vm did not come to its end"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)


def open_standard_files() -> None:
    """A file that is opened later must not take the place of one that was closed."""
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(fd)
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")


def make_folder(request: Request, places: Places) -> str:
    run = make_run_folder(places.out, request.name)
    if '"' in run or "\n" in run:
        refuse(f"{run}: a kernel parameter cannot hold a quote or the end of a line: set RXE_OUT to a folder without them")
    return run


def watch(run: Run) -> None:
    """Whatever happens, the guests and the ways to them are gone at its end, and the reason is known."""
    terminal = termios.tcgetattr(0) if run.request.terminal else None
    why = NOT_AT_END
    try:
        run.watch()
        why = ""
    except OSError as error:
        why = f"{error.filename or 'a file of the run'}: {error.strerror}"
    except Refusal as refusal:
        why = str(refusal)
        raise
    except Interrupted as interrupted:
        why = f"interrupted by {signal.Signals(interrupted.number).name}"
        raise
    finally:
        if why:
            run.verdict.override("lost", why)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        run.leave()
        show("")
        if terminal:
            # A QEMU that is killed leaves the terminal as it needed it.
            termios.tcsetattr(0, termios.TCSADRAIN, terminal)
        conclude(run)
        # A refusal has a message of its own.
        if not isinstance(sys.exc_info()[1], Refusal):
            verdict.show_verdict(run.verdict, run.lab, run.all_boots)


def conclude(run: Run) -> None:
    lab, boots = run.lab, run.all_boots
    try:
        verdict.find_splats(run.verdict, boots)
        verdict.check_files(run.verdict, boots)
        verdict.note_dropped(boots)
        verdict.write_verdict(lab, run.verdict)
        write_result(run)
    except OSError as error:
        if run.verdict.word != "lost":
            run.verdict.override("lost", f"a file of the run: {error.strerror}")


def run_guests(request: Request, places: Places) -> int:
    qemu = os.environ.get("QEMU") or "qemu-system-x86_64"
    lab = Lab(request, places, qemu, find_parts(request, places, qemu))
    lab.run = make_folder(request, places)
    # A reader of the output that goes does not end the run.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        verdict.write_verdict(lab, Verdict("lost", 3, NOT_AT_END))
    except OSError as error:
        note(f"lost: {lab.run}: {error.strerror}")
        return 3
    run = Run(lab)
    watch(run)
    return run.verdict.status


def command(words: list[str]) -> int:
    if not words:
        usage(sys.stderr, 2)
    mode = words.pop(0)
    if mode == "help" or {mode, *words[:1]} & {"-h", "--help"}:
        usage(sys.stdout, 0)
    places = find_places()
    if mode in MODES:
        return run_guests(parse(mode, words, places), places)
    if mode == "attach":
        attach(places, words)
    elif mode == "new":
        new(places, words)
    elif mode == "judge":
        # No other command waits for what this needs.
        from vm.judge import run_judge

        return run_judge(places, words)
    elif mode == "kconfig":
        if words:
            refuse(f"'{words[0]}': rxe-vm kconfig takes no options")
        with open(f"{places.root}/kernel/config/guest.config", encoding="utf-8") as options:
            print(options.read(), end="")
    elif mode == "demo":
        check_machine(places)
        demo = f"{places.root}/selftests/examples/demo.sh"
        os.execv(demo, [demo, *words])
    elif mode == "--version":
        print(version())
    else:
        refuse(f"no such thing as '{mode}': say run, pair, group, shell, attach, new, judge, kconfig or demo (rxe-vm --help)")
    return 0


def main() -> None:
    open_standard_files()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        status = command(sys.argv[1:])
    except Refusal as refusal:
        say(f"rxe-vm: error: {printable(str(refusal), 4000)}")
        status = 2
    except Interrupted as interrupted:
        signal.signal(interrupted.number, signal.SIG_DFL)
        os.kill(os.getpid(), interrupted.number)
        raise
    sys.exit(status)
