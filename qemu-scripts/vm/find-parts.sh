# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder, which share its variables
#
# What the guests are made of: programs, kernels with their modules, the accelerator.  This part reports what is
# missing.

# The default, or what --kernel names.
kernel_of() {
	local kernel=${option[$1.kernel]-} base=${BASE:-v6.1} target=kernel
	if [[ -z $kernel ]]; then
		[[ $base == v6.1 ]] || target+=" BASE=$base"
		[[ -z $variant ]] || target+=" DEBUG=$DEBUG"
		kernel=$root/build/$base$variant/bzImage
		[[ -e $kernel ]] || die "there is no $kernel: $(to_build "$target")"
	fi
	[[ -r $kernel ]] || die "--kernel $kernel: no such file or folder, or not readable by you"
	echo "$kernel"
}

# The guests' library is the host's.  What it lacks is no error: a program may not need it.
check_host_library() {
	local library has
	library=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p | awk '$1 == "libibverbs.so.1" { print $NF; exit }')
	# Its name ends with the release of rdma-core: libibverbs.so.1.14.56.1
	has=$(readlink -f "$library" | sed -n 's/.*\.so\.1\.[0-9]*\.\([0-9]*\)\..*/\1/p')
	if [[ -z $has ]]; then
		note "no libibverbs is here: $(to_build rdma-core), or $(to_install rping)"
	elif ((has < 45)); then
		note "$library, of rdma-core $has, posts no FLUSH: $(to_build rdma-core), or install rdma-core 45 or newer"
	elif [[ ! -e /etc/libibverbs.d/rxe.driver && ! -e /usr/share/libibverbs.d/rxe.driver ]]; then
		note "libibverbs has no driver for rxe0: install the package ibverbs-providers, or libibverbs on Fedora"
	fi
}

# Without it crash-states has less to judge by, as always on such a host.
can_record_cpu() {
	local version
	version=$("$qemu_program" --version | sed -n 's/^QEMU emulator version \([0-9]*\.[0-9]*\).*/\1/p')
	if [[ $accel != tcg ]]; then
		note "--record-cpu: guests run by $accel here, which cannot record the CPU: QEMU_ACCEL=tcg can"
	elif [[ $(printf '%s\n' 9.2 "$version" | sort -V | head -n 1) != 9.2 ]]; then
		note "--record-cpu: QEMU $version cannot record the CPU: QEMU 9.2 or newer, such as that of Debian 13, can (QEMU=PROGRAM)"
	else
		return 0
	fi
	return 1
}

declare -A image=() initramfs=() modules=()	# of each guest

check_machine() {
	[[ $(uname -m) == x86_64 ]] || die "this machine is $(uname -m): guests are x86_64, and run its programs"
}

find_parts() {
	local guest program kernel
	# The last ones are for the guests, which have the host's programs.
	local -a missing=() programs=("$qemu_program" setpriv cpio busybox depmod flock rdma)
	for guest in "${guests[@]}"; do
		[[ -z ${option[$guest.pmem]-} ]] || programs+=(ndctl)
		[[ -z ${option[$guest.delay]-}${option[$guest.loss]-} ]] || programs+=(tc)
		# Without a build the guest takes the host's, but a user who chooses a series wants no other one.
		[[ -z ${RDMA_CORE-} || $RDMA_CORE == host || -n ${option[$guest.rdma-core]-} || -e $root/$rdma_core_folder/lib/libibverbs.so ]] ||
			die "there is no $root/$rdma_core_folder: $(to_build "rdma-core RDMA_CORE=$RDMA_CORE")"
	done
	check_machine
	for program in "${programs[@]}"; do
		PATH=$root/build/iproute2/bin:$PATH:/usr/sbin:/sbin type -P "$program" >/dev/null || missing+=("$program")
	done
	((!${#missing[@]})) ||
		die "there is no ${missing[*]}: $(to_install "${missing[@]/#"$qemu_program"/qemu-system-x86_64}")"
	mkdir -p "$kept" || die "cannot make $kept: set XDG_CACHE_HOME to a folder that you may write to"
	for guest in "${guests[@]}"; do
		kernel=$(kernel_of "$guest")
		image[$guest]=$("$here/initramfs" "$kernel" image)
		initramfs[$guest]=$("$here/initramfs" "${image[$guest]}")
		modules[$guest]=$("$here/initramfs" "${image[$guest]}" modules)
	done
	[[ -e $root/$rdma_core_folder/lib/libibverbs.so ]] || check_host_library
	accel=$("$here/accelerator" "${image[${guests[0]}]}")
	[[ -z $record_cpu ]] || can_record_cpu || record_cpu=
}
