#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# What uses rxe in the kernel, between two guests with Debian's kernel of BASE: NVMe, NFS and SRP over RDMA.  Data is
# verified while connections are made, lost and ended, the link fails, and the target loses its power.
#
# TARGET_RXE, INITIATOR_RXE: rdma_rxe of this side: `fixed`, which the package of `make dkms` builds (default), or
# `stock`, Debian's own.
#
# `make deps-ulps` installs what it needs.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

target=${TARGET_RXE:-fixed} initiator=${INITIATOR_RXE:-fixed}

# kernel_with DRIVER: the path of the image
kernel_with() {
	case $1 in
	stock) "$root/scripts/stock-kernel" "${BASE#v}" ;;
	fixed) "$root/scripts/dkms-kernel" "$BASE" ;;
	*) wrong_usage "TARGET_RXE, INITIATOR_RXE: '$1': say stock or fixed" ;;
	esac
}

prepare() {
	[[ ${BASE:-v6.1} != v6.1 ]] ||
		wrong_usage "the fixes of BASE=v6.1 are no module by themselves: say BASE=v6.12 or BASE=v7.3"
	[[ -z ${ULPS_KERNELS-} ]] || return 0
	"$root/scripts/deps" check ulps
	target_kernel=$(kernel_with "$target")
	initiator_kernel=$(kernel_with "$initiator")
	export ULPS_KERNELS="$target_kernel $initiator_kernel"
}

# between PROTOCOL [PATTERN...]: with options of rxe-vm, and its mode
options=() mode=pair
between() {
	local words=''
	(($# == 1)) || words=$(printf ' %q' "${@:2}")
	mkdir "$work/share"
	nested "$root/qemu-scripts/rxe-vm" "$mode" --name "ulps-$1" --timeout 3600 --no-capture --stop-server \
		--share "$work/share" --server-kernel "${ULPS_KERNELS% *}" --client-kernel "${ULPS_KERNELS#* }" "${options[@]}" \
		--server "exec $root/selftests/ulps/$1-target $work/share $target" \
		--client "exec $root/selftests/ulps/$1-initiator $work/share $initiator$words"
}

nvme() { between nvme "$@"; }
nfs() { between nfs "$@"; }
srp() { between srp "$@"; }

# The namespace is an NVDIMM, which keeps what the target had when its power was cut.  It is not blank, or rxe-vm would
# make device DAX of it.
nvme_at_a_target_that_loses_its_power() {
	head -c 64M /dev/urandom >"$work/nvdimm"
	mode=group options=(--server-pmem "$work/nvdimm:64M")
	between nvme "$@"
}

cases=(
	nvme
	nvme_at_a_target_that_loses_its_power
	nfs
	srp
)

run_suite 1 "$@"
