# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Show the progress of a long step: on a terminal (stderr) one line, rewritten in place; in a log, a line a minute.

# rewrite TEXT: in the place of what the last rewrite wrote; no TEXT removes that.
rewrite() {
	[[ -t 2 ]] || return 0
	printf '\r\033[K%.*s' $((progress_width - 1)) "${1//[^[:print:]]/ }" >&2
}

# show_newest_line: of stdin, behind the time since the start and the number of lines, with $steps "of about" so many.
show_newest_line() {
	local line text of="${steps:+ of about $steps}"
	local -i start=$SECONDS lines=0 seconds=0 next=60
	while IFS= read -r line; do
		lines+=1 seconds=$((SECONDS - start))
		((lines <= ${steps:-lines})) || of=
		printf -v text '%d:%02d  %d%s  %s' $((seconds / 60)) $((seconds % 60)) "$lines" "$of" "$line"
		rewrite "$text"
		if [[ ! -t 2 ]] && ((seconds >= next)); then
			printf '%s\n' "$text" >&2
			next+=60
		fi
	done
	rewrite ""
}

progress_width=$(tput cols 2>/dev/null || echo 80)
