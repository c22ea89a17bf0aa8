# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash

# make_run_folder OUT NAME: makes OUT/<time>-NAME, lets OUT/latest point to it
# and prints its path.  mkdir decides between two that start in one second.
make_run_folder() {
	local out=$1 name folder
	local -i n=1
	name=$(date +%Y%m%d-%H%M%S)-$2
	mkdir -p "$out"
	folder=$name
	until mkdir "$out/$folder" 2>/dev/null; do
		[[ -d $out/$folder ]] || { echo "cannot make a folder in $out" >&2; return 1; }
		n+=1
		folder=$name.$n
	done
	ln -s "$folder" "$out/$folder/latest"
	mv -T "$out/$folder/latest" "$out/latest"
	readlink -f "$out/$folder"
}
