# SPDX-License-Identifier: GPL-2.0
"""The event loop of a run: what the guests report, and what follows from it."""

import os
import select
import stat
import time
from collections.abc import Callable

from vm.control import RECORDED, Message
from vm.guests import KILLED, Guest
from vm.machines import Boot, Machine
from vm.messages import printable
from vm.progress import Progress
from vm.output import Cut, Follower, read_some
from vm.qemu import Lab, learn_tsc, segment
from vm.recordings import keep_pmem, lose_words, note_copied
from vm.verdict import Verdict, last_words, silence, why_not_up

# How often the consoles are looked at: QEMU writes them in single bytes.
TICK = 0.25
GRACE = 20  # for what has still to end


class Run:
    def __init__(self, lab: Lab) -> None:
        self.lab, self.request = lab, lab.request
        self.verdict = Verdict()
        self.boots: dict[Guest, Boot] = {}  # the newest of each
        self.all_boots: list[Boot] = []
        self.hub: Machine | None = None
        self.up = False  # all guests have been started
        self.gone_on = False  # the clients have been told that their servers are ready
        self.followers: list[Follower] = []
        self.poll = select.poll()
        self.actions: dict[int, Callable[[], object]] = {}
        self.next_tick = 0.0
        self.began = time.monotonic()
        self.progress = Progress(lab.places.scale)
        self.allowed = self.request.timeout * lab.places.scale
        self.deadline = self.began + self.allowed
        self.answers: dict[str, Callable[[Boot, Message], bool]] = {
            "started": self.command_started,
            "ready": self.server_ready,
            "kill-server": self.kill_server,
            "start-server": self.start_server,
            "tell": self.server_tells,
            "shell-ended": self.shell_ended,
            "taint": self.kernel_is_tainted,
            "exit": self.command_exits,
            "fail": self.guest_fails,
        }

    # What is waited for

    def listen(self, pipe: int, action: Callable[[], object]) -> None:
        self.actions[pipe] = action
        self.poll.register(pipe, select.POLLIN)

    def watch(self) -> None:
        if self.request.mode == "group":
            self.start_hub()
        elif self.request.mode == "pair":
            self.start_guest(self.request.guests[0])
        else:
            self.segment_is_up()
        while not self.all_gone():
            left = self.deadline - time.monotonic()
            # What was said before counts, however long this one was busy with something else.
            self.step(max(0.0, min(TICK, left)))
            if left <= 0 and not self.all_gone():
                self.deadline_passed()
                self.up = True
                self.deadline = time.monotonic() + 60
        self.kill_all()
        for follower in self.followers:
            self.guarded(follower.finish)
        self.verdict.conclude("pass", "")

    def step(self, seconds: float) -> None:
        outputs = {one.to for one in self.followers if one.has_some()}
        for fd in outputs:
            self.poll.register(fd, select.POLLOUT)
        ready = [(fd, self.actions.get(fd)) for fd, _ in self.poll.poll(seconds * 1000)]
        for fd in outputs:
            self.poll.unregister(fd)
        for fd, action in ready:
            if fd in outputs:
                self.pass_on(fd)
            # A machine that went may have had it, and one that came may have the number now.
            elif action and self.actions.get(fd) is action:
                self.guarded(action)
        if time.monotonic() >= self.next_tick:
            self.next_tick = time.monotonic() + TICK
            self.look_at_consoles()
            self.progress.update(self.waits_for(), self.deadline)

    def guarded(self, action: Callable[[], object]) -> None:
        """A run with files that are not whole is lost."""
        try:
            action()
        except Cut as cut:
            self.end("lost", str(cut))

    def pass_on(self, fd: int) -> None:
        """To one of our outputs, from one of those that have something for it; then it is another's turn."""
        follower = next(one for one in self.followers if one.to == fd and one.has_some())
        self.guarded(follower.pass_on)
        self.followers.remove(follower)
        self.followers.append(follower)

    def look_at_consoles(self) -> None:
        for boot in self.running_boots():
            self.guarded(boot.console.collect)
            self.guarded(boot.check_resets)

    def waits_for(self) -> str:
        """In words; nothing while the commands run."""
        unended = [guest for guest in self.request.guests if guest.ended is None]
        clients = [guest for guest in unended if guest.side == "client"]
        for guest in unended:
            boot = self.boots.get(guest)
            if guest.side != "client" or self.gone_on:
                if not boot or not boot.started:
                    return f"booting {guest.name}"
            if guest.side == "server" and not guest.ready:
                return f"{guest.name} has not said that it listens"
        if unended and self.request.clients and not clients:
            return f"{self.command_of(unended[0])} has not ended"
        running = self.running_boots()
        return f"{running[0].guest.name} powers off" if running and not unended else ""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    # Machines that come and go

    def start_hub(self) -> None:
        self.hub = Machine(self.lab, "hub")
        self.hub.start(segment(self.lab))
        self.attend(self.hub)

    def attend(self, machine: Machine) -> None:
        def greeted() -> None:
            if machine.greets():
                self.segment_is_up()

        self.listen(machine.qmp, greeted)
        self.listen(machine.log.pipe, machine.log.collect)
        self.listen(machine.pidfd, lambda: self.machine_gone(machine))

    def start_guest(self, guest: Guest) -> None:
        boot = Boot(self.lab, guest)
        self.boots[guest] = boot
        self.all_boots.append(boot)
        if self.request.mode == "group" and guest.side == "server":
            keep_pmem(boot, ".boot")
        boot.boot()
        for server in self.request.servers if guest.side == "client" else []:
            if server.told:
                boot.tell(f"told {server.nth} {server.told}")
        self.attend(boot)
        self.listen(boot.control, lambda: self.hear(boot))
        self.listen(boot.stdout.pipe, boot.stdout.collect)
        self.listen(boot.stderr.pipe, boot.stderr.collect)
        if guest is not self.request.terminal:
            self.follow(boot)

    def follow(self, boot: Boot) -> None:
        """Passes on what the guest's command prints.  A server is no part of the output."""
        guest, prefix, to = boot.guest, "", 1
        if len(self.request.clients) > 1 or guest.side == "server":
            prefix = f"{guest.name}: "
        if guest.side == "server":
            to = 2
        self.followers.append(Follower(boot.stdout, to, prefix))
        self.followers.append(Follower(boot.stderr, 2, prefix))

    def running_boots(self) -> list[Boot]:
        return [boot for boot in self.all_boots if boot.running]

    def end(self, word: str, why: str) -> None:
        """There is a verdict, so nobody needs the guests any more."""
        self.verdict.conclude(word, why)
        self.kill_guests()

    def kill_guests(self) -> None:
        self.up = True  # no more come
        for boot in self.running_boots():
            boot.kill()

    def kill_all(self) -> None:
        self.kill_guests()
        if self.hub:
            self.hub.kill()

    def all_gone(self) -> bool:
        return self.up and not self.running_boots()

    def segment_is_up(self) -> None:
        """The network, or the guest that has it, is up, so the others may come."""
        if self.up:
            return
        self.up = True
        for guest in self.request.guests:
            if guest not in self.boots:
                self.start_guest(guest)
        self.let_clients_go()

    def machine_gone(self, machine: Machine) -> None:
        if isinstance(machine, Boot):
            boot = machine
            self.guarded(lambda: self.hear(boot))
        for log in machine.logs:
            self.guarded(log.drain)
        for pipe in [*machine.ways, *(log.pipe for log in machine.logs)]:
            if self.actions.pop(pipe, None):
                self.poll.unregister(pipe)
        machine.gone()
        if isinstance(machine, Boot):
            self.boot_gone(machine)
        elif not machine.killed:
            self.end("lost", f"the network of the group ended{last_words(machine)}")

    def boot_gone(self, boot: Boot) -> None:
        guest = boot.guest
        if guest.side == "server":
            keep_pmem(boot, "")
            why = lose_words(self.lab, boot)
            if why:
                self.verdict.conclude("fail", why)
            self.tell_it_is_off(guest)
        if not boot.started and guest.ended is None:
            boot.never_up = why_not_up(boot)
        if boot.never_up:
            self.end("fail", f"{guest.name}: {boot.never_up}")
        elif guest.ended is None:
            self.end("lost", f"the guest '{guest.name}' died{last_words(boot)}")
        elif guest.asked_by and not self.verdict.word:
            self.boot_again(guest)

    # What a guest says

    def hear(self, boot: Boot) -> None:
        for message in boot.port.feed(read_some(boot.control)):
            if RECORDED.get(message.word) == boot.guest.side:
                boot.record(message)
            # Ignore other messages that a guest sent before its power was cut.
            elif boot is self.boots[boot.guest] and boot.guest.ended != KILLED:
                answer = self.answers.get(message.word)
                if not answer or not answer(boot, message):
                    boot.port.drop(f"{message.word} {message.number}".encode())

    def command_started(self, boot: Boot, _: Message) -> bool:
        if boot.started:
            return False
        boot.started = time.monotonic()
        boot.console.drain()
        learn_tsc(self.lab, boot.console.path)
        return True

    def kernel_is_tainted(self, boot: Boot, message: Message) -> bool:
        when = "while the command ran" if boot.started else "while it booted"
        for bit in range(32):
            if message.number >> bit & 1:
                boot.taint.setdefault(1 << bit, when)
        return True

    def server_ready(self, boot: Boot, _: Message) -> bool:
        guest = boot.guest
        if guest.side != "server" or guest.ready:
            return False
        guest.ready = True
        keep_pmem(boot, ".start")
        note_copied(boot)
        if guest.asked_by:
            self.boots[guest.asked_by].tell(f"answer {guest.nth}")
            guest.asked_by = None
        self.let_clients_go()
        return True

    def server_tells(self, boot: Boot, message: Message) -> bool:
        """A value for the clients."""
        if boot.guest.side != "server":
            return False
        boot.guest.told = message.text
        for one in self.running_boots():
            if one.guest.side == "client":
                one.tell(f"told {boot.guest.nth} {message.text}")
        return True

    def let_clients_go(self) -> None:
        if self.up and not self.gone_on and all(guest.ready for guest in self.request.servers):
            self.gone_on = True
            for boot in self.running_boots():
                if boot.guest.side == "client":
                    boot.tell("go")

    def server_of(self, boot: Boot, message: Message) -> Guest | None:
        """The one that a client means by its number."""
        servers = self.request.servers
        if boot.guest.side != "client" or not 1 <= message.number <= len(servers):
            return None
        return servers[message.number - 1]

    def kill_server(self, boot: Boot, message: Message) -> bool:
        server = self.server_of(boot, message)
        if not server or boot.guest in server.cut_for:
            return False
        self.cut_power(server)
        server.cut_for.append(boot.guest)
        self.tell_it_is_off(server)
        return True

    def cut_power(self, server: Guest) -> None:
        server.ended = KILLED
        self.boots[server].kill()

    def tell_it_is_off(self, server: Guest) -> None:
        """When its power is off those who asked for that go on."""
        if self.boots[server].running:
            return
        for client in server.cut_for:
            if client.ended is None:
                self.boots[client].tell(f"answer {server.nth}")
        server.cut_for = []

    def start_server(self, boot: Boot, message: Message) -> bool:
        server, n = self.server_of(boot, message), message.number
        if not server or self.request.mode != "group":
            return False
        if server.ended != KILLED:
            why = f"{server.name} has its power: rxe-kill-server {n} comes first"
            boot.tell(f"answer {n} {why}")
        elif server.asked_by:
            boot.tell(f"answer {n} {server.name} is on its way already")
        else:
            server.asked_by = boot.guest
            if not self.boots[server].running:  # it may be dying yet
                self.boot_again(server)
        return True

    def boot_again(self, server: Guest) -> None:
        server.ended, server.ready = None, False
        self.start_guest(server)

    def shell_ended(self, boot: Boot, _: Message) -> bool:
        """That which rxe-vm attach opened in this boot."""
        path = self.lab.path(f"{boot.name}.shell.end")
        if os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode):
            end = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            os.write(end, b"\n")
            os.close(end)
        return True

    def guest_fails(self, boot: Boot, message: Message) -> bool:
        """The lab itself cannot go on there."""
        self.end("fail", f"{boot.guest.name}: {printable(message.text)}")
        return True

    def command_exits(self, boot: Boot, message: Message) -> bool:
        guest, guests = boot.guest, self.request.guests
        if guest.ended is not None:
            return False
        guest.ended = message.number
        if guest.side == "server":
            self.server_exits(guest, message.number)
        elif guest.side == "client":
            self.client_exits(guest, message.number)
        else:
            self.verdict.conclude_status(self.command_of(guest), message.number)
        if all(one.ended is not None for one in guests):
            for running in self.running_boots():
                running.tell("off")
            self.allow_grace()
        return True

    # What follows

    def command_of(self, guest: Guest) -> str:
        if guest.side == "guest":
            return "the command"
        if self.request.mode == "pair":
            return f"the {guest.name}'s command"
        return f"the command of {guest.name}"

    def server_exits(self, guest: Guest, status: int) -> None:
        whose = self.command_of(guest)
        if not guest.ready:
            if status == 4:
                self.verdict.conclude_status(whose, status)
            else:
                why = f"{whose} ended with status {status} before it was ready"
                self.verdict.conclude("fail", why)
            self.kill_guests()
        elif self.request.server_end == "self" and status:
            self.verdict.conclude("fail", f"{whose} ended with status {status}")
        # Its clients will hardly end well: hear what they say, not for long.
        if self.verdict.word:
            self.allow_grace()

    def client_exits(self, guest: Guest, status: int) -> None:
        if status:
            self.verdict.conclude_status(self.command_of(guest), status)
        if any(client.ended is None for client in self.request.clients):
            if self.verdict.word:
                self.allow_grace()
            return
        for server in self.request.servers:
            if server.ended is None:
                self.end_server(server)
            server.asked_by = None

    def end_server(self, server: Guest) -> None:
        """All clients have ended."""
        # For one that boots again, no client is left to come back for.
        if self.request.server_end == "kill" or server.asked_by:
            self.cut_power(server)
            return
        self.allow_grace()
        if self.request.server_end == "stop" or self.verdict.word:
            self.boots[server].tell("stop")

    def allow_grace(self) -> None:
        """What has still to end gets this long."""
        soon = time.monotonic() + GRACE * self.lab.places.scale
        self.deadline = min(self.deadline, soon)

    def deadline_passed(self) -> None:
        guests, clients, servers = self.request.guests, self.request.clients, self.request.servers
        running = [server for server in servers if server.ended is None]
        unready = [server for server in servers if not server.ready]
        if all(guest.ended is not None for guest in guests):
            # Whatever the command said.
            self.verdict.override("lost", "a guest did not power off")
        elif clients and all(client.ended is not None for client in clients):
            if self.request.server_end == "self":
                whose = self.command_of(running[0])
                why = f"{whose} did not end after the client's (a daemon wants --stop-server)"
                self.verdict.conclude("fail", why)
        elif unready:
            name = "the server" if self.request.mode == "pair" else unready[0].name
            why = f"{name} was not ready within {self.allowed} s: it neither ran rxe-ready nor listens"
            self.verdict.conclude("fail", why)
        else:
            first = self.boots.get(guests[0])
            why = f"a guest did not end within the deadline of {self.allowed} s"
            more = silence(first) if first else ""
            self.verdict.conclude("lost", why + (more or f": {self.waits_for() or self.still_running()}"))
        self.kill_guests()

    def still_running(self) -> str:
        running = [guest for guest in self.request.guests if guest.ended is None]
        text = " and ".join(self.command_of(guest) for guest in running) + " had not ended"
        if any(guest.side == "client" and "$RXE_PEER" not in guest.command for guest in running):
            text += "; there is no $RXE_PEER_ADDR in the client's: if your own shell replaced it, use single quotes"
        return text

    def leave(self) -> None:
        """Also if the run is interrupted: rxe-vm attach takes these FIFOs for a guest that runs."""
        self.kill_all()
        with os.scandir(self.lab.run) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
                    os.unlink(entry.path)
