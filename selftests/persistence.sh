#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# persistence.sh [--kernel IMAGE]: who may register persistence, and what it costs (persistence.c), in a guest
# with three kinds of persistent memory: KTAP.

set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "$0")")")
# shellcheck source=qemu-scripts/variant.sh
. "$root/qemu-scripts/variant.sh"

# 4 GiB and what describes their pages; a file in it is sparse.
nvdimm=4224M
# QEMU's virtio-pmem, which is durable when the host says so, and not before.
virtio_pmem="-object memory-backend-memfd,id=virtio-pmem,size=128M -device virtio-pmem-pci,memdev=virtio-pmem"
# The detectors at their defaults: the lab has them wait longer, for the emulator's sake.
watchdog="watchdog_thresh=$((10 * scale)) rcupdate.rcu_cpu_stall_timeout=$((21 * scale))"

# The lab has made device DAX of all; the smaller NVDIMM becomes a file system.
# shellcheck disable=SC2016 # for the guest
in_guest='
	die() { echo "Bail out! $*"; exit 1; }
	[ "$(cat /proc/sys/kernel/soft_watchdog)" = 1 ] || die "no detector of soft lockups"
	[ "$(cat /sys/module/rcupdate/parameters/rcu_cpu_stall_suppress)" = 0 ] || die "no detector of RCU stalls"
	for dax in /sys/bus/dax/devices/*; do
		case $(readlink -f $dax):$(cat $dax/size) in
		*/virtio*) virtio=/dev/${dax##*/} ;;
		*:4?????????) nvdimm=/dev/${dax##*/} ;;
		*) other=namespace${dax##*/dax} ;;
		esac
	done
	[ -n "$virtio" ] && [ -n "$nvdimm" ] && [ -n "$other" ] || die "$(ls -l /sys/bus/dax/devices)"
	disk=$(ndctl create-namespace -f -e $other -m fsdax | sed -n "s/.*\"blockdev\":\"\(.*\)\".*/\1/p")
	mkfs.ext4 -q -b 4096 /dev/$disk && mount -o dax /dev/$disk /mnt && fallocate -l 2M /mnt/file || die "no file system"
	exec persistence $nvdimm $virtio /mnt/file
'
exec "$root/qemu-scripts/rxe-vm" run --name persistence --timeout 1800 --mem 2G --pmem $nvdimm --pmem 64M \
	--qemu "$virtio_pmem" --append "$watchdog" "$@" -- sh -c "$in_guest"
