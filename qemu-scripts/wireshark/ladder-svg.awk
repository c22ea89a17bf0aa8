# SPDX-License-Identifier: GPL-2.0
#
# What ladder.awk tells, as an SVG picture.  -v first=N -v last=N: only these packets.  -v cut=FRAME -v power=SIDE:
# that side's power fails at the end.

BEGIN {
	FS = "\t"
	LEFT = 170; RIGHT = 790		# the first end, and the last of two
	REMARK = 390			# what is right of it
	TOP = 56; ROW = 32; SLOPE = 7
	colour["ok"] = "#222"
	colour["dropped"] = colour["lost"] = colour["refused"] = colour["gone"] = "#c01c28"
	colour["discarded"] = colour["late"] = "#b35900"
	colour["sent again"] = colour["answered again"] = "#1a5fb4"
}

NR == 1 {
	ends = NF / 2
	for (i = 1; i <= ends; i++)
		name[i] = $(2 * i - 1) " " $(2 * i)
	for (i = 1; i <= ends; i++)
		if (index(power ".", $(2 * i - 1) ".") == 1)
			fails = i
	if (ends > 2)
		RIGHT = LEFT + (ends - 1) * 330
	next
}

$1 >= first && $1 <= last { row[++rows] = $0 }

END {
	WIDTH = RIGHT + REMARK
	bottom = TOP + rows * ROW + 20
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" ",
		WIDTH, bottom + 36, WIDTH, bottom + 36
	print "font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"12\">"
	print "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
	for (i = 1; i <= ends; i++)
		lifeline(x_of(i), name[i])
	for (i = 1; i <= rows; i++)
		packet(row[i], TOP + i * ROW)
	if (cut != "") {
		x = x_of(fails)
		line(x - 12, bottom - 12, x + 12, bottom + 12, colour["gone"], "")
		line(x - 12, bottom + 12, x + 12, bottom - 12, colour["gone"], "")
		text(RIGHT + 18, bottom + 4, "start", colour["gone"], "the power fails (frame " cut " of " (power == "one" ? "the capture)" : power ".pcap)"))
	}
	text(LEFT, bottom + 22, "start", "#666", "Not to scale; times in ms, of departure.  " \
		"Late: it came to the guest's card, and the guest acted on it too late, or never.")
	print "</svg>"
}

function text(x, y, anchor, fill, words, more) {
	gsub(/&/, "\\&amp;", words)
	gsub(/</, "\\&lt;", words)
	printf "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" fill=\"%s\"%s>%s</text>\n", x, y, anchor, fill, more, words
}

function line(x1, y1, x2, y2, stroke, more) {
	printf "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"1.5\"%s/>\n",
		x1, y1, x2, y2, stroke, more
}

function lifeline(x, name) {
	text(x, TOP - 26, "middle", "#222", name, " font-weight=\"bold\"")
	line(x, TOP - 16, x, bottom, "#999")
}

function x_of(column) { return LEFT + (column - 1) * (RIGHT - LEFT) / (ends - 1) }

function packet(fields, y,	f, fill, from, to, back, middle) {
	split(fields, f, FS)
	fill = colour[f[8]]
	from = x_of(f[3])
	to = x_of(f[4])
	middle = (from + to) / 2
	back = from < to ? -1 : 1
	if (f[8] == "dropped")
		to += back * (RIGHT - LEFT) / (ends - 1) / 5
	else if (f[8] == "lost")
		to += back * 10

	text(50, y, "end", "#666", f[1])
	text(LEFT - 20, y, "end", "#666", f[2])
	text(middle, y - 5, "middle", fill, f[5] "  psn " f[6] (f[7] == "" ? "" : ", " f[7]))
	line(from, y - 2, to, y - 2 + SLOPE, fill)
	if (f[8] == "dropped" || f[8] == "lost") {
		line(to - 6, y - 8 + SLOPE, to + 6, y + 4 + SLOPE, fill)
		line(to - 6, y + 4 + SLOPE, to + 6, y - 8 + SLOPE, fill)
	} else
		printf "<path d=\"M%d %d l%d -4 v8 z\" fill=\"%s\"/>\n", to, y - 2 + SLOPE, back * 10, fill
	if (f[8] != "ok")
		text(RIGHT + 18, y + 3, "start", fill, f[8] (f[9] == "" ? "" : ": " f[9]))
	else if (f[9] != "")
		text(RIGHT + 18, y + 3, "start", "#666", f[9])
}
