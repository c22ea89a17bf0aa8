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

# ask WORD ARG...: lets the target run on_WORD ARG..., and prints what that prints; fails as it does.
ask() {
	local -a answer
	echo "$*" >"$share/question.new"
	sync "$share/question.new"
	mv "$share/question.new" "$share/question"
	until [[ -e $share/answer ]]; do sleep 0.2; done
	mapfile -t answer <"$share/answer"
	rm "$share/answer"
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
		"on_${words[0]}" "${words[@]:1}" >"$share/answer.new" || status=$?
		echo "$status" >>"$share/answer.new"
		sync "$share/answer.new"
		mv "$share/answer.new" "$share/answer"
	done
}

# sum_of FILE MIB: of its first MiB, as they are in memory
sum_of() {
	local direct=()
	[[ ! -b $1 ]] || direct=(iflag=direct)
	dd if="$1" bs=1M count="$2" "${direct[@]}" status=none | sha256sum
}

# The target may be ready for rxe-vm, which sees it listen, before it answers.
await_target() { until [[ -e $share/ready ]]; do sleep 0.2; done; }

##############################################################################
# Load and faults

# verify FILE [OPTION...]: fio writes to 14 MiB of it in small, medium and large blocks at once, and reads them back.
verify() {
	local report
	report=$(mktemp -p "$tally")
	fio --output="$report" --output-format=json --filename="$1" --ioengine=libaio --iodepth=8 --direct=1 --rw=randwrite \
		--verify=crc32c --verify_fatal=1 --do_verify=1 --randrepeat=0 "${@:2}" \
		--name=small --bs=4k --size=2m --name=medium --bs=16k --offset=4m --size=4m \
		--name=large --bs=256k --offset=12m --size=8m ||
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
	head -c 8M /dev/urandom >"$tally/random"
	sum=$(sha256sum <"$tally/random")
	dd if="$tally/random" of="$1" bs=128k oflag=direct status=none
	same "read again" "$(dd if="$1" bs=64k count=128 iflag=direct status=none | sha256sum)" "$sum"
	same "at the target" "$(ask sum "$2" 8)" "$sum"
	count_bytes $((8 << 20))
}

# start_load FILE [OPTION...]: verify again and again until finish_load, which fails if one failed.
start_load() {
	rm -f "$tally/stop"
	(
		set -e
		rounds=0
		until [[ -e $tally/stop ]]; do
			verify "$@"
			rounds=$((rounds + 1))
		done
		echo "# the load was verified $rounds times"
	) >"$tally/load" 2>&1 &
	load=$!
	sleep 3
}

finish_load() {
	local status=0
	touch "$tally/stop"
	wait "$load" || status=$?
	cat "$tally/load"
	return "$status"
}

# start_traffic FILE [OPTION...]: reads and writes, which are to fail; $load is the process, and all of it
start_traffic() {
	fio --filename="$1" "${@:2}" --thread --ioengine=libaio --iodepth=16 --direct=1 --rw=randrw --bsrange=4k-128k \
		--time_based --runtime=3600 --name=traffic >"$tally/traffic" 2>&1 &
	load=$!
}

# The peer sees a cable without a signal; this guest's device has no link.
link_is_down_for_20_s() {
	ip link set eth0 down
	sleep 20
	ip link set eth0 up
}

# Nothing that this guest sends arrives.
nothing_arrives_for_20_s() {
	tc qdisc add dev eth0 root netem loss 100%
	sleep 20
	tc qdisc del dev eth0 root
}

start_loss() { tc qdisc add dev eth0 root netem loss "$1"; }
stop_loss() { tc qdisc del dev eth0 root; }

# within SECONDS CMD...: until it succeeds
within() {
	local -i left=$(($1 * ${KSFT_TIMEOUT_SCALE:-1}))
	until "${@:2}"; do
		((left-- > 0)) || { echo "not within $1 s: ${*:2}"; return 1; }
		sleep 1
	done
}

# same WHAT TEXT TEXT
same() { [[ $2 == "$3" ]] || { echo "$1: $2 is not $3"; return 1; }; }

# fails CMD...: for `set -e`, which takes no notice of what follows a `!`
fails() {
	! "$@" || { echo "did not fail: $*"; return 1; }
}

# What a protocol has registered, it has given back.
nothing_is_registered() { rdma resource show | grep -q 'rxe0:.* mr 0 '; }
everything_is_given_back() {
	within 60 nothing_is_registered || { rdma resource show; return 1; }
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

# run_scenarios PATTERN...: `reconnects` says how often it has connected again, `clean_up` ends what a scenario has left.
run_scenarios() {
	local name status start
	local -a wanted=()
	local -i n=0 failed=0
	for name in "${scenarios[@]}"; do
		! matches "$name" "$@" || wanted+=("$name")
	done
	echo "KTAP version 1"
	echo "1..${#wanted[@]}"
	for name in "${wanted[@]}"; do
		n+=1 start=$SECONDS
		# `||` would switch off `set -e`.
		(set -eE; trap 'echo "failed: $BASH_COMMAND"' ERR; "$name") >"$tally/log" 2>&1
		status=$?
		if ((status)); then
			failed=1
			sed 's/^\(# \)\?/# /' "$tally/log"
			dmesg | tail -n 20 | sed 's/^/# /'
			clean_up >/dev/null 2>&1
			renew_link
			echo -n "not "
		else
			grep '^#' "$tally/log"
		fi
		echo "ok $n ${name//_/ } # $((SECONDS - start)) s"
	done
	echo "# verified $(($(<"$tally/bytes") / 1048576)) MiB, reconnected $(reconnects) times"
	return "$failed"
}
