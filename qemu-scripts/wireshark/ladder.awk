# SPDX-License-Identifier: GPL-2.0
#
# Finds out what became of each packet of the RC connections in a capture, or in the captures of all ends of a link.
# `ladder` calls it, with -v ends="NAME ADDRESS NAME ADDRESS ..." if there are captures of all ends, in the order of
# columns, and -v power=SIDE -v cut=FRAME -v lost_file=FILE if that side's power fails after that frame of its capture and
# these frames of it are lost.  -v lines_file=FILE has "QP PSN WHERE": the line of the program that has posted a request.
#
# Input, one line for each packet of each capture:
#
#	side time source destination id opcode qp psn va dmalen syndrome msn plt sel icrc frame
#
# side is NAME, or NAME.2 and so on for an end that was booted again; with one capture it may be anything.  Output,
# first the ends, then one line for each packet, in the order of departure:
#
#	name address name address ...
#	number milliseconds from to name psn detail fate remark
#
# from and to are columns, from 1.  With more than one connection the responder's QP number is part of the name.
# fate is one of
#
#	ok
#	dropped		only the sender's capture has it
#	lost		with one capture: the requester acts as if it had not come
#	discarded	came, but an earlier packet had been lost
#	sent again
#	answered again
#	refused		NAK, RNR NAK
#	late		came when it had been asked for again, or was overtaken; or the receiver's card has it, and its guest
#			acted on it too late, or never
#	gone		came, and was not durable when the power failed
#
# Packets that the server's card had not seen when the power failed are left out.

BEGIN {
	FS = OFS = "\t"
	PSNS = 16777216
	for (i = split("SEND FIRST,SEND MIDDLE,SEND LAST,SEND LAST IMM,SEND,SEND IMM,WRITE FIRST,WRITE MIDDLE," \
		       "WRITE LAST,WRITE LAST IMM,WRITE,WRITE IMM,READ,READ RESPONSE FIRST,READ RESPONSE MIDDLE," \
		       "READ RESPONSE LAST,READ RESPONSE,ACKNOWLEDGE,ATOMIC ACKNOWLEDGE,COMPARE SWAP,FETCH ADD,," \
		       "SEND LAST INV,SEND INV,,,,,FLUSH,ATOMIC WRITE", list, ","); i; i--)
		name[i - 1] = list[i]
	split("global,persistent,global and persistent", placement, ",")
	for (i = split("PSN sequence error,invalid request,remote access error,remote operational error", list, ","); i; i--)
		nak[i - 1] = list[i]
}

function guest(side) { sub(/\..*/, "", side); return side }

# A hub brings each end what the others say to each other, too.
ends != "" && (!columns && find_columns() || name_at[$3] != guest($1) && name_at[$4] != guest($1)) { next }

# The same packet in both captures: the ICRC is of all that does not change on the way, and the
# network may double a packet.
{
	key = $3 FS $4 FS $5 FS $8 FS $15
	copies[$1 FS key]++
	key = key FS copies[$1 FS key]
	if (!(key in packet)) {
		packet[key] = ++packets
		line[packets] = $0
	}
	seen[guest($1), packet[key]] = $2
	seen_by[guest($1), packet[key]] = $1
	if (!($1 in booted))
		booted[$1] = ++sides
	side_name[booted[$1]] = $1
	frame[$1, packet[key]] = $16
}

END {
	if (!packets)
		exit
	find_ends()
	# One capture does not show what the network dropped.
	missed = one_capture ? "lost" : "late"
	find_clocks()
	sort_by_departure()
	for (n = 1; n <= packets; n++) {
		read_packet(order[n])
		if (dropped(order[n]))
			judge(n, "dropped", "on the link")
		is_response ? response() : request()
	}
	if (cut != "")
		cut_power()
	if (lines_file != "")
		name_lines()
	print_all()
}

# From READ RESPONSE FIRST to ATOMIC ACKNOWLEDGE
function from_responder(opcode) { return opcode >= 13 && opcode <= 18 }

function find_columns(	list, i) {
	for (i = split(ends, list, " "); i > 1; i -= 2) {
		name_at[list[i]] = list[i - 1]
		column[list[i]] = i / 2
		boot[list[i]] = list[i - 1]
	}
	columns = length(column)
	return 0
}

