# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder, which share its variables
#
# What the guests are made of: programs, kernels with their modules, the accelerator.  This part reports what is
# missing.

# The default, or what --kernel names.
kernel_of() {
	local kernel=${option[$1.kernel]-} base=${BASE:-v6.1} target="make kernel"
	if [[ -z $kernel ]]; then
		[[ $base == v6.1 ]] || target+=" BASE=$base"
		[[ -z $variant ]] || target+=" DEBUG=$DEBUG"
		kernel=$root/build/$base$variant/bzImage
		[[ -e $kernel ]] || die "there is no $kernel: run \`$target\`"
	fi
	[[ -r $kernel ]] || die "--kernel $kernel: no such file or folder, or not readable by you"
	echo "$kernel"
}

declare -A image=() initramfs=() modules=()	# of each guest

find_parts() {
	local guest program kernel
	# The last ones are for the guests, which have the host's programs.
	local -a programs=("$qemu_program" setpriv cpio busybox depmod flock rdma)
	for guest in "${guests[@]}"; do
		[[ -z ${option[$guest.pmem]-} ]] || programs+=(ndctl)
		[[ -z ${option[$guest.delay]-}${option[$guest.loss]-} ]] || programs+=(tc)
		# Otherwise the guest would take the host's, but a user who chooses a series wants no other one.
		[[ -z ${RDMA_CORE-} || -n ${option[$guest.rdma-core]-} || -e $root/$rdma_core_folder/lib/libibverbs.so ]] ||
			die "there is no $root/$rdma_core_folder: run \`make rdma-core RDMA_CORE=$RDMA_CORE\`"
	done
	for program in "${programs[@]}"; do
		PATH=$root/build/iproute2/bin:$PATH:/usr/sbin:/sbin type -P "$program" >/dev/null ||
			die "there is no $program: install it by \`make deps\` ($("$root/scripts/deps" packages "${program/#"$qemu_program"/qemu-system-x86_64}"))"
	done
	for guest in "${guests[@]}"; do
		kernel=$(kernel_of "$guest")
		image[$guest]=$("$here/initramfs" "$kernel" image)
		initramfs[$guest]=$("$here/initramfs" "${image[$guest]}")
		modules[$guest]=$("$here/initramfs" "${image[$guest]}" modules)
	done
	accel=$("$here/accelerator" "${image[${guests[0]}]}")
}
