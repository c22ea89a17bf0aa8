# SPDX-License-Identifier: GPL-2.0
"""What guests print: it is written to the run's folder, and passed on.

No file grows beyond its limit, and none is cut without a word: a run that reaches a limit, or
meets a full disk, is lost.
"""

import os
import select

from vm.messages import show

CHUNK = 65536
LIMIT = 64 << 20  # of each file; Documentation/lab.rst has it
AT_ONCE = 4096  # what a pipe that is not full takes without waiting


class Cut(Exception):
    """A file of the run, or our output, is not complete, and why."""


class Log:
    """A file of the run's folder, and the pipe that its content comes by, if there is one."""

    def __init__(self, path: str, pipe: int = -1) -> None:
        self.path, self.pipe, self.size, self.full = path, pipe, 0, False
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def write(self, data: bytes) -> None:
        kept = b"" if self.full else data[: LIMIT - self.size]
        name = os.path.basename(self.path)
        self.full = self.full or len(kept) < len(data)
        try:
            while kept:
                written = os.write(self._fd, kept)
                self.size += written
                kept = kept[written:]
        except OSError as error:
            self.full = True
            raise Cut(f"cannot write {name}: {error.strerror}") from error
        if self.full and self.size == LIMIT:
            raise Cut(f"{name} is cut at {LIMIT >> 20} MiB: print less, or to a file of --share")

    def collect(self) -> bool:
        """Was there anything?"""
        data = read_some(self.pipe)
        self.write(data)
        return bool(data)

    def drain(self) -> None:
        while self.collect():
            pass

    def close(self) -> None:
        os.close(self._fd)
        os.close(self.pipe)


def read_some(pipe: int) -> bytes:
    try:
        return os.read(pipe, CHUNK)
    except BlockingIOError:
        return b""


class Follower:
    """Passes on what a file holds, and what comes, to an output of ours.

    Nothing waits for a slow reader but this.
    """

    def __init__(self, log: Log, to: int, prefix: str) -> None:
        self.to = to
        self._log = log
        self._prefix = prefix.encode()
        self._source = os.open(log.path, os.O_RDONLY | os.O_CLOEXEC)
        self._read = 0  # so far
        self._looked_at = 0  # the size when there was no whole line
        self._line_begins = True
        self._ready = b""
        self._gone = False  # its reader

    def has_some(self) -> bool:
        return not self._gone and bool(self._ready or self._log.size > self._looked_at)

    def _fetch(self, at_end: bool) -> None:
        """With a prefix, whole lines only, so that those of several guests do not mix."""
        size = self._log.size
        data = os.pread(self._source, AT_ONCE, self._read)
        if self._prefix and not at_end and len(data) < AT_ONCE:
            data = data[: data.rfind(b"\n") + 1]
        self._read += len(data)
        self._looked_at = self._read if data else size
        if not self._prefix or not data:
            self._ready = data
            return
        begin = self._prefix if self._line_begins else b""
        self._ready = begin + data[:-1].replace(b"\n", b"\n" + self._prefix) + data[-1:]
        self._line_begins = data.endswith(b"\n")

    def pass_on(self, at_end: bool = False) -> None:
        if not self._ready:
            self._fetch(at_end)
        if os.isatty(self.to):
            show("")
        try:
            self._ready = self._ready[os.write(self.to, self._ready[:AT_ONCE]) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._gone = True
        except OSError as error:
            self._gone = True
            raise Cut(f"cannot pass on the output: {error.strerror}") from error

    def finish(self) -> None:
        self._looked_at = self._read
        poll = select.poll()
        poll.register(self.to, select.POLLOUT)
        while self.has_some() and not self._log.full:
            poll.poll()
            self.pass_on(at_end=True)
        os.close(self._source)
