# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # the initiators set scenarios
#
# Shared by the initiators and targets of the suite ulps.  These run in guests:
#
#	PROTOCOL-target SHARE DRIVER
#	PROTOCOL-initiator SHARE DRIVER [PATTERN...]	prints KTAP: a result for each of scenarios=(), or those that match
#
# SHARE is a folder of the host that both have.  DRIVER is what rdma_rxe has to be: stock, fixed by the package, or of
# a kernel with the series.
# A scenario is a function, which runs in a process of its own with `set -e`.

share=$1 driver=$2
shift 2
tally=$(mktemp -d)
echo 0 >"$tally/bytes"
echo 0 >"$tally/renewals"

die() { echo "${0##*/}: $*" >&2; exit 1; }

mount_configfs() {
	modprobe configfs
	mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
}

# A module that is not of this kernel's package taints the kernel.
check_driver() {
	local is=stock
	[[ $(uname -r) != *-rxe-mpe ]] || is=series
	[[ $(</sys/module/rdma_rxe/taint) != *O* ]] || is=fixed
	[[ $is == "$driver" ]] || die "rdma_rxe is the $is one, not the $driver one"
	echo "# ${0##*/}: Linux $(uname -r), $driver rdma_rxe"
}

##############################################################################
# The initiator asks the target for what only the target can do or see.

