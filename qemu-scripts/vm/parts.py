# SPDX-License-Identifier: GPL-2.0
"""What guests are made of: programs, kernels with their modules, the accelerator.

This part reports what is missing.
"""

import os
import re
import subprocess

from vm.command_line import Request
from vm.guests import Guest, Kernel
from vm.messages import note, refuse
from vm.places import Places, output_of, to_build, to_install, which


def check_machine(places: Places) -> None:
    if places.machine != "x86_64":
        refuse(f"this machine is {places.machine}: guests are x86_64, and run its programs")


def has_library(places: Places) -> bool:
    return os.path.exists(f"{places.rdma_core}/lib/libibverbs.so")


def check_rdma_core(request: Request, places: Places) -> None:
    """Without a build the guest takes the host's, but a user who chooses a series wants no other."""
    series = os.environ.get("RDMA_CORE", "host")
    if series in ("", "host") or has_library(places):
        return
    if any(not guest.options.rdma_core for guest in request.guests):
        refuse(f"there is no {places.rdma_core}: {to_build(f'rdma-core RDMA_CORE={series}')}")


def check_programs(request: Request, places: Places, qemu: str) -> None:
    # The last ones are for the guests, which have the host's programs.
    programs = [qemu, "setpriv", "cpio", "busybox", "depmod", "flock", "rdma"]
    if any(guest.options.pmem for guest in request.guests):
        programs.append("ndctl")
    if any(guest.options.delay or guest.options.loss for guest in request.guests):
        programs.append("tc")
    path = f"{places.root}/build/iproute2/bin:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [program for program in programs if not which(program, path)]
    if missing:
        packages = ["qemu-system-x86_64" if program == qemu else program for program in missing]
        refuse(f"there is no {' '.join(missing)}: {to_install(*packages)}")


def check_readable(kernel: str) -> None:
    if not os.access(kernel, os.R_OK):
        refuse(f"{kernel}: no such file or folder, or not readable by you")


def kernel_path(guest: Guest, places: Places) -> str:
    """What --kernel or the environment names, or the default"""
    kernel = guest.options.kernel or os.environ.get("KERNEL", "")
    if not kernel:
        base = os.environ.get("BASE") or "v6.1"
        target = "kernel" if base == "v6.1" else f"kernel BASE={base}"
        if places.variant:
            target += f" DEBUG={os.environ.get('DEBUG')}"
        kernel = f"{places.root}/build/{base}{places.variant}/bzImage"
        if not os.path.exists(kernel):
            refuse(f"there is no {kernel}: {to_build(target)}")
    check_readable(kernel)
    return kernel


def find_kernels(request: Request, places: Places) -> None:
    program = f"{places.root}/qemu-scripts/initramfs"
    found: dict[str, Kernel] = {}
    for guest in request.guests:
        path = kernel_path(guest, places)
        if path not in found:
            found[path] = Kernel(*output_of(program, path).split("\n"))
        guest.kernel = found[path]


def check_host_library() -> None:
    """The guests' library is the host's.

    What it lacks is no error: a program may not need it.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    listed = subprocess.run(["ldconfig", "-p"], env={**os.environ, "PATH": path}, stdout=subprocess.PIPE)
    match = re.search(rb"^\s*libibverbs\.so\.1 .*=> (\S+)$", listed.stdout, re.MULTILINE)
    library = os.fsdecode(match[1]) if match else ""
    # Its name ends with the release of rdma-core: libibverbs.so.1.14.56.1
    release = re.search(r"\.so\.1\.[0-9]*\.([0-9]+)\.", os.path.realpath(library))
    if not release:
        note(f"no libibverbs is here: {to_build('rdma-core')}, or {to_install('rping')}")
    elif int(release[1]) < 45:
        note(
            f"{library}, of rdma-core {release[1]}, posts no FLUSH: {to_build('rdma-core')},"
            " or install rdma-core 45 or newer"
        )
    elif not any(os.path.exists(f"{folder}/libibverbs.d/rxe.driver") for folder in ("/etc", "/usr/share")):
        note("libibverbs has no driver for rxe0: install the package ibverbs-providers, or libibverbs on Fedora")


def can_record_cpu(qemu: str, accel: str) -> bool:
    """Without it crash-states has less to judge by, as always on such a host."""
    version = re.match(r"QEMU emulator version (\d+)\.(\d+)", output_of(qemu, "--version"))
    if accel != "tcg":
        note(f"--record-cpu: guests run by {accel} here, which cannot record the CPU: QEMU_ACCEL=tcg can")
        return False
    if not version or (int(version[1]), int(version[2])) < (9, 2):
        found = f"{version[1]}.{version[2]}" if version else "of this version"
        note(
            f"--record-cpu: QEMU {found} cannot record the CPU: QEMU 9.2 or newer,"
            " such as that of Debian 13, can (QEMU=PROGRAM)"
        )
        return False
    return True


def find_parts(request: Request, places: Places, qemu: str) -> str:
    """Gives each guest its kernel; returns the accelerator."""
    check_rdma_core(request, places)
    check_machine(places)
    check_programs(request, places, qemu)
    try:
        os.makedirs(places.kept, exist_ok=True)
    except OSError:
        refuse(f"cannot make {places.kept}: set XDG_CACHE_HOME to a folder that you may write to")
    find_kernels(request, places)
    if not has_library(places) and any(not guest.options.rdma_core for guest in request.guests):
        check_host_library()
    first = request.guests[0].kernel.image
    accel = output_of(f"{places.root}/qemu-scripts/accelerator", first)
    request.record_cpu = request.record_cpu and can_record_cpu(qemu, accel)
    return accel
