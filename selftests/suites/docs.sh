#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The documents: they build without a warning, and the commands in them do what they should.  A block of shell
# commands in Documentation/*.rst has one of these classes; in README.md the class is the word after ```sh:
#
#	run		is run here
#	again		is run here with LONG=1 only, since another suite has the like
#	long		takes too long, or is what runs this suite
#	terminal	wants someone at a terminal
#
# A block of code, ``.. code-block:: c``, has what stands in the file that the comment before it names:  .. from FILE
# So has one of YAML, of a FILE that `rxe-vm new my-log` makes.
#
# A block of the class "output" has lines that the commands before it print, each at least in part.  The
# blocks run in order: one may look at what the one before has left in build/out/latest.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

documents=("$root"/README.md "$root"/Documentation/*.rst)

prepare() { [[ ${BASE:-v6.1} == v6.1 ]] || skip_all "the pages are of the kernel that is built by default"; }

# blocks: "CLASS FILE:LINE" of each block of commands or of output, in order
blocks() {
	awk '
		at { print /:class:/ ? $2 : "unmarked", at; at = "" }
		/^```sh/ { print $2 == "" ? "unmarked" : $2, FILENAME ":" FNR }
		/^\.\. code-block:: (sh|text)/ { at = FILENAME ":" FNR }
	' "${documents[@]}"
}

# content FILE:LINE: of the block that begins there
content() {
	awk -v first="${1##*:}" '
		FNR <= first { rst = /^\.\. /; next }
		rst ? /^[^ ]/ : /^```/ { exit }
		rst && /^   :/ { next }
		{ print substr($0, rst ? 4 : 1) }
	' "${1%:*}" | sed '/./,$!d'
}

# run_block FILE:LINE: in a folder that looks like the top of the tree, but may be written to; the
# folders of runs are made where the suite wants them, and the kernel is the one that the guests boot
run_block() {
	local status=0
	mkdir "$work/top" "$work/home"
	ln -s "$root"/* "$work/top"
	content "$1" | sed "s,build/out/,$RXE_OUT/,g; s,build/v6.1/,build/v6.1$variant/,g" >"$work/script"
	# gdb finds its functions in vmlinux only where rxe is built in.
	if grep -q "/vmlinux " "$work/script" && ! nm "$root/build/v6.1$variant/vmlinux" | grep ' rxe_flush$' >/dev/null; then
		echo "rxe is a module of this kernel"
		exit 4
	fi
	(cd "$work/top" && HOME=$work/home bash -euo pipefail "$work/script") >"$work/said" 2>&1 || status=$?
	cat "$work/script" "$work/said"
	((status == 0)) || fail "the commands end with status $status"
}

# expect_output FILE:LINE
expect_output() {
	local line
	while read -r line; do
		grep -qF -e "$line" "$work/said" || fail "not printed: $line"
	done < <(content "$1" | grep .)
}

# The case for the N-th block: its commands, and the output after it if there is some.
check_block() {
	local -a now next
	read -ra now < <(blocks | sed -n "$1p")
	read -ra next < <(blocks | sed -n "$(($1 + 1))p") || true
	run_block "${now[1]}"
	[[ ${next[0]-} != output ]] || expect_output "${next[1]}"
}

# listings: "FILE:LINE SOURCE" of each block of code; SOURCE is what the comment before it names, or "nothing"
listings() {
	awk '
		/^\.\. code-block:: c$/ { print FILENAME ":" FNR, source == "" ? "nothing" : source }
		{ source = /^\.\. from / ? $3 : "" }
	' "${documents[@]}"
}

documents_build_without_a_warning() { make -C "$root" docs; }

documents_build_without_a_kernel_tree() {
	KERNEL_TREE='' PYTHONDONTWRITEBYTECODE=1 sphinx-build -q -W --keep-going -d "$work/doctrees" \
		"$root/Documentation" "$work/site"
}

manual_pages_are_made_without_a_warning() { "$root/scripts/man-pages"; }

code_is_that_of_the_examples() {
	local at source code n=0
	while read -r at source; do
		[[ -f $root/$source ]] || fail "${at#"$root"/}: name the source of this code in a comment before it: .. from FILE"
		code=$(content "$at")
		[[ $(expand "$root/$source") == *$'\n'"$code"$'\n'* ]] || fail "${at#"$root"/}: this is not in $source: copy it again"
		n=$((n + 1))
	done < <(listings)
	((n)) || fail "no page has code"
}

files_for_ci_are_those_of_a_new_folder() {
	local file at page=$root/Documentation/your-ci.rst
	(cd "$work" && "$root/qemu-scripts/rxe-vm" new my-log)
	for file in .github/workflows/survives.yml .gitlab-ci.yml; do
		at=$page:$(awk -v "file=$file" '$2 == "from" && $3 == file { print NR + 1 }' "$page")
		[[ $(content "$at") == "$(<"$work/my-log/$file")" ]] || fail "$at: copy $file of \`rxe-vm new my-log\` again"
	done
}

# The kernel's documentation has some of the pages only.
pages_for_the_kernel_lead_to_no_others() {
	local page to pages
	pages=$("$root/scripts/kernel-pages")
	for page in $pages; do
		# shellcheck disable=SC2016 # backquotes as the pages have them
		while read -r to; do
			grep -qxF "$to.rst" <<<"$pages" || fail "Documentation/$page leads to $to, which the kernel does not get"
		done < <("$root/scripts/kernel-pages" "$page" | grep -oP ':doc:`(?:[^`]*<)?\K[^`>]*' || true)
	done
}

every_block_is_marked() {
	local class at
	while read -r class at; do
		case $class in
		run | again | output) ;;
		long | terminal) echo "# not run, $class, ${at#"$root"/}: $(content "$at" | paste -sd ';')" ;;
		*) fail "$at: class '$class'" ;;
		esac
	done < <(blocks)
}

# `make try` judges two runs that were recorded once, so no guest runs.
make_try_tells_the_right_log_from_the_wrong_one() {
	make -C "$root" try >"$work/said" || fail "make try ends with status $?"
	grep -q "DATA LOST\. " "$work/said" || fail "no data is lost: $(<"$work/said")"
	grep -q "Why: .*WRITE" "$work/said" || fail "it does not say why: $(<"$work/said")"
	grep -q "Posted by: forgetful-log\.c:[1-9][0-9]* append()" "$work/said" || fail "it names no line: $(<"$work/said")"
	grep -q "OK: the log survives in all [1-9][0-9][0-9]" "$work/said" || fail "the right log: $(<"$work/said")"
	# write() waited for each: a note would follow the number.
	[[ $(grep -lx "20 lines that initiators printed" "$root"/build/try/*.txt | wc -l) == 2 ]] || fail "recorded without FUSE"
}

picture_of_the_readme_is_what_make_try_finds() {
	"$root/Documentation/pictures" lost >"$work/lost.svg" || fail "it cannot be drawn"
	cmp "$work/lost.svg" "$root/Documentation/lost.svg" || fail "write it anew: Documentation/pictures lost >Documentation/lost.svg"
}

every_suite_is_described() {
	local suite
	while read -r suite; do
		grep -q "^| $suite |" "$root/selftests/README.md" || fail "selftests/README.md does not name the suite $suite"
	done < <("$here/../run-tests" --list)
}

# In a copy of what people start, where nothing is built and nothing can be fetched.
each_program_says_its_help_where_nothing_is_built() {
	local program option
	mkdir "$work/clone"
	cp -r "$root"/{qemu-scripts,scripts,selftests} "$work/clone"
	ln -s "$root"/{kernel,rdma-core-provider,userspace} "$work/clone"
	cd "$work/clone"
	for program in qemu-scripts/{rxe-vm,ladder,crash-states,source-lines} selftests/{run-tests,run-mutants,run-reproducers} \
		scripts/{deps,fixes,nightly,place-selftests,release,series,stock-kernel,stock-qemu,submission}; do
		for option in -h --help; do
			"$program" "$option" >"$work/said" 2>&1 || fail "$program $option ends with $?: $(<"$work/said")"
			grep -q "${program##*/}" "$work/said" || fail "$program $option does not say how to call it: $(<"$work/said")"
		done
	done
	[[ ! -e build ]] || fail "something was made: $(find build)"
}

cases=(
	documents_build_without_a_warning
	documents_build_without_a_kernel_tree
	manual_pages_are_made_without_a_warning
	code_is_that_of_the_examples
	files_for_ci_are_those_of_a_new_folder
	pages_for_the_kernel_lead_to_no_others
	every_block_is_marked
	every_suite_is_described
	each_program_says_its_help_where_nothing_is_built
	make_try_tells_the_right_log_from_the_wrong_one
	picture_of_the_readme_is_what_make_try_finds
)
n=0
while read -r class at; do
	n=$((n + 1))
	name=commands_of_${at##*/}
	name=${name//[^A-Za-z0-9]/_}
	case $class in
	run) cases+=("$name") ;;
	again) long_cases+=("$name") ;;
	*) continue ;;
	esac
	eval "$name() { check_block $n; }"
done < <(blocks)

run_suite 1 "$@"