# Of one capture there are two.
function find_ends(	field, requester, responder) {
	if (ends != "")
		return
	split(line[1], field)
	requester = field[from_responder(field[6]) ? 4 : 3]
	responder = field[from_responder(field[6]) ? 3 : 4]
	ends = "requester " requester " responder " responder
	column[requester] = 1
	column[responder] = 2
	columns = 2
	one_capture = 1
}

# The captures have clocks of their own.  The quickest packet of each direction tells by how much two
# differ, as in NTP.  One that is set right sets those right that it talks with.
function find_clocks(	p, field, i, j, from, to, right, more) {
	if (one_capture)
		return
	for (p = 1; p <= packets; p++) {
		split(line[p], field)
		if (dropped(p) || !((side(p, 3), p) in seen))
			continue
		from = seen_by[side(p, 3), p]
		to = seen_by[side(p, 4), p]
		i = seen[side(p, 4), p] - seen[side(p, 3), p]
		if (!((from, to) in quickest) || i < quickest[from, to])
			quickest[from, to] = i
	}
	right[side_name[1]] = 0
	for (more = 1; more;) {
		more = 0
		for (i in booted)
			for (j in booted)
				if ((i in right) && !(j in right) && ((i, j) in quickest) && ((j, i) in quickest)) {
					right[j] = right[i] + (quickest[i, j] - quickest[j, i]) / 2
					more = 1
				}
	}
	for (i in seen)
		seen[i] -= right[seen_by[i]]
}

# The name of the end that packet p comes from (3), or goes to (4).
function side(p, end,	field) {
	split(line[p], field)
	return one_capture ? guest(field[1]) : name_at[field[end]]
}

function departure(p) { return (side(p, 3), p) in seen ? seen[side(p, 3), p] : arrival(p) }
function arrival(p) { return seen[side(p, 4), p] }
function dropped(p) { return !((side(p, 4), p) in seen) }

# Captures are nearly in order.
function sort_by_departure(	p, i) {
	for (p = 1; p <= packets; p++) {
		left_at[p] = departure(p)
		for (i = p - 1; i && left_at[order[i]] > left_at[p]; i--)
			order[i + 1] = order[i]
		order[i + 1] = p
	}
}

# Sets what is known of the packet that leaves as number n.
function read_packet(p,	field) {
	split(line[p], field)
	source = field[3]; destination = field[4]; opcode = field[6] + 0; psn = field[8] + 0
	is_response = from_responder(opcode)
	from[n] = column[source]
	to[n] = column[destination]
	# Which boot it was, for both, if its capture has the packet; otherwise the one before.
	if (!one_capture && ((name_at[source], p) in seen_by))
		boot[source] = seen_by[name_at[source], p]
	if (!one_capture && ((name_at[destination], p) in seen_by))
		boot[destination] = seen_by[name_at[destination], p]
	qp = short(field[7])
	psn_of[n] = psn
	name_of[n] = name[opcode] == "" ? "opcode " opcode : name[opcode]
	syndrome = field[11]
	fate[n] = "ok"

	if (opcode == 28)
		detail[n] = placed(field[13]) ", " selected(field[14], field[10] " B at " short(field[9]))
	else if (field[9] != "")
		detail[n] = field[10] " B at " short(field[9])
	else if (syndrome != "")
		detail[n] = answer(syndrome + 0) " msn " field[12]
}

function short(address) {
	sub(/^0x0+/, "0x", address)
	return address == "0x" ? "0x0" : address
}

function placed(plt) {
	plt = substr(plt, length(plt))
	return plt in placement ? placement[plt] : plt == "0" ? "no placement" : "reserved placement"
}

function selected(sel, range) {
	return sel == 0 ? range : sel == 1 ? "whole region" : "reserved selectivity"
}

function answer(syndrome,	code) {
	code = syndrome % 32
	if (syndrome < 32)
		return "ACK"
	if (syndrome < 64)
		return "RNR NAK"
	return "NAK " (code in nak ? nak[code] : code)
}

# What the captures themselves show stands.
function judge(m, what, why) {
	if (fate[m] == "dropped")
		return
	fate[m] = what
	remark[m] = why
}

# From PSN a to b, the short way round.
function distance(a, b,	d) {
	d = (b - a + PSNS) % PSNS
	return d < PSNS / 2 ? d : d - PSNS
}

