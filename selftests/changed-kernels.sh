# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For run-mutants and run-reproducers: kernels that differ from the one that people work on, each built in the folder
# build/BASE-WHAT, so that all suites find it with BASE=BASE-WHAT.  The sourcing script stands in the project's top.

# shellcheck source=scripts/lib.sh
. scripts/lib.sh
# shellcheck source=qemu-scripts/run-folder.sh
. qemu-scripts/run-folder.sh
base=${BASE:-v6.1}

# make_tree WHAT: $tree, a work tree of the commits that people work on, but of none of their unfinished work.
make_tree() {
	other=$base-$1
	tree=build/$other/src
	[[ -e build/$base/src/.git ]] || die "there is no build/$base/src: run \`make kernel BASE=$base\`"
	mkdir -p "$(dirname "$tree")"
	git -C "build/$base/src" worktree prune
	[[ -e $tree/.git ]] || git -C "build/$base/src" worktree add -q --detach "$PWD/$tree" HEAD
	git -C "$tree" checkout -q --detach -f "$(git -C "build/$base/src" rev-parse HEAD)"
}

# build_other DEBUG LOG: the kernel of $tree as it is now; from here on, BASE and DEBUG name it.
build_other() {
	local c fragments=()
	unset KERNEL
	export BASE=$other DEBUG=$1
	# shellcheck source=qemu-scripts/choices.sh
	. qemu-scripts/choices.sh
	for c in guest kernel ${variant:+"${variant#-}"}; do
		fragments+=("kernel/config/$c.config")
		[[ ! -e kernel/$base/$c.config ]] || fragments+=("kernel/$base/$c.config")
	done
	# Before the patch that adds the KUnit tests, the tree lacks what only the series has.
	grep -q RDMA_RXE_KUNIT_TEST "$tree/drivers/infiniband/sw/rxe/Kconfig" || fragments+=(kernel/config/base.config)
	scripts/build-kernel "$tree" "build/$BASE$variant" "${fragments[@]}" >"$2" || die "it does not build: $2"
}

# tests_state: a word for all that a result depends on but the kernel's source: tests, rdma-core, kind of kernel.
tests_state() {
	say "DEBUG=${DEBUG:-0}" "$(tests_digest)" "$(digest_of "kernel/$base"/*.config)" \
		"$(series_digest "rdma-core-provider/${RDMA_CORE:-v56}")" | hash_of -
}

# results: KTAP from stdin as "ok NAME", "skip NAME" or "not NAME", with _ for blanks in NAME
results() {
	sed -nE 's/^ *(not )?ok [0-9]+ (- )?/\1/; T; s/^not /not\t/; t name; s/^/ok\t/; : name; s/^ok(.* # SKIP)/skip\1/; s/ # .*//; y/ \t/_ /; p'
}
