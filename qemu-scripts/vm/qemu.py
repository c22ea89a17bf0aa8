# SPDX-License-Identifier: GPL-2.0
"""What a guest is: the command line of its QEMU, and the environment of what runs in it."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from vm.backing import Backing, Locks, make_sparse
from vm.command_line import Request, quote
from vm.guests import Guest
from vm.messages import note
from vm.places import Places, to_build


@dataclass
class Lab:
    """What all guests of a run share."""

    request: Request
    places: Places
    qemu: str  # the program
    accel: str
    run: str = ""  # the folder
    locks: Locks = field(default_factory=Locks)

    def path(self, file: str) -> str:
        return f"{self.run}/{file}"

    def pmem_path(self, guest: Guest, n: int) -> str:
        # In a group server1.pmem0 is a copy, of the end of the first boot.
        kind = "nvdimm" if self.request.mode == "group" else "pmem"
        return guest.options.pmem[n].file or self.path(f"{guest.name}.{kind}{n}")


def address(lab: Lab, guest: Guest) -> str:
    return f"{'2001:db8::' if lab.request.ipv6 else '192.0.2.'}{guest.number}"


def peers_of(lab: Lab, guest: Guest) -> list[Guest]:
    """Those that it is to talk with: the other side; of a single one, itself."""
    request = lab.request
    return {"server": request.clients, "client": request.servers}.get(guest.side, [guest])


def for_client(lab: Lab, guest: Guest, tool: str, unknown: str) -> str:
    """What tells crash-states of a client, where a server has persistent memory."""
    program = lab.places.tool(tool)
    if guest.side != "client" or not any(server.options.pmem for server in lab.request.servers):
        return ""
    if os.access(program, os.X_OK):
        return program
    note(f"there is no {program}, so crash-states will not know {unknown}: {to_build('selftests')}")
    return ""


def search_path(first: Iterable[str], variable: str) -> str:
    return ":".join([*first, *filter(None, [os.environ.get(variable)])])


def current_folder() -> str:
    """By the name that the user has for it."""
    name = os.environ.get("PWD", "")
    return name if os.path.isabs(name) and os.path.realpath(name) == os.getcwd() else os.getcwd()


def terminal_size() -> str:
    try:
        size = os.get_terminal_size(0)
    except OSError:
        return "0 0"
    return f"{size.lines} {size.columns}"


def environment(lab: Lab, guest: Guest) -> str:
    """What guest/init and guest/session want to know."""
    request, places, options = lab.request, lab.places, guest.options
    rdma_core = os.path.realpath(options.rdma_core or places.rdma_core)
    peers = [address(lab, peer) for peer in peers_of(lab, guest)]
    netem = [f"delay {options.delay}"] * bool(options.delay)
    netem += [f"loss {options.loss}"] * bool(options.loss)
    values = {
        "RXE_ROLE": guest.side,
        "RXE_NAME": guest.name,
        "RXE_ADDR": address(lab, guest),
        "RXE_PEER_ADDR": peers[0] if peers else "",
        "RXE_PEER_ADDRS": " ".join(peers),
        "RXE_SERVERS": str(len(request.servers)),
        "RXE_HOSTS": "\n".join(f"{address(lab, one)} {one.name}" for one in request.guests),
        "RXE_MTU": str(request.mtu or ""),
        "RXE_VLAN": str(request.vlan or ""),
        "RXE_NETEM": " ".join(netem),
        "RXE_ACCEL": lab.accel,
        "KSFT_TIMEOUT_SCALE": str(places.scale),
        "RXE_LAB": f"{places.root}/qemu-scripts",
        "RXE_RDMA_CORE": rdma_core,
        "RXE_CWD": current_folder(),
        "RXE_SHELL": terminal_size() if guest is request.terminal else "",
        "RXE_COMMAND": guest.command,
        "RXE_MODULES": guest.kernel.modules,
        "RXE_SHARES": str(len(options.share)),
        "RXE_TELL_LINES": for_client(lab, guest, "tell-lines", "what this client prints"),
        "RXE_POST_LIBRARY": for_client(lab, guest, "record-posts.so", "which line posts what"),
        "RXE_PMEM_MALLOC": str(options.pmem_malloc or ""),
        "RXE_PMEM_LIBRARY": places.tool("pmem-malloc.so"),
        "RXE_NVME_DISK": f"{options.nvme}M" if options.nvme else "",
        "RXE_NVDIMMS": str(len(options.pmem)),
        "HOME": "/tmp",
        "TERM": os.environ.get("TERM") or "dumb",
        "LANG": "C.UTF-8",
    }
    values |= {f"RXE_SHARE_{n}": os.path.realpath(dir) for n, dir in enumerate(options.share)}
    values |= program_paths(places, rdma_core)
    return "".join(f"{name}={quote([value])}\n" for name, value in values.items())


def program_paths(places: Places, rdma_core: str) -> dict[str, str]:
    build = f"{places.root}/build"
    own = [f"{rdma_core}/bin", f"{build}/iproute2/bin", f"{build}/selftests"]
    own.append(f"{places.root}/qemu-scripts/guest/bin")
    return {
        "PATH": search_path(own, "PATH") + ":/usr/local/sbin:/usr/sbin:/sbin",
        "LD_LIBRARY_PATH": search_path([f"{rdma_core}/lib"], "LD_LIBRARY_PATH"),
        "PYTHONPATH": search_path([f"{rdma_core}/python"], "PYTHONPATH"),
    }


def value(text: str) -> str:
    """In an option of QEMU a comma is doubled."""
    return text.replace(",", ",,")


def uses_hosts_tsc(lab: Lab) -> bool:
    """With -icount the TSC counts instructions."""
    words = [word for guest in lab.request.guests for word in guest.options.qemu]
    return lab.accel == "tcg" and "-icount" not in words


def tsc_file(lab: Lab) -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot_id:
        return f"{lab.places.kept}/tsc.{boot_id.read().strip()}"


def known_tsc(lab: Lab) -> str:
    try:
        with open(tsc_file(lab), encoding="ascii") as kept:
            return f" tsc_early_khz={int(kept.read())}" if uses_hosts_tsc(lab) else ""
    except (OSError, ValueError):
        return ""


def learn_tsc(lab: Lab, console: str) -> None:
    """How fast an emulated CPU's TSC counts, which is the host's, the guest's kernel measures.

    While the host is busy it may find a tenth of it, and its time runs ten times too fast.  Later
    it measures again, and only if it finds the same it says so.  That is kept until the host boots
    again, and told to all guests.  A command could say so, too, so what counts is what the console
    has before it begins.
    """
    kept = tsc_file(lab)
    if os.path.exists(kept) or not uses_hosts_tsc(lab):
        return
    with open(console, "rb") as file:
        said = re.search(rb"Refined TSC clocksource calibration: (\d{1,7})\.(\d{3}) MHz", file.read())
    try:
        if said:
            with open(f"{kept}.{os.getpid()}", "w", encoding="ascii") as new:
                new.write(f"{int(said[1] + said[2])}\n")
            os.rename(new.name, kept)
    except OSError:
        pass  # another user's


class Command:
    """The command that boots a guest.

    It runs in the run's folder, so its own files have short names (a socket's path is limited).
    """

    def __init__(self, lab: Lab, guest: Guest, boot: str) -> None:
        self.lab, self.guest, self.boot = lab, guest, boot
        self.append = "console=ttyS0 ignore_loglevel printk.devkmsg=on"
        # A kernel in trouble says so and ends.
        self.append += " panic=-1 oops=panic mitigations=off"
        self.place = ""  # of the first NVDIMM
        options = guest.options
        self.words = [lab.qemu, "-name", f"rxe-{guest.name}", "-nodefaults", "-no-user-config"]
        self.words += ["-display", "none", "-no-reboot"]
        self.words += ["-machine", "q35,nvdimm=on,nvdimm-persistence=mem-ctrl"]
        self.words += ["-smp", options.cpus, "-kernel", guest.kernel.image]
        self.words += ["-initrd", guest.kernel.initramfs]
        self.add_cpu()
        self.append += f' rxe.guest="{lab.path(boot)}" {" ".join(options.append)}'
        self.words += ["-append", self.append]
        self.add_channels()
        self.add_network()
        self.add_host_files()
        self.add_memory()
        if options.nvme:
            self.add_nvme()
        self.words += options.qemu

    def add_cpu(self) -> None:
        if self.lab.accel != "tcg":
            self.words += ["-accel", self.lab.accel, "-cpu", "host"]
            return
        # A thread for each CPU, unless -icount makes the guest's time a count of instructions.
        # If a CPU gets no further than its own exceptions, QEMU ends without a word but this.
        self.words += ["-accel", "tcg", "-cpu", "max", "-d", "cpu_reset"]
        self.words += ["-D", f"{self.boot}.qemu.resets"]
        # Before 8.2, where one CPU uses a device's registers while another moves a BAR, QEMU takes
        # the wrong device for it, or dies: guest/init brings the other CPUs when the drivers have
        # their devices.
        self.append += " maxcpus=1 noreplace-smp"
        # Emulated CPUs are slow, not stuck, and share one TSC, the host's: HPET, which the kernel
        # would take instead, costs them a global lock.
        self.append += " watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120"
        self.append += " no_timer_check tsc=reliable" + known_tsc(self.lab)
        # While a CPU comes up, Linux 7.3 with KASAN may forget for a moment that there are five
        # levels of page tables, and then takes good addresses for bad.
        self.append += " no5lvl"
        if self.lab.request.record_cpu and self.guest.side == "server":
            self.record_cpu()

    def record_cpu(self) -> None:
        """crash-states wants to know what its programs do to the first NVDIMM.

        This has the place where QEMU puts it, the next GiB after 4 GiB and the memory that the
        machine has there.  QEMU 9.2 to 10.0 do not translate addresses, so the recorder reads the
        page tables, and Linux tells where these are unless it hides them (KASLR).  For REP MOVSB,
        each byte would be a store.
        """
        memory = self.guest.options.mem
        above = 0 if memory < 2816 else memory - 2048
        base = (4096 + above + 1023) // 1024 << 30
        self.place = f",addr={base}"
        self.append += " nokaslr"
        recorder = value(self.lab.places.tool("record-cpu.so"))
        size = self.guest.options.pmem[0].size << 20
        files = f"pcap={self.boot}.pcap,start={self.boot}.pmem0.start,to={self.boot}.cpu"
        self.words += ["-cpu", "max,-erms,-fsrm"]
        self.words += ["-plugin", f"{recorder},base={base},size={size},{files}"]

    def add_channels(self) -> None:
        """rxe-vm reads the other end of each and writes the files: these are FIFOs."""
        boot = self.boot
        self.chardev(f"file,id=console,path={boot}.console.out", "-serial", "chardev:console")
        self.words += ["-device", "virtio-serial-pci"]
        for nr, name, kind in (1, "control", "pipe"), (2, "stdout", "file"), (3, "stderr", "file"):
            path = f"{boot}.{name}" if kind == "pipe" else f"{boot}.{name}.out"
            port = f"virtserialport,chardev={name},nr={nr},name={name}"
            self.chardev(f"{kind},id={name},path={path}", "-device", port)
        # QMP's greeting says that QEMU has opened everything.
        self.chardev(f"file,id=qmp,path={boot}.qmp.out", "-mon", "chardev=qmp,mode=control")
        if self.guest is self.lab.request.terminal:
            shell = "stdio,id=shell,signal=off"
        else:
            shell = f"pipe,id=shell,path={boot}.shell"  # for rxe-vm attach
        self.chardev(shell, "-device", "virtconsole,chardev=shell")

    def chardev(self, backend: str, *user: str) -> None:
        self.words += ["-chardev", backend, *user]

    def add_network(self) -> None:
        boot, guest, mode = self.boot, self.guest, self.lab.request.mode
        stream = "stream,id=net,server={},addr.type=unix,addr.path={}"
        if mode == "group":
            self.words += ["-netdev", stream.format("off", f"link.{guest.name}")]
        elif mode == "pair":
            self.words += ["-netdev", stream.format("on" if guest.side == "server" else "off", "link")]
        else:
            # A hub wants a second port, or nothing that is sent ever counts as sent.
            self.words += ["-netdev", "hubport,id=net,hubid=0"]
            self.words += ["-netdev", "hubport,id=sink,hubid=0"]
        mac = f"52:54:00:00:00:0{guest.number}"
        self.words += ["-device", f"virtio-net-pci,netdev=net,mac={mac}", "-device", "virtio-rng-pci"]
        if self.lab.request.capture:
            self.words += ["-object", f"filter-dump,id=dump,netdev=net,file={boot}.pcap"]

    def add_host_files(self) -> None:
        root = "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"
        self.words += ["-fsdev", root, "-device", "virtio-9p-pci,fsdev=root,mount_tag=root"]
        for n, folder in enumerate(self.guest.options.share):
            path = value(os.path.realpath(folder))
            self.words += ["-fsdev", f"local,id=share{n},path={path},security_model=none"]
            self.words += ["-device", f"virtio-9p-pci,fsdev=share{n},mount_tag=share{n}"]

    def backing_file(self, wanted: Backing, file: str, id: str) -> None:
        wanted.make(file)
        real = os.path.realpath(file)
        self.lab.locks.take(wanted.option, real)
        memory = f"memory-backend-file,id={id},mem-path={value(real)},size={wanted.size}M,share=on"
        self.words += ["-object", memory]

    def add_memory(self) -> None:
        options, top = self.guest.options, self.guest.options.mem
        for n, wanted in enumerate(options.pmem):
            self.backing_file(wanted, self.lab.pmem_path(self.guest, n), f"pmem{n}")
            place = "" if n else self.place
            self.words += ["-device", f"nvdimm,memdev=pmem{n},id=nvdimm{n}{place}"]
            top += wanted.size
        slots = len(options.pmem) + 1
        self.words += ["-m", f"{options.mem}M,slots={slots},maxmem={top + 1024}M"]

    def add_nvme(self) -> None:
        """An NVMe device; its own memory is not the guest's."""
        name, options = self.guest.name, self.guest.options
        disk = self.lab.path(f"{name}.nvme")
        if not os.path.exists(disk):
            make_sparse(disk, options.nvme, "--nvme")
        device = f"nvme,serial=rxe-{name},drive=nvme"
        if options.cmb:
            device += f",cmb_size_mb={options.cmb}"
        if options.pmr:
            self.backing_file(options.pmr, options.pmr.file or self.lab.path(f"{name}.pmr"), "pmr")
            device += ",pmrdev=pmr"
        self.words += ["-drive", f"id=nvme,if=none,format=raw,file={value(disk)}", "-device", device]


def segment(lab: Lab) -> list[str]:
    """The network of a group, a QEMU without a machine.

    Two guests have a cable, more a hub: one that goes shall not take the link of the others with
    it.
    """
    words = [lab.qemu, "-name", "rxe-segment", "-machine", "none", "-nodefaults"]
    words += ["-no-user-config", "-display", "none"]
    words += ["-chardev", "file,id=qmp,path=hub.qmp.out", "-mon", "chardev=qmp,mode=control"]
    for name in (guest.name for guest in lab.request.guests):
        link = f"stream,id={name},server=on,addr.type=unix,addr.path=link.{name}"
        words += ["-netdev", link, "-netdev", f"hubport,id=port-{name},hubid=0,netdev={name}"]
    return words
