# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder: they share its variables
#
# What the guests are made of: programs, kernels with their modules, the accelerator.  Whatever is missing is missed here.

kernel_image() {
	local image=${option[$1.kernel]-} base=${BASE:-v6.1} target="make kernel"
	if [[ -z $image ]]; then
		[[ $base == v6.1 ]] || target+=" BASE=$base"
		[[ -z $variant ]] || target+=" DEBUG=$DEBUG"
		image=$root/build/$base$variant/bzImage
		[[ -e $image ]] || die "there is no $image: run \`$target\`"
	fi
	[[ -f $image && -r $image ]] || die "--kernel $image: no such file, or not readable by you"
	readlink -f "$image"
}

declare -A image=() initramfs=() modules=()	# of each role

# Finds what the guests are made of; whatever is missing is missed here.
find_parts() {
	local role program
	for program in "$qemu_program" setpriv cpio; do
		type -P "$program" >/dev/null ||
			die "there is no $program: install it by \`make deps\` (packages qemu-system-x86, util-linux, cpio)"
	done
	for role in "${roles[@]}"; do
		image[$role]=$(kernel_image "$role")
		initramfs[$role]=$("$here/initramfs" "${image[$role]}")
		modules[$role]=$("$here/initramfs" "${image[$role]}" modules)
	done
	accel=$("$here/accelerator" "${image[${roles[0]}]}")
}
