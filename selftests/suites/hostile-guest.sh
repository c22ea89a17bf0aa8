#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # many words here are for the guest's shell, or for the host's to evaluate if it is careless
#
# A guest cannot harm its host: whatever its command writes to the control port, or to the file of events, the host runs
# nothing of it, writes nothing but the run's files, says that it dropped something, and goes on.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/lab-runs.sh
. "$here/../lab-runs.sh"

# The command cannot open the port, which guest/session has; so it takes that descriptor, 3 of process 1.
make_say() {
	cat >"$work/say" <<-'END'
		#!/usr/bin/perl
		use strict;
		my ($pidfd_open, $pidfd_getfd) = (434, 438);
		my $fd = syscall($pidfd_getfd, syscall($pidfd_open, 1, 0), 3, 0);
		die "no control port" if $fd < 0;
		open(my $port, ">&=", $fd) or die;
		my $words;
		while (sysread(STDIN, $words, 65536)) {
			syswrite($port, $words) or die;
		}
	END
	chmod +x "$work/say"
}

# words GUEST...: lines that a guest may say, each also with these names in front, as if another one said it.  If
# something of them is evaluated, that makes a file in $work/harm.
words() {
	local evil line guest
	for evil in '$(touch${IFS}HARM)' '`touch${IFS}HARM`' 'x[$(touch${IFS}HARM)]' 'x[`touch${IFS}HARM`]' 'x[0$(touch${IFS}HARM)]' \
		'$((x[$(touch${IFS}HARM)]))' "';touch\${IFS}HARM;'" '";touch${IFS}HARM;"' '../harm/HARM' '../../harm' /tmp/x '*' '?' '~' '!!' \
		-1 -0 0 08 010 0x1 1e3 9 99 256 4294967297 18446744073709551617 1x '1 2' '1;2' @ -n -e '%s%n' '\n' '\x41' '{"QMP"' '{}' '|'; do
		for line in "$evil" "$evil gone" "$evil memory region 1" "$evil exit 0" "$evil ready" "memory $evil" "posted $evil" "posted site 1.0 /$evil" "kill-server $evil" \
			"start-server $evil" "exit x$evil" "ready $evil" "started $evil" "shell-ended $evil" "frob $evil"; do
			printf '%s\n' "$line"
			for guest; do
				printf '%s\n' "$guest $line"
			done
		done
	done | sed "s|HARM|$work/harm/file|"
	for guest in "$@" hub server client client1 server1 server2.2 ../guest; do
		printf "$guest %s\n" gone 'exit 0' 'exit 9' ready 'fail it' started 'memory region 1 2' 'kill-server 1'
	done
	printf '\n \n\t\nmemory region \033[31m\nfail\nfail \a\nexit\0\n'
	head -c 100000 /dev/zero | tr '\0' x
	printf '\nexit %s\n' "$(head -c 5000 /dev/zero | tr '\0' 0)"
	head -c 20000 /dev/urandom
	printf '\n'
}

# by_events: what guest/session passes on of it when it comes by the file of events.  (The end of the command ends more.)
by_events() { grep -a '^\(kill\|start\)-server [^ ]*$' "$work/words"; }

# What guests run to say all these words.
say='"$WORK/say" <"$WORK/words" && cat "$WORK/events" >/run/rxe-vm/events'