# ask WORD ARG...: lets the target run on_WORD ARG..., and prints what that prints; fails as it does, or if it does not
# answer in time.  The answer has the name of the question, so it is no late one to an earlier question.
ask() {
	local name=$EPOCHREALTIME
	local -a answer
	echo "$name $*" >"$share/question.new"
	sync "$share/question.new"
	mv "$share/question.new" "$share/question"
	within 60 test -e "$share/answer.$name" || { echo "the target does not answer: $*" >&2; return 1; }
	mapfile -t answer <"$share/answer.$name"
	rm "$share/answer.$name"
	((${#answer[@]} < 2)) || printf '%s\n' "${answer[@]::${#answer[@]}-1}"
	return "${answer[-1]}"
}

# The target: for as long as it lives.  What a power cut left of a question is gone with it.
answer_questions() {
	local words status
	rm -f "$share"/{question,answer}*
	touch "$share/ready"
	rxe-ready
	while sleep 0.2; do
		[[ -e $share/question ]] || continue
		read -ra words <"$share/question"
		rm "$share/question"
		status=0
		"on_${words[1]}" "${words[@]:2}" >"$share/answer.new" || status=$?
		echo "$status" >>"$share/answer.new"
		sync "$share/answer.new"
		mv "$share/answer.new" "$share/answer.${words[0]}"
	done
}

on_resources() { resources; }

# sum_of FILE MIB: of its first MiB, as they are in memory
sum_of() {
	local direct=()
	[[ ! -b $1 ]] || direct=(iflag=direct)
	dd if="$1" bs=1M count="$2" "${direct[@]}" status=none | sum
}

# sum: of what it reads; prints nothing if that is nothing
sum() { sha256sum | grep -v ^e3b0c44298fc1c149afbf4c8996fb924; }

# The target may be ready for rxe-vm, which sees it listen, before it answers.
await_target() { within 120 test -e "$share/ready" || die "the target is not ready: see what it said"; }

##############################################################################
# Load and faults

# How much data there is to verify: 8 MiB for a comparison, and more for fio in proportion.
mib=${MIB:-8}

# verify FILE [OPTION...]: fio writes to it in small, medium and large blocks at once, 14 MiB in all unless MIB says less, and
# reads them back.
verify() {
	local report
	report=$(mktemp -p "$tally")
	fio --output="$report" --output-format=json --filename="$1" --thread --ioengine=libaio --iodepth=8 --direct=1 \
		--rw=randwrite --verify=crc32c --verify_fatal=1 --do_verify=1 --randrepeat=0 "${@:2}" \
		--name=small --bs=4k --size=$((mib * 256))k --name=medium --bs=16k --offset=4m --size=$((mib * 512))k \
		--name=large --bs=256k --offset=12m --size="${mib}m" ||
		{ grep -v '^[{} ]' "$report"; return 1; }
	count_bytes "$(jq '[.jobs[].read.io_bytes] | add' "$report")"
}

# count_bytes N: so many more were written, and found to be right
count_bytes() {
	(($1 > 0))
	exec {lock}>"$tally/lock"
	flock "$lock"
	echo $(($(<"$tally/bytes") + $1)) >"$tally/bytes"
	exec {lock}>&-
}

# same_at_both_ends DEVICE BACKING: random bytes that this end writes are in the target's memory, and can be read again.
same_at_both_ends() {
	local sum
	head -c "${mib}M" /dev/urandom >"$tally/random"
	sum=$(sum <"$tally/random")
	dd if="$tally/random" of="$1" bs=128k oflag=direct status=none
	same "read again" "$(dd if="$1" bs=64k count=$((mib * 16)) iflag=direct status=none | sum)" "$sum"
	same "at the target" "$(ask sum "$2" "$mib")" "$sum"
	count_bytes $((mib << 20))
}

# start_load FILE [OPTION...]: verify again and again until finish_load, which fails if one failed.
start_load() {
	rm -f "$tally/stop"
	in_background verify_until_stopped "$@"
	await_load
}

verify_until_stopped() {
	local -i rounds=0
	set -e
	until [[ -e $tally/stop ]]; do
		verify "$@"
		rounds+=1
	done
	echo "# the load was verified $rounds times"
}

finish_load() {
	local status=0
	touch "$tally/stop"
	within 180 load_is_over || status=1
	((status)) || wait "$load" || status=$?
	cat "$tally/load"
	return "$status"
}

# start_traffic FILE [OPTION...]: reads and writes, which are to fail
start_traffic() {
	in_background fio --filename="$1" "${@:2}" --thread --ioengine=libaio --iodepth=16 --direct=1 --rw=randrw \
		--bsrange=4k-128k --time_based --runtime=3600 --name=traffic
	await_load
}

traffic_fails() {
	within 60 load_is_over
	fails wait "$load"
}

# in_group LOG CMD...: sets group to the process, which has a process group of this number
in_group() {
	set -m
	"${@:2}" >"$1" 2>&1 &
	set +m
	group=$!
}

# in_background CMD...: sets load to the process, and writes to $tally/load.
in_background() {
	in_group "$tally/load" "$@"
	load=$group
	echo "$load" >"$tally/pid"
}

# end_load: of a scenario that failed, with all of its processes, if it has a load
end_load() { [[ ! -e $tally/pid ]] || kill -9 -- "-$(<"$tally/pid")"; }

load_is_over() { is_over "$load"; }
is_over() { ! kill -0 "$1" 2>/dev/null; }

# await_load: until the load has moved another MiB over the link; fails if it has ended.
await_load() {
	within 60 is_over_or_has_moved $(($(link_bytes) + (1 << 20)))
	! load_is_over || { echo "the load has ended:"; cat "$tally/load"; return 1; }
}
is_over_or_has_moved() { load_is_over || (($(link_bytes) >= $1)); }
link_bytes() { echo $(($(</sys/class/net/eth0/statistics/rx_bytes) + $(</sys/class/net/eth0/statistics/tx_bytes))); }

# connections: the numbers of the connected QPs.  Each new QP has another one.
connections() { rdma resource show qp | awk '/ type RC state RTS / { print $4 }' | sort; }

# is_lost CONNECTIONS: one of these has ended, as this end knows.
is_lost() { [[ $(comm -23 <(echo "$1") <(connections)) ]]; }

# await_renewal CONNECTIONS: until there are as many as these were, and none of these
await_renewal() {
	within 60 is_renewed "$1"
	echo $(($(<"$tally/renewals") + 1)) >"$tally/renewals"
}
is_renewed() {
	local now
	now=$(connections)
	[[ $1 && $now && $(wc -l <<<"$now") == "$(wc -l <<<"$1")" && -z $(comm -12 <(echo "$1") <(echo "$now")) ]]
}

# This guest's device has no link.  It has to notice that, and connect again; then the load goes on.
link_is_down_for_20_s() {
	local before
	before=$(connections)
	ip link set eth0 down
	sleep 20
	within 60 is_lost "$before"
	ip link set eth0 up
	await_renewal "$before"
	await_load
}

# Nothing that this guest sends arrives.
nothing_arrives_for_20_s() {
	local before
	before=$(connections)
	start_loss 100%
	sleep 20
	within 60 is_lost "$before"
	stop_loss
	await_renewal "$before"
	await_load
}

# verify_with_lost_packets FILE: the connections stay, because the driver sends again what is lost.
verify_with_lost_packets() {
	local before
	before=$(connections)
	start_loss 1%
	verify "$1"
	stop_loss
	same "the connections" "$(connections)" "$before"
}

start_loss() { tc qdisc add dev eth0 root netem loss "$1"; }
# stop_loss: some packets were lost.
stop_loss() {
	tc -s qdisc show dev eth0 | grep 'dropped [1-9]'
	tc qdisc del dev eth0 root
}

# within SECONDS CMD...: until it succeeds
within() {
	local -i end=$((SECONDS + $1 * ${KSFT_TIMEOUT_SCALE:-1}))
	until "${@:2}"; do
		((SECONDS < end)) || { echo "not within $1 s: ${*:2}" >&2; return 1; }
		sleep 0.2
	done
}

# same WHAT TEXT TEXT
same() { [[ $2 && $2 == "$3" ]] || { echo "$1: '$2' is not '$3'"; return 1; }; }

# fails CMD...: for `set -e`, which takes no notice of what follows a `!`
fails() {
	! "$@" || { echo "did not fail: $*"; return 1; }
}

# resources: how many objects of each kind rxe0 has, one line.  CQs that the kernel pools stay when nothing uses them.
resources() {
	echo "$(rdma resource show | sed -n 's/.*rxe0: //p' | sed 's/cq [0-9]* //')used cq $(
		rdma resource show cq | grep -vc ' users 0 ')"
}
resources_of_both() { echo "here: $(resources), at the target: $(ask resources)"; }

# What the protocol has taken, both ends have given back.  `had` is what they had before; they may have less if an earlier
# scenario has failed.
everything_is_given_back() {
	within 60 have_no_more || { printf '%s\n' "before: $had" "now: $(resources_of_both)"; return 1; }
}
have_no_more() {
	awk -v had="$had" -v have="$(resources_of_both)" 'BEGIN {
		more = split(had, before) != split(have, now)
		for (i in before)
			more += now[i] + 0 > before[i] + 0
		exit more
	}'
}

##############################################################################
# KTAP

# matches NAME PATTERN...
matches() {
	local pattern
	(($# > 1)) || return 0
	for pattern in "${@:2}"; do
		# shellcheck disable=SC2053 # a pattern
		[[ $1 != $pattern ]] || return 0
	done
	return 1
}

# renew_link: after a scenario that failed, whose link may be down still, or whose device may not connect any more
renew_link() {
	tc qdisc del dev eth0 root
	ip link set eth0 up
	rdma link delete rxe0
	rdma link add rxe0 type rxe netdev eth0
} 2>/dev/null

# run_scenarios PATTERN...: `clean_up` ends what a scenario has left that failed.
run_scenarios() {
	local name status start had group
	local protocol=${0##*/}
	protocol=${protocol%-*}
	local -a wanted=()
	local -i n=0 failed=0 unusable=0
	for name in "${scenarios[@]}"; do
		! matches "$name" "$@" || wanted+=("$name")
	done
	had=$(resources_of_both)
	echo "KTAP version 1"
	echo "1..${#wanted[@]}"
	for name in "${wanted[@]}"; do
		n+=1 start=$SECONDS
		if ((unusable)); then
			echo "not ok $n $protocol: ${name//_/ } # not run: what the one before has left does not end"
			continue
		fi
		rm -f "$tally/pid"
		in_group "$tally/log" run_scenario "$name"
		status=0
		end_of_scenario "$group" >>"$tally/log" 2>&1 || status=$?
		if ((status)); then
			failed=1
			sed 's/^\(# \)\?/# /' "$tally/log"
			dmesg | tail -n 20 | sed 's/^/# /'
			restore >/dev/null 2>&1 || unusable=1
			echo -n "not "
		else
			grep '^#' "$tally/log"
		fi
		echo "ok $n $protocol: ${name//_/ } # $((SECONDS - start)) s"
	done
	echo "# verified $(($(<"$tally/bytes") / 1048576)) MiB, connected again $(<"$tally/renewals") times"
	return "$failed"
}

run_scenario() {
	set -eE
	trap 'echo "failed: $BASH_COMMAND"' ERR
	"$1"
}

# end_of_scenario GROUP: its status.  One that takes longer than ten minutes, where two are usual, hangs.  It is killed,
# and the stacks tell where the kernel keeps what does not end.
end_of_scenario() {
	local task
	if within 600 is_over "$1"; then
		wait "$1"
		return
	fi
	for task in /proc/[0-9]*; do
		grep -qs '^State:.D' "$task/status" || continue
		echo "${task#/proc/} ($(<"$task/comm")) waits in:"
		cat "$task/stack"
	done
	disown "$1"
	kill -9 -- "-$1"
	return 1
}

# restore: after a scenario that failed.  It has a minute: a task that hangs for two is trouble of the kernel, which no
# list of known failures excuses.  What the target keeps is no fault of the next scenario.
restore() {
	local process
	end_load
	{ clean_up; renew_link; } &
	process=$!
	KSFT_TIMEOUT_SCALE=1 within 60 is_over "$process" || return
	within 60 have_no_more || had=$(resources_of_both)
}
