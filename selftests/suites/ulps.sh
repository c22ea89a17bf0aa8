#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# What uses rxe in the kernel, between two guests: NVMe, NFS, SRP and RNBD over RDMA.  Data is verified while connections
# are made, lost and ended, the link fails, and the target loses its power.
#
# TARGET_RXE, INITIATOR_RXE: which kernel and rdma_rxe of BASE this side has:
#   stock   Debian's
#   fixed   Debian's kernel with the rdma_rxe that the package of `make dkms` builds (default, if there is one)
#   series  the whole series, also what it changes outside rdma_rxe: `make kernel ULPS=1`, with DEBUG its debug kernel
#           (default otherwise)
# CASES: the names or patterns of cases; all by default
#
# `make deps-ulps` installs what it needs.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

base=${BASE:-v6.1}
default=series
! "$root/scripts/bases" dkms | grep -xF "$base" >/dev/null || default=fixed
target=${TARGET_RXE:-$default} initiator=${INITIATOR_RXE:-$default}

# check_side DRIVER
check_side() {
	case $default-$1 in
	series-fixed) wrong_usage "BASE=$base has no package of \`make dkms\`: say stock or series for TARGET_RXE and INITIATOR_RXE" ;;
	*-stock | *-fixed | *-series) ;;
	*) wrong_usage "TARGET_RXE, INITIATOR_RXE: '$1': say stock, fixed or series" ;;
	esac
}

# kernel_with DRIVER: the path of the image
kernel_with() {
	case $1 in
	stock) "$root/scripts/stock-kernel" "${base#v}" ;;
	fixed) "$root/scripts/dkms-kernel" "$base" ;;
	series) make -s -C "$root" kernel "BASE=$base" ULPS=1 >&2 && echo "$root/build/$base-ulps$variant/bzImage" ;;
	esac
}

prepare() {
	check_side "$target"
	check_side "$initiator"
	[[ -z $variant || $target$initiator == *series* ]] ||
		wrong_usage "DEBUG=$DEBUG is for our own kernel: say series for TARGET_RXE or INITIATOR_RXE"
	[[ -z ${ULPS_KERNELS-} ]] || return 0
	"$root/scripts/deps" check ulps
	target_kernel=$(kernel_with "$target")
	initiator_kernel=$(kernel_with "$initiator")
	export ULPS_KERNELS="$target_kernel $initiator_kernel"
}

# between PROTOCOL [PATTERN...]: with options of rxe-vm, and its mode.  A debug kernel moves data ten times as slowly, so it
# gets a quarter.
options=() mode=pair
between() {
	local words=''
	(($# == 1)) || words=$(printf ' %q' "${@:2}")
	mkdir "$work/share"
	nested "$root/qemu-scripts/rxe-vm" "$mode" --name "ulps-$1" --timeout 3600 --no-capture --stop-server \
		--share "$work/share" --server-kernel "${ULPS_KERNELS% *}" --client-kernel "${ULPS_KERNELS#* }" "${options[@]}" \
		--server "exec $root/selftests/ulps/$1-target $work/share $target" \
		--client "${variant:+export MIB=2; }exec $root/selftests/ulps/$1-initiator $work/share $initiator$words"
}

nvme() { between nvme "$@"; }
nfs() { between nfs "$@"; }
srp() { between srp "$@"; }
rnbd() { between rnbd "$@"; }

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
# Debian's kernels have no RNBD.  The debug kernels are preemptible, and RTRS is not made for that: if a task preempts another
# one that looks for a path on the same CPU, its request fails, or, by the policy round-robin, the kernel warns.
[[ $target$initiator$variant != seriesseries ]] || cases+=(rnbd)

# The process of a case has arguments of its own.
if ((!$#)); then
	read -ra words <<<"${CASES-}"
	set -- "${words[@]}"
fi
run_suite 1 "$@"