function request(	flow, before, first, last) {
	flow = source FS destination FS boot[destination] FS qp
	if (!(flow in newest)) {
		newest[flow] = psn
		qp_of[flow] = qp
		flows[source, destination, boot[destination]] = flows[source, destination, boot[destination]] SUBSEP flow
		connections++
	}
	connection[n] = qp
	before = latest[flow, psn]
	if (before) {
		# The first of those that are sent again is what the requester is missing.
		first = !(again[flow] && distance(again[flow] - 1, psn) == 1)
		judge(n, "sent again", "as #" before)
		why_again(before, answered[flow, psn], first)
		again[flow] = psn + 1
	} else {
		if (distance(newest[flow], psn) < 0)
			judge(n, "late", "out of order")
		again[flow] = 0
	}
	if (distance(newest[flow], psn) > 0)
		newest[flow] = psn
	latest[flow, psn] = n
}

# Request number n repeats that of number `before`, whose newest answer is of number m, if it has one.
function why_again(before, m, first) {
	if (m && fate[m] == "refused")
		return
	if (!m) {
		if (first)
			judge(before, missed, "no answer in time; #" n " asks again")
	} else if (arrival(order[m]) > departure(order[n]))
		judge(m, "late", "on its way when #" n " asked again")
	else if (first) {
		missing = m
		judge(m, missed, "not in time to rxe; #" n " asks again")
	} else if (fate[m] == "ok")
		judge(m, "discarded", "#" missing " was missing")
}

# To which requests does it belong?  A response has the number of the other QP.  When that is new, its
# requests are those of the newest QP, of those without one, whose PSNs are near.
function flow_of_response(	list, i, best) {
	if ((destination, source, boot[source], qp) in flow_of)
		return flow_of[destination, source, boot[source], qp]
	for (i = split(flows[destination, source, boot[source]], list, SUBSEP); i > 1; i--)
		if (!(list[i] in taken) && (best == "" || near(list[i]) < near(best)))
			best = list[i]
	taken[best]
	return flow_of[destination, source, boot[source], qp] = best
}

function near(flow,	d) {
	d = distance(newest[flow], psn)
	return d < 0 ? -d : d
}

function response(	flow, before) {
	flow = flow_of_response()
	connection[n] = qp_of[flow]
	before = answers[flow, opcode, psn]
	if (syndrome + 0 >= 32)
		judge(n, "refused", "")
	else if (before)
		judge(n, "answered again", "as #" before)
	if ((flow, psn) in latest)
		detail[n] = "for " name_of[latest[flow, psn]] ", " detail[n]
	answers[flow, opcode, psn] = n
	answered[flow, psn] = n
}

function cut_power(	line, list, gone, i) {
	while ((getline line < lost_file) > 0)
		for (i = split(line, list, ","); i; i--)
			gone[list[i]]
	for (n = 1; n <= packets; n++) {
		if (!((power, order[n]) in frame) || frame[power, order[n]] + 0 > cut)
			left_out[n]
		else if (frame[power, order[n]] in gone)
			judge(n, "gone", "lost with the power")
	}
}

# A request that was sent again keeps its remark.  The first packet of a long request gets the line, and so does each
# packet that is lost.
function name_lines(	line, at, where, psn, key) {
	while ((getline line < lines_file) > 0) {
		at = index(line, " ")
		at += index(substr(line, at + 1), " ")
		where[substr(line, 1, at - 1)] = substr(line, at + 1)
	}
	for (n = 1; n <= packets; n++) {
		if (from[n] != 1 || fate[n] != "ok" && fate[n] != "gone")
			continue
		psn = psn_of[n]
		if (fate[n] == "gone" && name_of[n] ~ / (MIDDLE|LAST)/)
			for (at = 0; at < 4096 && !((connection[n] " " psn) in where); at++)
				psn = (psn + PSNS - 1) % PSNS
		key = connection[n] " " psn
		if (key in where)
			remark[n] = (remark[n] == "" ? "" : remark[n] ", ") where[key]
	}
}

function print_all() {
	gsub(/ /, OFS, ends)
	print ends
	for (n = 1; n <= packets; n++)
		if (!(n in left_out))
			print n, sprintf("%.3f", (left_at[order[n]] - left_at[order[1]]) * 1000), from[n], to[n],
			(connections > 1 ? "qp " connection[n] " " : "") name_of[n], psn_of[n], detail[n], fate[n], remark[n]
}
