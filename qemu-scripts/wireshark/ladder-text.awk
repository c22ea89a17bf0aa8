# SPDX-License-Identifier: GPL-2.0
#
# What ladder.awk tells, as text for a terminal.  -v first=N -v last=N: only these packets.  -v cut=FRAME
# -v power=SIDE: that side's power fails at the end.

BEGIN {
	FS = "\t"
	WIDTH = 74
	GAP = 15	# between more than two ends
}

NR == 1 {
	ends = NF / 2
	sub(/\..*/, "", power)
	for (i = 1; i <= ends; i++)
		if ($(2 * i - 1) == power)
			fails = i
	if (ends == 2)
		printf "%5s %12s  %-*s%*s\n", "#", "ms", WIDTH / 2, $1 " " $2, WIDTH / 2 + 2, $3 " " $4
	else {
		printf "%5s %12s  ", "#", "ms"
		for (i = 1; i <= ends; i++)
			printf "%-*s", GAP + 1, $(2 * i - 1)
		printf "\n%5s %12s  ", "", ""
		for (i = 1; i <= ends; i++)
			printf "%-*s", GAP + 1, $(2 * i)
		print ""
	}
	next
}

$1 < first || $1 > last { next }

drawn_last && $1 > drawn_last + 1 { printf "%5s\n", "..." }

{
	drawn_last = $1
	text = $5 "  psn " $6 ($7 == "" ? "" : "  " $7)
	if (ends > 2)
		drawn = among($3, $4) "  " text
	else
		drawn = $3 < $4 ? to_the_right(text) : to_the_left(text)
	printf "%5d %12s  %s%s\n", $1, $2, drawn, verdict()
}

# With more than two ends: the arrow in its place, and the text after it.
function among(from, to,	i, left, right, all, gap, head) {
	left = from < to ? from : to
	right = from + to - left
	for (i = 1; i <= ends; i++) {
		all = all "|"
		if (i == ends)
			break
		gap = sprintf("%*s", GAP, "")
		if (i >= left && i < right) {
			gap = substr(dashes(GAP), 1, GAP)
			head = $8 == "dropped" || $8 == "lost" ? "X" : from < to ? ">" : "<"
			if (from < to && i == right - 1)
				gap = $8 == "dropped" ? substr(gap, 1, GAP - 3) "X  " : substr(gap, 2) head
			if (from > to && i == left)
				gap = $8 == "dropped" ? "  X" substr(gap, 1, GAP - 3) : head substr(gap, 2)
		}
		all = all gap
	}
	return all
}

function dashes(n,	s) {
	while (length(s) < n)
		s = s "-"
	return s
}

# A dropped packet ends on the way, a lost one at the other end's door.
function to_the_right(text) {
	text = "-- " text " "
	if ($8 == "dropped")
		return "|" text dashes(WIDTH - 10 - length(text)) "X         |"
	return "|" text dashes(WIDTH - 1 - length(text)) ($8 == "lost" ? "X" : ">") "|"
}

function to_the_left(text) {
	text = " " text " --"
	if ($8 == "dropped")
		return "|         X" dashes(WIDTH - 10 - length(text)) text "|"
	return "|" ($8 == "lost" ? "X" : "<") dashes(WIDTH - 1 - length(text)) text "|"
}

function verdict() {
	if ($8 == "ok")
		return $9 == "" ? "" : "  " $9
	return "  " toupper($8) ($9 == "" ? "" : ": " $9)
}

END {
	if (cut != "" && ends == 2)
		printf "%20s  %*s\n", "", WIDTH + 2, "the power fails X"
	else if (cut != "" && NR)
		printf "%20s%*sX  the power fails\n", "", (fails - 1) * (GAP + 1), ""
}
