# SPDX-License-Identifier: GPL-2.0
#
# What ladder.awk tells, as text for a terminal.  -v first=N -v last=N: only these packets.  -v cut=FRAME: the
# power fails at the end.

BEGIN {
	FS = "\t"
	WIDTH = 74
}

NR == 1 {
	printf "%5s %12s  %-*s%*s\n", "#", "ms", WIDTH / 2, $1 " " $2, WIDTH / 2 + 2, $3 " " $4
	next
}

$1 < first || $1 > last { next }

{
	text = $4 "  psn " $5 ($6 == "" ? "" : "  " $6)
	printf "%5d %12s  %s%s\n", $1, $2, $3 == ">" ? to_the_right(text) : to_the_left(text), verdict()
}

function dashes(n,	s) {
	while (length(s) < n)
		s = s "-"
	return s
}

# A dropped packet ends on the way, a lost one at the other end's door.
function to_the_right(text) {
	text = "-- " text " "
	if ($7 == "dropped")
		return "|" text dashes(WIDTH - 10 - length(text)) "X         |"
	return "|" text dashes(WIDTH - 1 - length(text)) ($7 == "lost" ? "X" : ">") "|"
}

function to_the_left(text) {
	text = " " text " --"
	if ($7 == "dropped")
		return "|         X" dashes(WIDTH - 10 - length(text)) text "|"
	return "|" ($7 == "lost" ? "X" : "<") dashes(WIDTH - 1 - length(text)) text "|"
}

function verdict() {
	if ($7 == "ok")
		return ""
	return "  " toupper($7) ($8 == "" ? "" : ": " $8)
}

END {
	if (cut != "" && NR)
		printf "%20s  %*s\n", "", WIDTH + 2, "the power fails X"
}
