#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Who may register persistence, what it costs, and who waits for a FLUSH (persistence.c), in a guest with four kinds of
# persistent memory.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

# 4 GiB and what describes their pages; a file in it is sparse.
nvdimm=4224M
# QEMU's virtio-pmem, which is durable when the host says so, and not before.
virtio_pmem="-object memory-backend-memfd,id=virtio-pmem,size=128M -device virtio-pmem-pci,memdev=virtio-pmem"
# The detectors at their defaults: the lab has them wait longer, for the emulator's sake.
watchdog="watchdog_thresh=$((10 * scale)) rcupdate.rcu_cpu_stall_timeout=$((21 * scale))"
# Ratios of costs are judged strictly only where nothing but the work costs time.
[[ $variant ]] && margin=20 || margin=0

# The lab has made device DAX of all; the smallest NVDIMM becomes a file system, and the third is lent to the
# page allocator: in a zone above the guest's DRAM, which is the first to be taken from.
# shellcheck disable=SC2016 # for the guest
in_guest='
	die() { echo "Bail out! $*"; exit 1; }
	modprobe -q kmem || :	# of a kernel that has it as a module
	[ "$(cat /proc/sys/kernel/soft_watchdog)" = 1 ] || die "no detector of soft lockups"
	[ "$(cat /sys/module/rcupdate/parameters/rcu_cpu_stall_suppress)" = 0 ] || die "no detector of RCU stalls"
	for dax in /sys/bus/dax/devices/*; do
		case $(readlink -f $dax):$(cat $dax/size) in
		*/virtio*) virtio=/dev/${dax##*/} ;;
		*:4?????????) nvdimm=/dev/${dax##*/} ;;
		*:3????????) lent=${dax##*/} ;;
		*) other=namespace${dax##*/dax} ;;
		esac
	done
	[ -n "$virtio" ] && [ -n "$nvdimm" ] && [ -n "$lent" ] && [ -n "$other" ] || die "$(ls -l /sys/bus/dax/devices)"
	disk=$(ndctl create-namespace -f -e $other -m fsdax | sed -n "s/.*\"blockdev\":\"\(.*\)\".*/\1/p")
	mkfs.ext4 -q -b 4096 /dev/$disk && mount -o dax /dev/$disk /mnt && fallocate -l 2M /mnt/file || die "no file system"
	lend="set -e
		cd /sys/bus/dax/drivers
		echo $lent >device_dax/remove_id
		echo $lent >device_dax/unbind
		echo $lent >kmem/new_id
		cd /sys/devices/system/memory
		for state in \$(grep -l offline memory*/state); do echo online_kernel >\$state; done"
	exec persistence $nvdimm $virtio /mnt/file "$lend" '$margin

four_kinds_of_memory() {
	nested "$root/qemu-scripts/rxe-vm" run --name persistence --timeout 1800 --mem 2G --pmem $nvdimm --pmem 64M \
		--pmem 384M --qemu "$virtio_pmem" --append "$watchdog" -- sh -c "$in_guest"
}

cases=(four_kinds_of_memory)
run_suite 1 "$@"