# hostile GUEST,... STATUS ARG...: runs these guests, which say such words, and looks at the host
hostile() {
	local failed=
	make_say
	mkdir -p "$work/harm" "$work/here/out"
	RXE_OUT=$work/here/out
	# shellcheck disable=SC2086 # names
	words ${1//,/ } >"$work/words"
	by_events >"$work/events"
	[[ -s $work/events ]] || fail "no words"
	# What was done to the host comes first, whatever the status.
	(lab "${@:2}") || failed=1
	[[ -z $(ls "$work/harm") ]] || fail "a command ran on the host"
	run=$(newest_run)
	[[ $(find "$work/here" -mindepth 1 -maxdepth 2 ! -path "$run" ! -name latest) == "$work/here/out" ]] ||
		fail "left outside of the run's folder: $(find "$work/here" -mindepth 1 -maxdepth 2)"
	[[ -z $failed ]] || exit 1
	stdout=$(<"$work/stdout")
}

# only_its_files GUEST...: nothing is in the run's folder that an honest run would not have
only_its_files() {
	local guest names='latest\|verdict\|result\.json'
	for guest in "$@" hub; do
		names+="\|$guest\(\.[2-9]\)\?\.\(console\|env\|pcap\|qemu\|qemu\.log\|qemu\.resets\|stdout\|stderr\)"
	done
	! find "$run" -mindepth 1 -printf '%P\n' | grep -vx -e "$names" || fail "these are no files of a run"
}

# dropped GUEST: the run's log says so, in one line
dropped() {
	local -i n
	n=$(grep -c "^rxe-vm: $1: dropped [1-9][0-9]* of the lines that it said" "$work/stderr") || true
	((n == 1)) || fail "$n lines say that something of $1 was dropped"
	(($(wc -l <"$work/stderr") < 30)) || fail "a line for each"
}

one_guest_cannot_harm_the_host() {
	hostile guest 7 run -- sh -c "WORK=$work; $say; echo said; exit 7"
	[[ $stdout == said ]] || fail "not all was said"
	dropped guest
	only_its_files guest
	verdict_is "fail: the command ended with status 7"
}

a_pair_cannot_harm_the_host() {
	hostile server,client 0 pair --server "WORK=$work; $say; rxe-ready; exec sleep 1000" \
		--client "WORK=$work; $say; busybox ping -c 1 -W 20 \$RXE_PEER_ADDR >/dev/null && rxe-kill-server &&
			! busybox ping -c 1 -W 2 \$RXE_PEER_ADDR >/dev/null && echo honest"
	[[ $stdout == honest ]] || fail "what came after it was not heard"
	dropped server
	dropped client
	only_its_files server client
	verdict_is pass
}

a_group_cannot_harm_the_host() {
	hostile server1,client1 0 group --server "WORK=$work; $say; rxe-ready; exec sleep 1000" --kill-server \
		--client "WORK=$work; $say; rxe-kill-server 1 && rxe-start-server 1 && echo honest"
	[[ $stdout == honest ]] || fail "what came after it was not heard"
	dropped server1
	dropped server1.2
	dropped client1
	only_its_files server1 client1
	verdict_is pass
}

# It says what is known, again and again, and does not read the answers; its command does not end.
a_flood_does_not_outlast_the_deadline() {
	local -i start=$SECONDS
	make_say
	printf 'start-server 1\n%.0s' {1..30000} >"$work/flood"
	lab 3 group --timeout 100 --server 'rxe-ready; exec sleep 1000' \
		--client "pkill -STOP -x cat; $work/say <$work/flood; sleep 1000"
	says deadline
	dropped client1
	((SECONDS - start < 160 * scale)) || fail "it took $((SECONDS - start)) s"
}

# Its command can forge its own verdict only.
an_end_that_is_none_is_lost() {
	lab 3 run --timeout 100 -- sh -c 'echo "ended x[\$(touch $1/harm)]" >/run/rxe-vm/events; sleep 1000' sh "$work"
	[[ ! -e $work/harm ]] || fail "a command ran on the host"
	dropped guest
	verdict_is lost
}

# Without a guest: what the parser and the event loop make of any line
random_lines_are_words_or_dropped() {
	mkdir "$work/lines"
	"$here/../control-port-fuzz" "$work/lines" 100000 "$seed" || fail "with SEED=$seed"
}

cases=(
	random_lines_are_words_or_dropped
	a_group_cannot_harm_the_host
	a_pair_cannot_harm_the_host
	one_guest_cannot_harm_the_host
)
long_cases=(
	a_flood_does_not_outlast_the_deadline
	an_end_that_is_none_is_lost
)
run_suite 2 "$@"
