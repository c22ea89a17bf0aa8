#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # many words here are for another shell
#
# The package of `make dkms` (scripts/dkms-package), in a Debian 13 with the stock kernel of BASE: apt installs
# it, DKMS builds the module, modprobe takes it in a guest, and after removal the kernel's own.  Where there is no module, or
# one that the kernel would refuse, the package says why and what to do.  It is no part of `make test`.
#
# mmdebstrap makes the root, for a week, and unshare and chroot enter it.  So the suite wants root, and the archive.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

base=${BASE:-v6.1}
roots=$root/build/roots

prepare() {
	"$root/scripts/bases" dkms | grep -xF "$base" >/dev/null ||
		wrong_usage "BASE=$base has no package of \`make dkms\`: give BASE=, one of $("$root/scripts/bases" dkms | paste -sd ' ')"
	[[ -z ${DKMS_PACKAGE-} ]] || return 0
	DKMS_IMAGE=$("$root/scripts/stock-kernel" "${base#v}")
	DKMS_PACKAGE=$(make -s -C "$root" dkms "BASE=$base" | tail -n 1)
	export DKMS_IMAGE DKMS_PACKAGE
}

# names: sets what each case needs to know: release, of the stock kernel; package; module, as DKMS names it with its version
names() {
	release=${DKMS_IMAGE##*/vmlinuz-}
	package=$(dpkg-deb -f "$DKMS_PACKAGE" Package)
	module=${package%-dkms}/$(dpkg-deb -f "$DKMS_PACKAGE" Version)
}

# debian_13: sets here_root to one with DKMS, the headers of the kernel, and of its modules those that rdma_rxe needs
debian_13() {
	local tar=$roots/dkms-$release.tar modules=linux-image
	# Newer kernels have their modules in a package of their own.
	[[ $DKMS_IMAGE != */linux-binary-* ]] || modules=linux-modules
	type -P mmdebstrap >/dev/null || { echo "no mmdebstrap: install it"; exit 4; }
	((EUID == 0)) || { echo "only root can enter a fresh root"; exit 4; }
	mkdir -p "$roots"
	[[ -n $(find "$tar" -mtime -7 2>/dev/null) ]] || {
		"$root/scripts/headers-root" "$release" "$tar.new" --format=tar --include="$modules-$release" \
			--dpkgopt='path-include=/usr/lib/modules/*/kernel/drivers/infiniband/*' \
			--dpkgopt='path-include=/usr/lib/modules/*/kernel/net/ipv?/*udp_tunnel*'
		mv "$tar.new" "$tar"
	}
	here_root=$work/root
	mkdir "$here_root"
	tar -C "$here_root" -xf "$tar"
	cp "$DKMS_PACKAGE" "$here_root/package.deb"
	# apt does not look into /usr/local/bin.
	mv "$here_root/usr/bin/uname" "$here_root/usr/bin/own-uname"
	printf '#!/bin/sh\n[ "$*" = -r ] && exec cat /running || exec own-uname "$@"\n' >"$here_root/usr/bin/uname"
	chmod 755 "$here_root/usr/bin/uname"
	running "$release"
}

# running RELEASE: the kernel that runs, for what is done inside
running() { echo "$1" >"$here_root/running"; }

# inside CMD: in the root, with processes and mounts of its own; shows what it prints, which is in $work/said, too
inside() {
	local status=0
	echo "# $1"
	unshare --mount --pid --fork --kill-child sh -c '
		mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
		exec chroot "$0" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
			DEBIAN_FRONTEND=noninteractive sh -ec "$1"' "$here_root" "$1" </dev/null >"$work/said" 2>&1 || status=$?
	cat "$work/said"
	return $status
}

# says TEXT: the package does, as it was run last, and gives no other warning
says() {
	grep "^${module%/*}: warning: " "$work/said" >"$work/warnings" || true
	[[ $(wc -l <"$work/warnings") == 1 ]] || fail "not one warning: $(<"$work/warnings")"
	grep -qF -e "$1" "$work/warnings" || fail "it does not say: $1"
}

install='apt-get install -y --no-install-recommends /package.deb'

# takes PATH: modprobe does, for the stock kernel
takes() {
	inside "modprobe -n --show-depends -S $release rdma_rxe | tail -n 1; modinfo -k $release -n rdma_rxe"
	[[ $(grep -cF "/lib/modules/$release/$1" "$work/said") == 2 ]] || fail "it is another module than $1"
}

stock_module=kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko
own_module=updates/dkms/rdma_rxe.ko

modprobe_takes_the_module_until_it_is_removed() {
	names
	debian_13
	takes "$stock_module"
	inside "$install"
	grep -q '^Running the post_install script' "$work/said" || fail "DKMS does not run the notice"
	takes "$own_module"
	loads_in_a_guest
	inside "apt-get remove -y $package"
	takes "$stock_module"
	[[ ! -e $here_root/usr/lib/modules/$release/updates ]] || fail "updates/ is left"
	[[ ! -e $here_root/var/lib/dkms/${module%/*} ]] || fail "DKMS still has it"
}

# As a user does after the stock one was loaded.  The kernel marks a module that is not of its own tree with O.  The module
# has no on-demand paging, whose fixes it cannot have.
loads_in_a_guest() {
	"$root/qemu-scripts/rxe-vm" run --name dkms --timeout 1200 --kernel "$DKMS_IMAGE" -- sh -exc '
		test -z "$(cat /sys/module/rdma_rxe/taint)"
		rdma link delete rxe0
		modprobe -r rdma_rxe
		modprobe -d "$0" rdma_rxe
		grep O /sys/module/rdma_rxe/taint
		rdma link add rxe0 type rxe netdev eth0
		ibv_devinfo -d rxe0
		without-odp' "$here_root"
}

# configured LINE: the running kernel is, with what rdma_rxe needs
configured() {
	local folder
	folder=$here_root/usr/lib/modules/$(<"$here_root/running")/build/include/config
	mkdir -p "$folder"
	printf '%s\n' CONFIG_INFINIBAND=m CONFIG_INFINIBAND_VIRT_DMA=y "$1" >"$folder/auto.conf"
}

a_package_without_a_module_says_why() {
	local kernel config
	names
	debian_13
	inside "dpkg --purge linux-headers-$release"
	inside "$install"
	says "there is no module for $release, which runs now and keeps its own rdma_rxe, because its headers are missing: install linux-headers-$release"
	for kernel in 6.1.0-56-amd64 "${base#v}0.1-amd64" 8.0.1+deb14-amd64; do
		running "$kernel"
		inside "/var/lib/dpkg/info/$package.postinst configure"
		says "there is no module for $kernel, which runs now and keeps its own rdma_rxe, because this package is for Linux ${base#v}: boot"
	done
	kernel=${base#v}.999-own
	running "$kernel"
	for config in '# CONFIG_RDMA_RXE is not set' CONFIG_RDMA_RXE=y; do
		configured "$config"
		inside "/var/lib/dpkg/info/$package.postinst configure"
		says "there is no module for $kernel, which runs now and keeps its own rdma_rxe, because it was configured without CONFIG_RDMA_RXE=m: boot"
	done
	# What has it as a module is built, which fails here.
	configured CONFIG_RDMA_RXE=m
	! inside "dkms build $module" || fail "it is built with no headers"
	grep -q 'Building module' "$work/said" || fail "it is not built"
}

a_package_that_dkms_does_not_have_is_removed() {
	names
	debian_13
	inside "dpkg --purge linux-headers-$release"
	inside "$install"
	inside "dkms remove $module --all"
	inside "apt-get purge -y $package"
	takes "$stock_module"
}

# notice MOKUTIL RELEASE: what DKMS shows when it has built for it, where mokutil prints the line MOKUTIL for each call
notice() {
	printf '#!/bin/sh\necho "%s"\n' "$1" >"$work/bin/mokutil"
	env PATH="$work/bin:$PATH" "$work/package/usr/src/${module/\//-}/notice" "$2" >"$work/said" 2>&1
	cat "$work/said"
}

a_kernel_that_is_newer_or_refuses_the_module_is_a_warning() {
	local tested=${base#v}.1-tested newer=${base#v}.999+deb13-amd64
	names
	mkdir "$work/bin"
	install -m 755 /dev/null "$work/bin/mokutil"
	"$root/scripts/dkms-package" "$root/build/$base/src" "kernel/$base" "$work" "$tested"
	dpkg-deb -x "$work/$package"_*.deb "$work/package"
	notice "SecureBoot disabled" "$tested"
	[[ ! -s $work/said ]] || fail "a warning"
	notice "SecureBoot disabled" "${base#v}.2-other"
	says "the module was tested with $tested, not with ${base#v}.2-other"
	notice "SecureBoot disabled" "$newer"
	says "what $newer fixes in its own rdma_rxe is not in use. Look for a newer package"
	notice "SecureBoot enabled" "$tested"
	says "Run 'mokutil --import /var/lib/dkms/mok.pub', boot, and choose 'Enroll MOK'"
	notice "SecureBoot enabled, mok.pub is already enrolled" "$tested"
	[[ ! -s $work/said ]] || fail "a warning"
}

cases=(
	a_kernel_that_is_newer_or_refuses_the_module_is_a_warning
	a_package_without_a_module_says_why
	a_package_that_dkms_does_not_have_is_removed
	modprobe_takes_the_module_until_it_is_removed
)
run_suite 1 "$@"
