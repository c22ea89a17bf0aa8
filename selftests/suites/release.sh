#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # many words here are for another shell
#
# What users download: made twice it is the same, and in a fresh Debian 12 or 13 it runs, with the packages that it names
# and no others.  Each of these cases prints its seconds and bytes.  It is no part of `make test`; the nightly has it.
#
# The fresh roots are made by mmdebstrap, for a week, and entered by unshare and chroot: it wants root, and the archive.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/lab-runs.sh
. "$here/../lab-runs.sh"

release=$root/build/release
roots=$root/build/roots

prepare() {
	[[ -z ${RELEASE_MADE-} ]] || return 0
	make -s -C "$root" release >&2 || fail "make release"
	export RELEASE_MADE=1
}

# fresh_root SUITE: sets here_root to a folder with nothing but what apt needs
fresh_root() {
	local tar=$roots/$1.tar debian
	type -P mmdebstrap >/dev/null || { echo "no mmdebstrap: install it"; exit 4; }
	((EUID == 0)) || { echo "only root can enter a fresh root"; exit 4; }
	mkdir -p "$roots"
	[[ -n $(find "$tar" -mtime -7 2>/dev/null) ]] || {
		debian=$("$root/scripts/mirror" Debian)
		mmdebstrap --quiet --format=tar --variant=apt "$1" "$tar.new" "$debian"
		mv "$tar.new" "$tar"
	}
	here_root=$work/root
	mkdir "$here_root"
	tar -C "$here_root" -xf "$tar"
	cp -L /etc/resolv.conf "$here_root/etc/"
}

# inside CMD: in the fresh root, with processes and mounts of its own, which end with it
inside() {
	unshare --mount --pid --fork --kill-child sh -c '
		mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount -t sysfs -o ro sys "$0/sys" &&
		exec chroot "$0" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
			DEBIAN_FRONTEND=noninteractive sh -ec "$1"' "$here_root" "$1" </dev/null
}

# kilobytes: what the root has on disk
kilobytes() { du -skx "$here_root" | cut -f 1; }

# timed CMD: as inside; prints what a user waits for, downloads and stores.  After --no-install-recommends apt says
# what it needs.
timed() {
	local start=$SECONDS before after said=$work/said
	before=$(kilobytes)
	inside "$1" >"$said" 2>&1 || { cat "$said"; fail "it ends with status $?"; }
	cat "$said"
	after=$(kilobytes)
	echo "# $((SECONDS - start)) s; packages: $(grep -o 'Need to get .* of archives' "$said" | paste -sd ' '); on disk: $(((after - before) / 1024)) MB"
}

demo_succeeded() {
	grep -q "records found again: all that were promised" "$work/said" || fail "the demo's log has lost something"
	grep -q "DATA LOST: record" "$work/said" || fail "the demo's log without a FLUSH has lost nothing"
}

install_lab='apt-get update -qq && apt-get install -y --no-install-recommends'

runs_the_tarball() {
	fresh_root "$1"
	cp "$release"/*.tar.zst "$here_root/root/"
	timed "$install_lab $("$root/scripts/deps" debian lab | tr -d ,)"'
		cd /root && mkdir "a folder" && cd "a folder" && tar xf ../*.tar.zst && cd rxe-mpe-*
		qemu-scripts/rxe-vm --version
		qemu-scripts/rxe-vm demo
		qemu-scripts/ladder --tail 5 build/out/latest/*-first-log
		qemu-scripts/crash-states --states 50 build/out/latest/*-first-log -- true'
	demo_succeeded
	echo "# tarball: $(stat -c %s "$release"/*.tar.zst) bytes"
}

debian_12_runs_the_tarball() { runs_the_tarball bookworm; }
debian_13_runs_the_tarball() {
	local base
	runs_the_tarball trixie
	for base in "$root"/kernel/v*; do
		base=${base##*/}
		[[ $base != v6.1 ]] || continue		# the demo above
		inside "cd '/root/a folder'/rxe-mpe-* && BASE=$base qemu-scripts/rxe-vm demo" >"$work/said" 2>&1 || { cat "$work/said"; fail "$base"; }
		demo_succeeded
	done
}

