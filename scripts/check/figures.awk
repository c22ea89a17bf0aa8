# SPDX-License-Identifier: GPL-2.0
# For scripts/check/figures, which says what a figure is:  awk -f figures.awk TABLE DOCUMENT...
# A line of TABLE: an entry's place, documents, words, what its source says (nothing: it is measured), the source;
# with tabs between them.

BEGIN {
	FS = "\t"
	number = "0x[0-9A-Fa-f]+|[0-9]+(,[0-9][0-9][0-9])*(\\.[0-9]+)*"
	any = number
	n = split("one two three four five six seven eight nine ten eleven twelve half", list, " ")
	for (i in list) {
		value_of[list[i]] = list[i] == "half" ? "0.5" : i
		any = any "|" list[i]
	}
	# Which are of prose, more often than not.
	prose["one"]; prose["two"]
}

FILENAME == ARGV[1] {
	entries++
	place[entries] = $1; where[entries] = $2; words[entries] = unframed($3); says[entries] = $4; source[entries] = $5
	pattern[entries] = pattern_of(tolower(words[entries]))
	next
}

FNR == 1 { end_document(); document = FILENAME; is_rst = document ~ /\.rst$/; text = ""; lines = block = 0 }

# Blocks in a language are left out, pictures are not.
!is_rst && /^```/ { block = block ? 0 : /^```./ ? 1 : 2; next }
is_rst && /^\.\. code-block::/ { block = 1; next }
is_rst && /^[^ ]/ { block = 0 }
block == 1 { next }
is_rst && /^ +:[a-z-]+:( |$)/ && !/^ +:alt:/ { next }
{
	line_at[++lines] = length(text) + 1
	line_no[lines] = FNR
	text = text unframed($0) " "
	gsub(/  +/, " ", text)
}

END {
	end_document()
	for (e = 1; e <= entries; e++) {
		if (!found[e])
			wrong(place[e] ": \"" words[e] "\" " (is_hollow[e] ? "has no figure" : "does not stand in " where[e]) \
				": quote what stands there now, or remove it")
		if (says[e] == "")
			print place[e] ": nothing checks \"" words[e] "\": " source[e]
	}
	if (!total)
		wrong("there is no figure in any document: are these the right files?")
	printf "%d figures in %d documents: %d are as their sources say, %d are only measured\n",
		total, documents, total - open - untrue - measured, measured
	exit failed
}

function wrong(message) { print message; failed = 1 }

# Without the lines that tables and pictures are drawn with
function unframed(line) {
	gsub(/[|\t]|[-+=][-+=][-+=]+/, " ", line)
	gsub(/  +/, " ", line)
	return line
}

function blank(string) { gsub(/[^ ]/, " ", string); return string }

# The string with blanks in place of inline code, but for code without a letter
function without_code(string,   done, code) {
	done = ""
	while (match(string, /``?[^`]+``?/)) {
		code = substr(string, RSTART, RLENGTH)
		done = done substr(string, 1, RSTART - 1) (code ~ /[A-Za-z]/ ? blank(code) : code)
		string = substr(string, RSTART + RLENGTH)
	}
	return done string
}

# find_figures STRING ALL: how many; their values and where they begin in value[] and begin[].  ALL: with those of prose
function find_figures(string, all,   count, offset, word, i) {
	count = offset = 0
	while (match(string, /[A-Za-z0-9_][A-Za-z0-9_.,\/:^-]*/)) {
		word = substr(string, RSTART, RLENGTH)
		i = offset + RSTART
		offset += RSTART + RLENGTH - 1
		string = substr(string, RSTART + RLENGTH)
		if (word ~ /^[A-Za-z_]/) {
			sub(/[^A-Za-z_].*/, "", word)
			word = tolower(word)
			if (word in value_of && (all || !(word in prose))) {
				value[++count] = value_of[word]
				begin[count] = i
			}
			continue
		}
		while (match(word, number)) {
			value[++count] = tolower(substr(word, RSTART, RLENGTH))
			gsub(/,/, "", value[count])
			begin[count] = i + RSTART - 1
			i += RSTART + RLENGTH - 1
			word = substr(word, RSTART + RLENGTH)
		}
	}
	return count
}

# Where a position of the text stands, and what is around it
function at(position,   i) {
	for (i = lines; line_at[i] > position; i--)
		;
	return document ":" line_no[i]
}

function around(position,   from) {
	from = position > 30 ? position - 30 : 1
	return "\"..." substr(text, from, 60 + position - from) "...\""
}

# Do the words at this position, which begin or end with a figure, begin or end within one?
function is_within(position, len,   before, behind) {
	# Not every awk takes what is before the first character for nothing.
	before = position > 2 ? substr(text, position - 2, 2) : substr(text, 1, position - 1)
	behind = substr(text, position + len, 2)
	return lower(position, 1) ~ /[a-z0-9_]/ && (before ~ /[A-Za-z0-9_]$/ || before ~ /[0-9][.,]$/) ||
		lower(position + len - 1, 1) ~ /[a-z0-9_]/ && behind ~ /^([A-Za-z0-9_]|[.,][0-9])/
}

function lower(position, len) { return tolower(substr(text, position, len)) }

function end_document(   e, i, n) {
	if (!document)
		return
	documents++
	lowered = tolower(text)
	plain = left = without_code(text)
	total += find_figures(plain, 0)
	for (e = 1; e <= entries; e++)
		if (where[e] == "*" || index(" " where[e] " ", " " document " "))
			compare_all(e)
	n = find_figures(left, 0)
	for (i = 1; i <= n; i++)
		wrong(at(begin[i]) ": " value[i] " in " around(begin[i]) " has no entry: say in " LIST \
			" what it comes from, or do without it")
	open += n
}

# Wherever the words of an entry stand, their figures have to be what its source says.
function compare_all(e,   from, position, len) {
	for (from = 1; match(substr(lowered, from), pattern[e]); from = position + 1) {
		position = from + RSTART - 1
		len = RLENGTH
		if (!is_within(position, len))
			compare(e, position, len)
	}
}

# Words, as a regular expression
function pattern_of(string) {
	gsub(/[][\\.^$*+?(){}|]/, "\\\\&", string)
	gsub(/#/, "(" any ")", string)
	return string
}

function compare(e, position, len,   i, n, said) {
	n = find_figures(substr(plain, position, len), 1)
	for (i = 1; i <= n; i++)
		said = said (i > 1 ? " " : "") value[i]
	if (!n) {
		is_hollow[e] = 1
		return
	}
	found[e] = 1
	if (says[e] != "" && said != tolower(says[e])) {
		untrue += find_figures(substr(left, position, len), 0)
		wrong(at(position) ": \"" substr(text, position, len) "\" says " said ", but " place[e] " gives " says[e] \
			": " source[e])
	}
	if (says[e] == "")
		measured += find_figures(substr(left, position, len), 0)
	left = substr(left, 1, position - 1) blank(substr(left, position, len)) substr(left, position + len)
}
