# SPDX-License-Identifier: GPL-2.0
#
# packets.awk CASES PACKETS: what a capture says of each case, in their order, as JSON.
#
#	CASES	a line each: the client's QP, the target's QP, the requests of an append, the appends to warm up
#	PACKETS	a line each: the sender's address, destination QP, opcode, PSN, bytes of the frame
#
# The appends to warm up do not count.  What was sent again counts only as that.  An append has one round trip, and
# one more for each request that left only after the one before it was answered.  Packets and round trips are the
# median of all appends, and the most.

BEGIN {
	target = "192.0.2.1"
	client = "192.0.2.2"
	# First packets or only ones: of SEND, of WRITE, with an immediate, too, READ, FLUSH, ATOMIC WRITE.  READ RESPONSEs and ACK
	split("0 4 6 10 11 12 28 29", list); for (i in list) is_request[list[i]]
	split("13 14 15 16 17", list); for (i in list) is_answer[list[i]]
}

NR == FNR {
	case_of[target, $1] = case_of[client, $2] = cases = FNR
	requests_of[FNR] = $3
	warm_up[FNR] = $4
	next
}

!(($1, $2) in case_of) { next }
{ it = case_of[$1, $2] }
($1, it, $3, $4) in seen { again[it]++; next }
{ seen[$1, it, $3, $4] }

$1 == target && $3 in is_answer { answered[it, $4] }

$1 == client && $3 in is_request {
	n = requests[it]++
	nth = n % requests_of[it]
	newest[it] = int(n / requests_of[it])
	if (!nth || (it, $4 - 1) in answered)
		trips[it, newest[it]]++
}

# An answer of the target is of the append whose request it answers; all else is of the newest.
{ append = newest[it] }
$1 == client && !($3 in is_answer) { append_of[it, $4] = append }
$1 == target && $3 in is_answer && (it, $4) in append_of { append = append_of[it, $4] }
append >= warm_up[it] { packets[it, append]++; bytes[it] += $5 }

# count(WHAT, N): one more append has N of WHAT
function count(what, n) {
	appends_with[what, n]++
	if (n > most[what])
		most[what] = n
}

function median_of(what, appends,   n, sum) {
	for (n = 0; (sum += appends_with[what, n]) * 2 < appends; n++)
		;
	return n
}

END {
	for (it = 1; it <= cases; it++) {
		delete appends_with
		delete most
		appends = sum = 0
		for (n = warm_up[it]; n <= newest[it]; n++) {
			appends++
			sum += packets[it, n]
			count("packets", packets[it, n])
			count("trips", trips[it, n])
		}
		if (!appends) {
			print "{}"
			continue
		}
		printf "{\"packets\": %d, \"packets_mean\": %.4f, \"packets_most\": %d, \"bytes\": %.2f, ",
			median_of("packets", appends), sum / appends, most["packets"], bytes[it] / appends
		printf "\"sent_again\": %d, \"round_trips\": %d, \"round_trips_most\": %d}\n", again[it],
			median_of("trips", appends), most["trips"]
	}
}