runs_the_packages() {
	fresh_root "$1"
	cp "$release"/rxe-mpe-{lab,kernel-6.1}_*.deb "$here_root/root/"
	timed "$install_lab"' /root/*.deb bash-completion man-db
		rxe-vm demo
		ladder --tail 5 ~/.local/state/rxe-mpe/latest/*-first-log
		crash-states --states 50 ~/.local/state/rxe-mpe/latest/*-first-log -- true
		bash -c ". /usr/share/bash-completion/bash_completion
			_comp_load crash-states || _completion_loader crash-states; complete -p crash-states"
		for tool in rxe-vm ladder crash-states; do $tool --version; man -w $tool; done
		dpkg -V rxe-mpe-lab rxe-mpe-kernel-6.1
		apt-get purge -y rxe-mpe-lab rxe-mpe-kernel-6.1; ! ls /usr/lib/rxe-mpe'
	demo_succeeded
	echo "# packages: $(stat -c %s "$release"/rxe-mpe-{lab,kernel-6.1}_*.deb | paste -sd +) bytes"
}

debian_12_runs_the_packages() { runs_the_packages bookworm; }
debian_13_runs_the_packages() { runs_the_packages trixie; }

# From the sources, as the README says, in a fresh root that has security updates, as Debian's installer leaves it.
builds_it() {
	local packages security
	fresh_root "$1"
	security=$("$root/scripts/mirror" Debian-Security)
	echo "deb $security $1-security main" >>"$here_root/etc/apt/sources.list"
	git clone -q "$root" "$here_root/root/rxe-mpe"
	packages=$(sed -n 's/^See it (on Debian: `sudo apt-get install \(.*\)`):$/\1/p' "$root/README.md")
	timed "$install_lab $packages
		cd /root/rxe-mpe
		make try"
	timed 'cd /root/rxe-mpe
		make deps
		make demo
		make smoke'
	demo_succeeded
	echo "# sources: $(du -sm --exclude=ccache "$here_root/root/.cache/rxe-mpe" | cut -f 1) MB"
}

debian_12_builds_it() { builds_it bookworm; }
debian_13_builds_it() { builds_it trixie; }

made_twice_it_is_the_same() {
	cp "$release/SHA256SUMS" "$work/"
	make -s -C "$root" release
	diff "$work/SHA256SUMS" "$release/SHA256SUMS"
	(cd "$release" && sha256sum -c --quiet SHA256SUMS)
}

# All is compiled anew, in another folder.
made_elsewhere_it_is_the_same() {
	git clone -q "$root" "$work/elsewhere"
	git -C "$root" diff --quiet HEAD -- ':!results' || { echo "not all is committed"; exit 4; }
	CCACHE_DISABLE=1 make -s -C "$work/elsewhere" release KERNELS=v6.1
	make -s -C "$root" release KERNELS=v6.1
	# This folder may have an image, too.
	diff <(grep -v '\.oci\.tar$' "$release/SHA256SUMS") "$work/elsewhere/build/release/SHA256SUMS"
}

# install_prefix: sets prefix to one that no user may write to
install_prefix() {
	prefix=$work/usr
	make -s -C "$root" install KERNELS=v6.1 DESTDIR="$work" PREFIX=/usr
	chmod -R a-w "$prefix"
	touch "$work/installed"
}

an_installed_prefix_serves_any_user() {
	local as_nobody=(setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME="$work/home")
	((EUID == 0)) || as_nobody=(env HOME="$work/home")
	install_prefix
	mkdir "$work/home"
	chmod 777 "$work/home"
	unset RXE_OUT
	"${as_nobody[@]}" "$prefix/bin/rxe-vm" pair --server-pmem 64M --kill-server --name mine \
		--server 'first-log target $RXE_ADDR /dev/dax0.0' --client 'first-log initiator $RXE_PEER_ADDR 20' || fail "the pair fails"
	"${as_nobody[@]}" "$prefix/bin/ladder" --tail 3 "$work/home/.local/state/rxe-mpe/latest" | grep ACK
	"${as_nobody[@]}" "$prefix/bin/crash-states" --promise durable "$work/home/.local/state/rxe-mpe/latest" | grep "persistent FLUSH"
	[[ -z $(find "$prefix" -newer "$work/installed") ]] || fail "it has written: $(find "$prefix" -newer "$work/installed")"
	BASE=v0 "$prefix/bin/rxe-vm" run -- true >"$work/said" 2>&1 && fail "there is no kernel v0"
	grep -q "this release is without it" "$work/said" || fail "it says: $(<"$work/said")"
	chmod -R u+w "$prefix"
}

manual_pages_and_completion_have_all_options() {
	local tool option
	install_prefix
	# shellcheck source=qemu-scripts/completion
	. "$prefix/share/bash-completion/completions/rxe-vm"
	PATH=$prefix/bin:$PATH
	for tool in rxe-vm ladder crash-states; do
		[[ $("$tool" --version) == "$("$root/qemu-scripts/$tool" --version)" ]] || fail "$tool --version"
		man -l "$prefix/share/man/man1/$tool.1" | col -b >"$work/page"
		COMP_WORDS=("$tool" --) COMP_CWORD=1
		_rxe_mpe "$tool"
		while read -r option; do
			grep -q -e "$option" "$work/page" || fail "$tool(1) has no $option"
			[[ " ${COMPREPLY[*]} " == *" $option "* ]] || fail "$tool $option is not completed"
		done < <("$tool" --help | grep -oE -e ' --[a-z-]*[a-z]')
	done
	COMP_WORDS=(rxe-vm pa)
	_rxe_mpe rxe-vm
	[[ ${COMPREPLY[*]} == pair ]] || fail "rxe-vm pa: ${COMPREPLY[*]}"
	COMP_WORDS=(rxe-vm pair --client2-l) COMP_CWORD=2
	_rxe_mpe rxe-vm
	[[ ${COMPREPLY[*]} == --client2-loss ]] || fail "rxe-vm pair --client2-l: ${COMPREPLY[*]}"
	chmod -R u+w "$prefix"
}

##############################################################################
# The action, as a runner calls it

# act_released STATUS [NAME=VALUE...]
act_released() {
	act "$1" RELEASE="$(echo "$release"/*.tar.zst)" PAIR_OPTIONS='--server-pmem 64M' \
		SERVER='first-log target $RXE_ADDR /dev/dax0.0' CLIENT='first-log initiator $RXE_PEER_ADDR 20' "${@:2}"
}

the_action_runs_a_pair_and_a_checker() {
	act_released 0 CHECKER='test -s "$IMAGE"' KERNEL="$root/build/v6.1/bzImage"
	! grep '^::error' "$work/said" || fail "an annotation"
	[[ -s $(sed -n 's/^run=//p' "$work/output")/server.pcap ]] || fail "no run: $(<"$work/output")"
}

the_action_names_the_first_failure() {
	act_released 7 CLIENT='echo "it is broken: 100%"; exit 7'
	annotated "the pair of guests" "it is broken: 100%25%0A"
	act_released 1 CHECKER='echo "it is lost"; exit 1'
	annotated "a state that a power cut may leave" "it is lost"
	[[ -d $(sed -n 's/^run=//p' "$work/output")/crash-states ]] || fail "no run: $(<"$work/output")"
}

##############################################################################
# The image

# run_image [OPTION...] ARG...: as a user who is not root, without a network, with a root that is read only; what may be
# written to is the volume of the page, which podman makes.  A sandbox may refuse to raise limits, or have both kinds of
# cgroups: so they are given.
run_image() {
	local podman=(podman --root "$work/store" --runroot "$work/runroot" --storage-driver vfs --cgroup-manager cgroupfs)
	"$root/scripts/deps" check image-test || fail "the image cannot be tested"
	[[ -d $work/store ]] || "${podman[@]}" load -q -i "$release"/*.oci.tar
	"${podman[@]}" --runtime runc run --rm --network none --read-only --read-only-tmpfs=false --user 4321 \
		--ulimit nofile=4096:4096 --ulimit nproc=4096:4096 -v rxe-runs:/runs "$@"
}

the_image_shows_the_demo() {
	local start size
	make -s -C "$root" image || fail "make image"
	(cd "$release" && sha256sum -c --quiet SHA256SUMS)
	grep -q '\.oci\.tar$' "$release/SHA256SUMS" || fail "SHA256SUMS does not have the image"
	run_image --entrypoint true "$(image_name)"
	start=$SECONDS
	run_image "$(image_name)" demo >"$work/said" 2>&1 || { cat "$work/said"; fail "the demo fails"; }
	demo_succeeded
	size=$(stat -c %s "$release"/*.oci.tar)
	echo "# demo: $((SECONDS - start)) s; image: $size bytes"
	run_image --entrypoint test "$(image_name)" -e /runs/latest || fail "nothing is in the volume"
	run_image "$(image_name)" --version
}

image_name() { echo "localhost/rxe-mpe:$("$root/qemu-scripts/rxe-vm" --version | sed 's/.* //')"; }

cases=(
	made_twice_it_is_the_same
	an_installed_prefix_serves_any_user
	manual_pages_and_completion_have_all_options
	the_action_runs_a_pair_and_a_checker
	the_action_names_the_first_failure
	debian_12_runs_the_tarball
	debian_13_runs_the_tarball
	debian_12_runs_the_packages
	debian_13_runs_the_packages
	the_image_shows_the_demo
)
long_cases=(
	debian_12_builds_it
	debian_13_builds_it
	made_elsewhere_it_is_the_same
)

run_suite 1 "$@"
