# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the script that sources this has root, and uses what is here
#
# What the demos have in common: the text, their steps, their tables.

# shellcheck source=qemu-scripts/places.sh
. "$root/qemu-scripts/places.sh"
# shellcheck source=qemu-scripts/run-folder.sh
. "$root/qemu-scripts/run-folder.sh"
text=$root/build/${BASE:-v6.1}/src/MAINTAINERS

die() { echo "demo: error: $*" >&2; exit 1; }
step() { printf '\n== %s\n' "$*"; }
row() { printf '%9s  %s\n' "$1" "$2"; }

lines_of_text() {
	[[ -r $text ]] || die "there is no $text: $(to_build kernel)"
	wc -l <"$text"
}

# want_number RECORDS USAGE
want_number() { [[ $1 =~ ^[1-9][0-9]*$ ]] || die "'$1' is not a number of records: $2"; }

# want_programs NAME...: of build/selftests
want_programs() {
	local program
	for program; do
		[[ -x $root/build/selftests/$program ]] ||
			die "there is no build/selftests/$program: $(to_build demo)"
	done
}

# start_folder: sets folder, of this run, where the guests' runs go too, and work, in it
start_folder() {
	folder=$(make_run_folder "$out" demo)
	export RXE_OUT=$folder
	work=$folder/log
	mkdir "$work"
}

# accelerator RUN: of QEMU, in that run of the folder
accelerator() { sed -n 's/^accelerator //p' "$folder"/*-"$1"/verdict; }
