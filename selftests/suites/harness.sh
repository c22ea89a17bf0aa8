#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # many words here are for the guest's shell
#
# Tests of what judges the others: run-tests and ktap-count, the search for kernel warnings, the usage of rxe-vm,
# the action rxe-pair, what `make` shows and refuses, `make clean`, the nightly; and of what keeps the patches, scripts/series.
# They boot no guest.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"
# shellcheck source=selftests/lab-runs.sh
. "$here/../lab-runs.sh"

listed_results_are_as_listed() {
	local want body got
	cat >"$work/expected" <<-'END'
		# comment
		skip this a.skip no hardware
		fail this a.bug not mended yet
		skip other b.skip no hardware
	END
	while IFS='|' read -r want body; do
		got=$(printf '%b\n' "$body" | "$here/../ktap-count" -v suite=this -v expected="$work/expected") || true
		echo "$body: $got"
		[[ $got == "$want" ]] || fail "not: $want"
	done <<-'END'
		0 0 1|1..1\nok 1 a skip # SKIP
		0 1 0|1..1\nok 1 b skip # SKIP
		0 0 1|1..1\nnot ok 1 a bug
		0 1 0|1..1\nnot ok 1 a bug # took the guest down
		0 1 0|1..1\nok 1 a bug
		0 1 0|1..1\nnot ok 1 b
		0 0 1|1..1\n  1..1\n  not ok 1 a bug\nnot ok 1 parent
	END
	echo "skip this a.skip" >"$work/expected"
	got=$(echo 1..1 | "$here/../ktap-count" -v expected="$work/expected" 2>&1) && fail "a line without a reason passes"
	[[ $got == *"no reason"* ]] || fail "it says: $got"
}

a_suite_that_passes_results_on_judges_them() {
	judged printf '1..1\nok 1 a\n' || fail "a result that passed"
	! judged printf '1..1\nnot ok 1 a\n' || fail "a failed result passes"
	! judged printf '1..2\nok 1 a\n' || fail "a missing result passes"
	! judged sh -c 'echo 1..1; echo ok 1 a; exit 3' || fail "a failed command passes"
}

# A suite of four cases, asked in each way that ktap.sh describes
a_suite_runs_what_it_is_asked_for() {
	local want arguments said
	mkdir "$work/out"
	cat >"$work/suite" <<-END
		#!/usr/bin/env bash
		set -euo pipefail
		. "$root/selftests/ktap.sh"
		option() { [[ \$1 == --key ]] && words=2; }
		passes() { nested printf '%s\n' "1..\$((\$# ? 1 : 2))" "ok 1 \${1:-first}" \${1-"ok 2 second"}; }
		fails_inside() { nested printf '1..1\nnot ok 1 it\n'; }
		skips() { echo "not here"; exit 4; }
		takes_long() { fail "it is broken"; }
		cases=(passes fails_inside skips) long_cases=(takes_long) smoke_cases=(passes)
		run_suite 1 "\$@"
	END
	chmod +x "$work/suite"
	while IFS='|' read -r arguments want; do
		# shellcheck disable=SC2086 # words
		said=$(RXE_OUT=$work/out "$work/suite" $arguments 2>&1 && echo 0 || echo "$?")
		said=$(grep -v '^KTAP\|^# ' <<<"$said" | sed 's/^    /+/' | paste -sd ';')
		[[ $said == "$want" ]] || fail "$arguments: $said"
	done <<-'END'
		--list|passes;fails_inside;skips;takes_long;0
		--list --smoke|passes;0
		--list *s_*|fails_inside;takes_long;0
		--smoke|1..1;+1..2;+ok 1 first;+ok 2 second;ok 1 passes;0
		--key word pass*/x|1..1;+1..1;+ok 1 x;ok 1 passes;0
		skips takes_*|1..2;ok 1 skips # SKIP not here;not ok 2 takes long # status 1;1
		fails*|1..1;+1..1;+not ok 1 it;not ok 1 fails inside # status 1;1
		--do takes_long|it is broken;1
		typo|suite: error: no case matches 'typo': choose of suite --list;2
		--typo|suite: error: unknown option --typo;2
	END
	[[ -z $(ls "$work/out") ]] || fail "left: $(ls "$work/out")"
}

# A line of a kernel's log, behind + if it tells of trouble, behind - if it does not.
splats_are_found() {
	local kind line
	grep '^[+-] ' "$here/data/kernel-lines" >"$work/lines"
	while read -r kind line; do
		printf '%s\n' "$line" >"$work/console"
		if "$root/qemu-scripts/find-splats" "$work/console" >/dev/null; then
			[[ $kind == + ]] || fail "taken for trouble: $line"
		else
			[[ $kind == - ]] || fail "not found: $line"
		fi
	done <"$work/lines"
}

# Suites that print what they are told, and a kernel that is not booted.
stub_judge() {
	local word
	mkdir -p "$work/lab/scripts" "$work/lab/selftests/suites" "$work/lab/build/selftests"
	touch "$work/lab/build/selftests/rxe_conformance" "$work/lab/Makefile"
	cp -r "$root/qemu-scripts" "$work/lab"
	{ head -c 514 /dev/zero; printf 'HdrS\0\0\0\0\0\0\0\0\020\0009.1-stub\0'; } >"$work/lab/image"
	record() {
		printf '{"subject":"%s","who":"%s","was":"It harms.","cases":"%s","before":"%s","evidence":"","upstream":[],' "$@"
		printf '"patches":{"v9.1":["kernel/v9.1/%s.patch"]},"answers":{"v9.1":"%s"}}' "$1" "${answer:-fixed}"
	}
	{
		echo '#!/bin/sh'
		echo "cat <<'END'"
		echo "[$(record behind 'a local user' 'hostile: wqes/behind' fails)"
		echo ",$(answer='not there: It is newer.' record newer 'a local user' 'hostile: wqes/behind' fails)"
		echo ",$(answer='fixed, not shown: It is slow.' record slow 'a local user' 'hostile: wqes/behind' fails)"
		for word in "before|a local user|hostile: wqes/before|fails" "skips|a peer|conformance: skips|fails" \
			"warns|a peer|churn: warns|warns" "passes|any host|conformance --legacy-icrc: passes.*|crashes" \
			"crashes|any host|conformance --legacy-icrc: crashes|crashes" "module|a peer|module: it|fails" \
			"unseen|any host||" "fails|retries|conformance --flushes-refused: fails.*|fails" "begins|retries|begins: begins|crashes" \
			"late|a local user|hangs: late|crashes" "hangs|a local user|hangs: hangs|hangs" \
			"other|retries|churn: other|fails"; do
			IFS='|' read -ra word <<<"$word"
			echo ",$(record "${word[0]}" "${word[1]}" "${word[2]-}" "${word[3]-}")"
		done
		printf ']\nEND\n'
	} >"$work/lab/scripts/fixes"
	cat >"$work/lab/selftests/suites/conformance.sh" <<-'END'
		#!/bin/sh
		case $* in
		*failing_behind*) printf '1..3\nok 1 requester.flush_icrc\nnot ok 2 failing_behind.write_then_bad_lkey.answered\n'
			printf 'ok 3 skips # SKIP there is none\n'; exit 1 ;;
		*legacy*) echo 'not ok' ;;
		*--once*crashes) printf '1..2\nnot ok 1 crashes # took the guest down\n# rxe_conformance: why\nnot ok 2 passes.one\n'; exit 5 ;;
		*passes*) printf '1..2\nok 1 passes.one\nok 2 passes.two # SKIP no\n' ;;
		*--flushes-refused*fails*) printf '1..2\nok 1 fails.a\nnot ok 2 fails.b\n'; exit 1 ;;
		esac
	END
	# What stands behind `before` is not reached, if both are in the guest.
	cat >"$work/lab/selftests/suites/hostile.sh" <<-'END'
		#!/bin/sh
		mkdir "$RXE_OUT/guest"
		case $* in
		*behind*) echo 'splat: BUG' >"$RXE_OUT/guest/verdict"
			printf '1..1\n    1..2\n    #  RUN           behind ...\nnot ok 1 wqes # status 5\n'; exit 5 ;;
		*) printf '1..1\n    1..1\n    ok 1 before\nok 1 wqes\n' ;;
		esac
	END
	cat >"$work/lab/selftests/suites/churn.sh" <<-'END'
		#!/bin/sh
		mkdir "$RXE_OUT/guest" && echo 'splat: WARNING' >"$RXE_OUT/guest/verdict"
		printf "1..1\nok 1 $1\n"
	END
	cat >"$work/lab/selftests/suites/hangs.sh" <<-'END'
		#!/bin/sh
		mkdir "$RXE_OUT/guest" && echo 'lost: a guest did not end within the deadline of 1 s' >"$RXE_OUT/guest/verdict"
		printf "1..1\n    1..1\n    not ok 1 $1 # took the guest down\nnot ok 1 $1 # status 3\n"; exit 3
	END
	printf '#!/bin/sh\nprintf "1..1\\nok 1 it # SKIP no module can be built for $KERNEL: why\\n"\n' >"$work/lab/selftests/suites/module.sh"
	printf '#!/bin/sh\nprintf "1..1\\n# no such program\\nnot ok 1 begins # status 127\\n"; exit 1\n' >"$work/lab/selftests/suites/begins.sh"
	chmod +x "$work"/lab/scripts/* "$work"/lab/selftests/suites/*
}

# judge STATUS ARG...
judge() {
	local got=0
	RXE_OUT=$work/judged "$work/lab/qemu-scripts/rxe-vm" judge --kernel "$work/lab/image" "${@:2}" >"$work/stdout" 2>"$work/stderr" || got=$?
	stderr=$(<"$work/stderr")
	cat "$work/stdout" "$work/stderr"
	((got == $1)) || fail "status $got, not $1"
}

judge_tells_what_shows_from_what_does_not() {
	stub_judge
	judge 1 --json "$work/json"
	[[ $(sed -n 's/^\([a-z][a-z ]*\): \([a-z]*\)$/\1 \2/p' "$work/stdout" | paste -sd ,) == \
		"any host crashes,a peer warns,a local user hangs,a local user behind,an application fails" ]] || fail "not those bugs, in this order"
	[[ $(tail -n 1 "$work/stdout") == "5 bugs, 3 not shown, 6 not tried, 1 not applicable" ]] || fail "not these counts"
	grep -qx '    seen: crashes takes the guest down' "$work/stdout" || fail "not seen"
	grep -qx '    fix: kernel/v9.1/crashes.patch' "$work/stdout" || fail "no patch"
	# A line may end within it, depending on the length of the path.
	tr -s ' \n' ' ' <"$work/stdout" | grep -q "not tried, no module can be built for [^ ]*/lab/image: why: module" || fail "no reason"
	[[ $(head -n 1 "$work/stdout") == "any host can take this kernel down (9.1-stub)" ]] || fail "not the worst first"
	grep -qx '    seen: behind takes the guest down' "$work/stdout" || fail "not the case that was running"
	grep -qx 'not tried, no such program: begins' "$work/stdout" || fail "a case that did not begin"
	grep -q '^not tried, a guest did not end .*: late$' "$work/stdout" || fail "a guest that a busy host made late"
	grep -qx 'not tried, there is none: skips' "$work/stdout" || fail "no reason of a skip"
	jq -e '.counts.shown == 5 and (.records[] | select(.subject == "crashes").verdict) == "shown"' "$work/json" >/dev/null || fail "$(<"$work/json")"
	judge 1 --ktap --html "$work/page" crashes passes
	[[ $(grep -v '^#' "$work/stdout" | paste -sd ,) == "KTAP version 1,1..2,ok 1 any host: passes,not ok 2 any host: crashes" ]] || fail "not that KTAP"
	grep -q '<h2>any host: crashes</h2>' "$work/page" || fail "the page lacks the bug"
	! grep -q '://\|src=' "$work/page" || fail "the page is not all of it"
	"$work/lab/qemu-scripts/rxe-vm" judge --table "$work/json" >"$work/table"
	grep -qx 'crashes,any host,yes' "$work/table" || fail "$(<"$work/table")"
	grep -qx 'passes,any host,not seen' "$work/table" || fail "a bug that shows nowhere has no row: $(<"$work/table")"
	jq '(.records[] | select(.subject == "crashes").verdict) = "not shown"' "$work/json" >"$work/luck"
	"$work/lab/qemu-scripts/rxe-vm" judge --table "$work/json" "$work/luck" >"$work/table"
	grep -qx 'crashes,any host,yes,not seen' "$work/table" || fail "a bug that does not show may be there: $(<"$work/table")"
	judge 0 passes before
	judge 4 unseen module newer slow
	judge 3 late
	judge 5 other && says "the kernel is in trouble, and no bug explains it"
	judge 1 --quick
	[[ $(tail -n 1 "$work/stdout") == "2 bugs, 1 not shown, 11 not tried, 1 not applicable" ]] || fail "not these counts"
	grep -qx 'not tried, --quick is for .*: 7 bugs' "$work/stdout" || fail "what --quick leaves out is not counted"
	judge 2 frob && says "error: 'frob': no bug has this subject"
	judge 2 --html /no/such/file && says "error: --html /no/such/file: No such file"
	judge 2 --json /no/such/file && says "error: --json /no/such/file: No such file"
	judge 2 --kernel /no/such && says "error: /no/such: no such file"
	judge 2 --kernel /etc && says "error: /etc: neither a kernel tree"
	touch "$work/k.deb"
	judge 2 --kernel "$work/k.deb" && says "unpack the package"
	judge 0 --list
	[[ $(wc -l <"$work/stdout") == 15 ]] || fail "not all"
	grep -qx 'a local user: newer: not applicable, It is newer' "$work/stdout" || fail "no answer of the base"
	printf '#!/bin/sh\necho "# rxe-vm: fail: the kernel lacks it"; exit 1\n' >"$work/lab/selftests/suites/conformance.sh"
	judge 4 && says "judge: no case runs on $work/lab/image: rxe-vm: fail: the kernel lacks it"
	rm "$work/lab/build/selftests/rxe_conformance"
	judge 2 && says 'rxe_conformance: run `make selftests`'
	rm "$work/lab/scripts/fixes"
	judge 2 && says "error: this release is without the records of bugs"
}

# To boot a guest of a stock kernel takes longer than most cases.  These suites pass, but a bug of a kernel whose version has
# "stock" in it fails, and a dangerous one takes the guest down.  The records are the real ones.
judge_boots_few_guests() {
	local kernel flag most
	stub_judge
	"$root/scripts/fixes" json >"$work/lab/fixes.json"
	printf '#!/bin/sh\ncat "%s"\n' "$work/lab/fixes.json" >"$work/lab/scripts/fixes"
	jq -r '.[] | select(.before != "" and .before != "fails").cases | split(": ")[1] | split(" ")[] | sub(".*/"; "")' \
		"$work/lab/fixes.json" >"$work/lab/deadly"
	cat >"$work/lab/suite" <<-'END'
		#!/usr/bin/env python3
		import os, sys
		stock, names = b"stock" in open(os.environ["KERNEL"], "rb").read(), []
		for word in sys.argv[1:]:
		    if not word.startswith("--") and not word.isdigit():
		        names += word.rpartition("/")[2].removeprefix("@(").removesuffix(")").split("|")
		print(f"1..{len(names)}")
		for n, name in enumerate(names, 1):
		    print(f"#  RUN           {name} ...")
		    if stock and name in open(f"{os.path.dirname(__file__)}/../../deadly").read().split():
		        os.mkdir(os.environ["RXE_OUT"] + "/guest")
		        print("splat: BUG", file=open(os.environ["RXE_OUT"] + "/guest/verdict", "w"))
		        sys.exit(5)
		    print(f"{'not ' if stock else ''}ok {n} {name}")
	END
	rm "$work"/lab/selftests/suites/*
	for suite in $(jq -r '.[].cases | split(":")[0] // "" | split(" ")[0] // empty' "$work/lab/fixes.json" | sort -u); do
		install "$work/lab/suite" "$work/lab/selftests/suites/$suite.sh"
	done
	while read -r kernel most flag; do
		{ head -c 514 /dev/zero; printf 'HdrS\0\0\0\0\0\0\0\0\020\0%s\0' "$kernel"; } >"$work/lab/image"
		judge "$([[ $kernel != *stock ]] && echo 0 || echo 1)" ${flag:+"$flag"}
		[[ $(grep -c ': judge: run' "$work/stderr") -le $most ]] || fail "more than $most runs: $kernel $flag"
		[[ $kernel == *stock ]] || grep -q '^0 bugs' "$work/stdout" || fail "not fixed"
	done <<-'END'
		6.12-fixed 8 --quick
		6.12-stock 12 --quick
		6.12-stock 29
		7.3-stock 13 --quick
	END
}

wrong_usage_is_explained() {
	local message
	# ARG... | what the message says
	while IFS='|' read -r arguments message; do
		# shellcheck disable=SC2086 # words
		lab 2 $arguments
		says "rxe-vm: error: $message"
	done <<-'END'
		run|no command given
		frob|no such thing as 'frob'
		run --frob 1 -- true|unknown option --frob
		run --mem 3X -- true|'3X' is not a size
		run --pmem 17M -- true|--pmem 17M: the size must be a multiple of 16M
		run --pmem /no/such -- true|--pmem /no/such: no such file
		run --kernel /no/such -- true|/no/such: no such file
		run --kernel /etc/passwd -- true|/etc/passwd is no x86 kernel image
		run --kernel /etc -- true|/etc: neither a kernel tree
		kconfig|'--name': rxe-vm kconfig takes no options
		new|say rxe-vm new NAME [--python]
		new No|say rxe-vm new NAME [--python]
		judge|'--name': say rxe-vm judge
		run --qemu 'open -- true|--qemu 'open: a quote is not closed
		run --delay 1 -- true|--delay 1: say for example
		run --loss 1 -- true|--loss 1: say for example 1%
		run --loss 101% -- true|--loss 101%: say for example 1%
		run --kill-server -- true|--kill-server: there is no server
		group --stop-server --client true|--stop-server: there is no server
		group --kill-server=lose --no-capture --server-pmem 64M --server a --client b|--kill-server=lose looks at the capture
		run --vlan 4095 -- true|--vlan 4095: a VLAN has a number
		run --mtu 9 -- true|--mtu 9: a network card takes
		run --ipv6 --mtu 600 -- true|--mtu 600: IPv6 wants 1280
		run --rdma-core /etc -- true|--rdma-core /etc: no build of rdma-core is there
		pair --server true|no command given: --client
		run --server-mem 1G -- true|--server-mem: only rxe-vm pair and group
		pair --server a --server b --client c|a pair has one --server and one --client
		pair --server a --client b --server2-mem 1G|--server2-mem: there is no server2
		pair --server a --client b --server-frob 1|unknown option --frob
		group --server true|no command given: --client
		group --server a --server a --server a --server a --server a --client b --client b --client b --client b|a group has up to 8 guests, not 9
		group --pmem nvdimm:64M --server a --client b|--pmem nvdimm:64M: server1 and client1 cannot share an NVDIMM
		group --kill-server=lose --server a --client b|--kill-server=lose wants an NVDIMM: --server1-pmem
	END
	KERNEL=/no/kernel lab 2 run -- true
	says "error: /no/kernel: no such file"
	KERNEL='' BASE=v0 DEBUG=0 lab 2 run -- true
	says 'run `make kernel BASE=v0`'
	QEMU=no-such-qemu lab 2 run -- true
	says "qemu-system-x86"
	RDMA_CORE=v0 lab 2 run --kernel /etc/passwd -- true
	says 'run `make rdma-core RDMA_CORE=v0`'
	mkdir -p "$work/tree/arch/x86"
	touch "$work/tree/arch/x86/Makefile"
	lab 2 run --kernel "$work/tree" -- true
	says "this tree is not built, there is no arch/x86/boot/bzImage"
}

broken_suites_are_failures() {
	local want suite status
	suite=$work/suite
	echo "fail suite listed not mended yet" >"$work/expected"
	while IFS='|' read -r want body; do
		printf '#!/bin/sh\n%s\n' "$body" >"$suite"
		chmod +x "$suite"
		echo "suite: $body"
		status=0
		EXPECTED=$work/expected RXE_OUT=$work/out "$here/../run-tests" "$suite" >"$work/stdout" || status=$?
		sed 's/^/| /' "$work/stdout"
		[[ $(tail -n 1 "$work/stdout") == "$want" ]] || fail "not: $want"
		[[ $status == 0 && $want == *" 0 failed, "* || $status == 1 && $want != *" 0 failed, "* ]] ||
			fail "status $status"
		[[ $want == *" 0 failed, "* ]] || tail -n 2 "$work/stdout" | grep -q '^# suite: ' || fail "the end does not say what failed"
	done <<-'END'
		1 passed, 0 failed, 0 skipped|echo 1..1; echo ok 1 fine
		0 passed, 1 failed, 0 skipped|true
		1 passed, 1 failed, 0 skipped|echo 1..2; echo ok 1 fine; kill -KILL $$
		1 passed, 1 failed, 0 skipped|echo 1..1; echo ok 1 fine; exit 1
		0 passed, 2 failed, 0 skipped|echo 1..2; echo ok 1 a '# SKIP x'; echo not ok 2 b; exit 1
		1 passed, 2 failed, 0 skipped|echo 1..1; echo '  1..2'; echo '  ok 1 a'; echo '  not ok 2 b'; echo ok 1 parent
		0 passed, 1 failed, 0 skipped|echo 1..0
		0 passed, 1 failed, 0 skipped|echo '1..0 # SKIP no such thing'
		0 passed, 1 failed, 0 skipped|echo 1..1; echo not ok 1 a '# SKIP x'
		0 passed, 1 failed, 0 skipped|echo 1..1; echo ok 1 a '# SKIP x'
		2 passed, 1 failed, 0 skipped|echo 1..1; echo ok 1 a; echo ok 2 b
		2 passed, 1 failed, 0 skipped|echo 1..2; echo ok 1 a; echo ok 1 a
		1 passed, 1 failed, 0 skipped|echo 1..1; echo 1..1; echo ok 1 a
		1 passed, 1 failed, 0 skipped|echo ok 1 a
		1 passed, 1 failed, 0 skipped|echo 1..1; echo '  1..2'; echo '  ok 1 a'; echo not ok 1 parent
		0 passed, 0 failed, 1 skipped|echo 1..1; echo not ok 1 listed; exit 1
		0 passed, 1 failed, 1 skipped|echo 1..1; echo not ok 1 listed; exit 5
		0 passed, 1 failed, 1 skipped|echo 1..1; echo '  1..1'; echo '  not ok 1 listed'; echo not ok 1 parent; exit 5
	END
	printf '#!/bin/sh\necho 1..2; echo "    1..1"; echo "    not ok 1 verb.atomic_write.truncated_behind_ip_options"; echo not ok 1 a; echo ok 2 longest.read\n' >"$suite"
	EXPECTED=$work/expected RXE_OUT=$work/out "$here/../run-tests" "$suite" >"$work/stdout" || true
	[[ $(tail -n 2 "$work/stdout" | head -n 1) == '# suite: Does the kernel lack this fix?  "Fix panic on a packet that is shorter than its BTH"' ]] ||
		fail "the fix is not named: $(<"$work/stdout")"
	[[ $(grep -c '^# suite: Does the kernel lack' "$work/stdout") == 1 ]] || fail "a fix is named whose case passed"
	status=0
	"$here/../run-tests" typo >"$work/stdout" 2>&1 || status=$?
	[[ $status == 2 && $(<"$work/stdout") == *typo* ]] || fail "a suite that is not there: status $status: $(<"$work/stdout")"
}

# In the way a kernel's image is made: the source stays the same, and so does the size of what it includes.
what_a_source_includes_is_compiled() {
	local text
	type -P ccache >/dev/null || { echo "no ccache"; exit 4; }
	mkdir "$work/cached"
	cd "$work/cached"
	printf '.section .rodata\n.incbin "text"\n' >image.S
	for text in first other; do
		echo "$text" >text
		CCACHE_DIR=$work/cache CCACHE_DEPEND=1 "$root/scripts/compile-cached" gcc -MD -c -o image.o image.S
		grep -q "$text" image.o || fail "the object does not have the $text text"
	done
	# Anything else is compiled once.
	echo 'int it;' >plain.c
	for text in first other; do
		CCACHE_DIR=$work/cache CCACHE_DEPEND=1 CCACHE_LOGFILE=$work/log "$root/scripts/compile-cached" gcc -MD -c -o plain.o plain.c
	done
	grep -q 'Result: direct_cache_hit' "$work/log" || fail "nothing is found in the cache"
}

# A release whose tools say what $work/hostile has; rxe-vm ends with status 7, and crash-states with 1.
make_stub() {
	mkdir -p "$work"/stub/rxe-mpe/{scripts,qemu-scripts}
	printf '#!/bin/sh\n' | tee "$work/stub/rxe-mpe/scripts/deps" >"$work/stub/rxe-mpe/qemu-scripts/rxe-vm"
	cat >"$work/stub/rxe-mpe/qemu-scripts/crash-states" <<-END
		#!/bin/sh
		cat $work/hostile
		exit 1
	END
	chmod +x "$work"/stub/rxe-mpe/*/*
}

no_word_of_a_guest_is_a_command_of_the_runner() {
	local word words
	make_stub
	for word in '::error title=forged::it' '::add-path::/tmp' '  ::set-output name=run::/' '##[error]forged' '::stop-commands::x' '::x::'; do
		printf '\n%s\n\r%s\r%s' "$word" "$word" "$word"
	done >"$work/hostile"
	printf '#!/bin/sh\ncat %s\nexit 7\n' "$work/hostile" >"$work/stub/rxe-mpe/qemu-scripts/rxe-vm"
	act 7 RELEASE="$work/stub/rxe-mpe"
	annotated "the pair of guests" '%0D::x::%0D::x::'
	words=$(sed -n 's/^::stop-commands::\(.\{36\}\)$/\1/p' "$work/said")
	act 7 RELEASE="$work/stub/rxe-mpe"
	words+=$'\n'$(sed -n 's/^::stop-commands::\(.\{36\}\)$/\1/p' "$work/said")
	[[ $(sort -u <<<"$words" | wc -l) == 2 ]] || fail "the word that ends it is not new each time: $words"
	printf '#!/bin/sh\ncat %s\n' "$work/hostile" >"$work/stub/rxe-mpe/qemu-scripts/rxe-vm"
	act 1 RELEASE="$work/stub/rxe-mpe" CHECKER=true
	annotated "a state that a power cut may leave" '##[error]forged'
}

an_annotation_begins_with_the_reason() {
	make_stub
	printf '66 frames\nState 1:\n  old 0x78\n  Why: WRITE is lost\n  The checker: record 0 is torn\n  Kept: it\n' >"$work/hostile"
	printf '#!/bin/sh\n' >"$work/stub/rxe-mpe/qemu-scripts/rxe-vm"
	act 1 RELEASE="$work/stub/rxe-mpe" CHECKER=true
	grep -q '^::error title=a state that a power cut may leave::The checker: record 0 is torn%0AWhy: WRITE is lost%0A66 frames%0A' "$work/said" ||
		fail "another beginning"
}

the_action_names_what_is_missing_without_root() {
	make_stub
	printf '#!/bin/sh\necho "lab: there is no qemu: install it" >&2\nexit 1\n' >"$work/stub/rxe-mpe/scripts/deps"
	((EUID == 0)) || { echo "only root can become another user here"; exit 4; }
	mkdir "$work/temp" && chmod -R a+rwX "$work" && chmod a+x "$work/.."
	setpriv --reuid=65534 --regid=65534 --clear-groups env RELEASE="$work/stub/rxe-mpe" RUNNER_TEMP="$work/temp" GITHUB_ACTION=x \
		GITHUB_OUTPUT="$work/temp/output" SERVER=true CLIENT=true CHECKER='' KERNEL='' STATES=1 PAIR_OPTIONS='' PATH=/usr/bin:/bin \
		"$root/.github/actions/rxe-pair/run-pair" >"$work/said" && fail "it goes on"
	grep -q '^::error title=rxe-pair::lab: there is no qemu: install it' "$work/said" || fail "it says: $(<"$work/said")"
}

the_action_runs_a_command_in_one_guest() {
	make_stub
	printf '#!/bin/sh\nprintf "<%%s>" "$@"\n' >"$work/stub/rxe-mpe/qemu-scripts/rxe-vm"
	act 0 RELEASE="$work/stub/rxe-mpe" SERVER='' CLIENT='make test' KERNEL=image PAIR_OPTIONS="--share . --append 'a b'"
	grep -qxF '<run><--share><.><--append><a b><--kernel><image><--><bash><-ec><make test>' "$work/said" || fail "not that"
	act 0 RELEASE="$work/stub/rxe-mpe" SERVER='serve it' CLIENT='make test' PAIR_OPTIONS='--pmem 64M'
	grep -qxF '<pair><--pmem><64M><--server><serve it><--client><make test>' "$work/said" || fail "not that"
	printf '#!/bin/sh\necho no such test\nexit 5\n' >"$work/stub/rxe-mpe/qemu-scripts/rxe-vm"
	act 5 RELEASE="$work/stub/rxe-mpe" SERVER='' CLIENT='make test'
	annotated "the command in the guest" 'no such test'
}

# From a server of this machine.
the_action_takes_no_damaged_release() {
	local url server
	export no_proxy='*'
	make_stub
	mkdir -p "$work/web/v1"
	tar -C "$work/stub" --zstd -cf "$work/web/v1/rxe-mpe-v1.tar.zst" rxe-mpe
	python3 -u -m http.server --bind 127.0.0.1 --directory "$work/web" 0 >"$work/serving" 2>/dev/null &
	server=$!
	until grep -q port "$work/serving"; do sleep 0.05; done
	url=http://127.0.0.1:$(sed 's/.* port \([0-9]*\) .*/\1/' "$work/serving")
	released() { act "$1" RELEASE='' ACTION_RELEASES="$url" ACTION_REF=v1; }
	released 2
	annotated rxe-pair "cannot check the release: there is no $url/v1/SHA256SUMS"
	echo "$(printf '0%.0s' {1..64})  other.tar.zst" >"$work/web/v1/SHA256SUMS"
	released 2
	annotated rxe-pair "cannot check the release: $url/v1/SHA256SUMS does not have rxe-mpe-v1.tar.zst"
	echo "$(printf '0%.0s' {1..64})  rxe-mpe-v1.tar.zst" >>"$work/web/v1/SHA256SUMS"
	released 2
	annotated rxe-pair "$url/v1/rxe-mpe-v1.tar.zst is damaged: its checksum is not that of SHA256SUMS"
	[[ ! -e $work/runner/rxe-mpe ]] || fail "it unpacks a damaged release"
	(cd "$work/web/v1" && sha256sum -- *.zst >SHA256SUMS)
	released 0
	[[ -z $(acts) ]] || fail "an annotation"
	kill "$server"
	released 2
	annotated rxe-pair "cannot download the release $url/v1/rxe-mpe-v1.tar.zst"
	act 2 RELEASE="$work/none"
	annotated rxe-pair "there is no $work/none"
	act 2 RELEASE=/etc/passwd
	annotated rxe-pair "no tarball of a release"
}

# `make clean`, in another folder, with a build of its own
# plain_make ARG...: without what a make that runs this suite was told
plain_make() { timeout 10 env -u MAKEFLAGS -u MAKELEVEL -u MAKEOVERRIDES -u BASE -u DEBUG -u RDMA_CORE -u KERNEL -u SUITES make -s --no-print-directory "$@"; }

clean_keeps_trees() {
	mkdir -p "$work"/build/{v6.1/{src,lib},selftests}
	ln -s "$root"/{Makefile,kernel,rdma-core-provider,userspace} "$work"
	touch "$work"/build/{v6.1/{src/work,bzImage,lib/module},selftests/program,log}
	plain_make -C "$work" clean
	diff <(cd "$work/build" && find . -mindepth 1 | sort) - <<-'END'
		./v6.1
		./v6.1/src
		./v6.1/src/work
	END
}

# in_tree VERSION COMMAND...: in its tree
in_tree() { (cd "$work/$1.tree" && "${@:2}"); }

# commit_line VERSION LINE [TEXT]: the tree's file has another word in that line
commit_line() {
	in_tree "$1" sed -i "$2s/.*/changed/" file
	in_tree "$1" git commit -q -a -m "${3:-change line $2}" -m "What for."
}

# series COMMAND VERSION
series() {
	local source=()
	[[ $1 != init ]] || source=("$work/$2.source" file 1)
	"$root/scripts/series" "$1" "$work/$2.tree" "$work/set/$2" "${source[@]}"
}

# expect_series VERSION NAME...: these are its patches
expect_series() { diff "$work/set/$1/series" <(printf '%s\n' "${@:2}") || fail "series of $1"; }

# Two bases differ in line 40.
two_bases() {
	for version in v2 v1; do
		mkdir -p "$work/set/$version" "$work/$version.source"
		touch "$work/set/$version/series"
		{ seq 39; echo "$version"; } >"$work/$version.source/file"
		series init $version
		commit_line $version 10
		commit_line $version 38
		commit_line $version 20
		series export $version
	done
}

a_patch_that_bases_share_exists_once() {
	local tree
	two_bases
	expect_series v2 0001-change-line-10.patch 0002-change-line-38.patch 0003-change-line-20.patch
	expect_series v1 ../v2/0001-change-line-10.patch 0002-change-line-38.patch ../v2/0003-change-line-20.patch
	[[ $(cd "$work/set/v1" && echo *) == "0002-change-line-38.patch series" ]] || fail "v1 has $(ls "$work/set/v1")"
	tree=$(in_tree v1 git rev-parse 'HEAD^{tree}')
	rm -rf "$work/v1.tree"
	series init v1
	series apply v1
	[[ $(in_tree v1 git rev-parse 'HEAD^{tree}') == "$tree" ]] || fail "the series does not make the tree that it is from"
}

# The text is that of the newest base, and the other one follows when a patch gets another place or subject, or goes.
a_shared_patch_follows_its_base() {
	local said
	two_bases
	in_tree v1 git commit -q --amend -m 'change line 20' -m 'A text of its own.'
	said=$(series export v1 2>&1)
	[[ $said == *"has another text than "*v2/0003-change-line-20.patch* ]] || fail "it says: $said"
	series apply v1
	in_tree v1 git log -1 --format=%b | grep -qx 'What for.' || fail "v1 has $(in_tree v1 git log -1)"

	in_tree v2 git reset -q --hard base
	commit_line v2 5
	commit_line v2 10 'change the tenth line'
	commit_line v2 38
	series export v2
	expect_series v1 ../v2/0002-change-the-tenth-line.patch 0002-change-line-38.patch 0003-change-line-20.patch
	series apply v1
	[[ $(in_tree v1 git log --format=%s base.. | paste -sd ,) == 'change line 20,change line 38,change the tenth line' ]] ||
		fail "v1 has $(in_tree v1 git log --format=%s base..)"
}

# A new base may begin as a list of another's patches, or as a copy of them.  With the copy the other names its files.
a_new_base_shares_patches() {
	two_bases
	cp -r "$work/v2.source" "$work/v3.source"
	mkdir "$work/set/v3"
	sed 's|^|../v2/|' "$work/set/v2/series" >"$work/set/v3/series"
	series init v3
	series apply v3
	for version in v3 v2; do
		series export $version
		expect_series v2 0001-change-line-10.patch 0002-change-line-38.patch 0003-change-line-20.patch
		expect_series v3 ../v2/0001-change-line-10.patch ../v2/0002-change-line-38.patch ../v2/0003-change-line-20.patch
	done
	cp "$work/set/v2"/* "$work/set/v3"
	series export v2
	expect_series v2 ../v3/0001-change-line-10.patch ../v3/0002-change-line-38.patch ../v3/0003-change-line-20.patch
	expect_series v1 ../v3/0001-change-line-10.patch 0002-change-line-38.patch ../v3/0003-change-line-20.patch
	[[ $(ls "$work/set/v2") == series ]] || fail "v2 has $(ls "$work/set/v2")"
}

export_stops_where_a_shared_patch_differs() {
	local said
	two_bases
	in_tree v1 sed -i 's/^21$/too/' file
	in_tree v1 git commit -q -a --amend --no-edit
	! said=$(series export v1 2>&1) || fail "nothing stops it"
	[[ $said == *"the commit $(in_tree v1 git rev-parse HEAD | cut -c 1-12), \"change line 20\", "*v2/0003-change-line-20.patch* ]] ||
		fail "it says: $said"
	expect_series v1 ../v2/0001-change-line-10.patch 0002-change-line-38.patch ../v2/0003-change-line-20.patch
	OWN=1 series export v1
	expect_series v1 ../v2/0001-change-line-10.patch 0002-change-line-38.patch 0003-change-line-20.patch

	# A change that both have is one of the newest, and no work is lost.
	commit_line v1 15
	in_tree v2 sed -i 's/^11$/too/' file
	in_tree v2 git commit -q -a --fixup="$(in_tree v2 git rev-parse 'HEAD~2')"
	in_tree v2 env GIT_SEQUENCE_EDITOR=true git rebase -q -i --autosquash base
	series export v2
	! said=$(series apply v1 2>&1) || fail "apply takes the work away"
	! said=$(series export v1 2>&1) || fail "export takes a commit that the newest has changed"
	[[ $said == *'"change line 10"'*'export that first'* ]] || fail "it says: $said"
}

# In one line, and before anything is built
make_refuses_wrong_arguments() {
	local arguments said
	while read -r arguments; do
		# shellcheck disable=SC2086 # words
		said=$(plain_make -C "$root" $arguments 2>&1) && fail "make $arguments: it passes"
		echo "$said"
		[[ $said != *$'\n'* && $said == *": choose "*"."* ]] || fail "make $arguments: $said"
	done <<-'END'
		demo TARGETS=2
		test SUITES=foo
		test SUITES=selftests/suites/foo.sh
		test DEBUG=foo
		ulps ULPS=foo
		test-others OTHERS=foo
		install KERNELS=foo
		mutants MUTANTS=foo
		reproducers BASE=v7.3 TOPICS=foo
		reproducers BASE=v7.3 TOPICS=foo/1
		submission TOPIC=foo
		check CHECKED=kernel/foo
		dkms BASE=v6.1
		reproducers BASE=v6.1
		kernel BASE=foo
		rdma-core RDMA_CORE=foo
	END
}

right_arguments_of_make_are_taken() {
	local arguments
	while read -r arguments; do
		eval "plain_make -C '$root' --question help-all $arguments" >"$work/said" 2>&1 || [[ $? == 1 ]] || fail "$arguments: $(<"$work/said")"
	done <<-'END'
		TARGETS=3
		SUITES='harness selftests/suites/lab.sh'
		DEBUG=0
		DEBUG=kcsan
		OTHERS=v65
		KERNELS='v6.1 v7.3'
		MUTANTS='rxe_req rxe_resp'
		MUTANTS=$(sed -n 's/^From //p' "$root/selftests/mutants/rxe_req" | head -n 1)
		BASE=v7.3 TOPICS='03-first 06-lifetime/2'
		RDMA_CORE=host
	END
}

# On a machine without these programs, and before anything is fetched
make_names_all_that_is_missing() {
	local goals wanted said
	mkdir "$work/bin" "$work/clone"
	ln -s /usr/bin/* "$work/bin"
	rm -f "$work"/bin/{flex,cmake,busybox,shellcheck,rst2man}
	ln -s "$root"/{Makefile,kernel,qemu-scripts,rdma-core-provider,scripts,selftests,userspace} "$work/clone"
	while IFS=: read -r goals wanted; do
		# shellcheck disable=SC2086 # words
		said=$(PATH=$work/bin plain_make -C "$work/clone" $goals 2>&1) && fail "make $goals: it passes"
		# shellcheck disable=SC2027 # a pattern
		[[ $said == "rxe-mpe: error: "*": there is no "$wanted", or install the packages on Debian: "*$'\nmake: '* ]] || fail "make $goals: $said"
		[[ ! -e $work/clone/build ]] || fail "make $goals has begun"
	done <<-'END'
		kernel selftests:flex cmake; run `make deps`
		demo:flex busybox cmake; run `make deps`
		test:flex busybox cmake; run `make deps`
		release:flex cmake rst2man; run `make deps`
		check-fast:shellcheck*; run `make deps-check`
		check-fast kernel:shellcheck* flex; run `make deps-check deps`
		demo RDMA_CORE=host:*flex busybox; run `make deps RDMA_CORE=host`
	END
}

make_refuses_a_path_with_a_space() {
	local said
	mkdir "$work/a b"
	ln -s "$root"/{Makefile,kernel,rdma-core-provider,userspace} "$work/a b"
	said=$(plain_make -C "$work/a b" 2>&1) && fail "it works there"
	[[ $said != *$'\n'* && $said == *"a folder whose path has a space: move this one: $work/a b"* ]] || fail "$said"
}

# new_folders: in-c and in-python, as `rxe-vm new` makes them, in $work, beside the recorded runs of first-log, which the new
# programs are at first
new_folders() {
	tar -xzf "$root/selftests/examples/first-log-runs.tar.gz" -C "$work"
	cd "$work"
	"$root/qemu-scripts/rxe-vm" new in-c
	"$root/qemu-scripts/rxe-vm" new in-python --python
}

rxe_vm_new_makes_what_builds_and_judges() {
	local kind checker run options status
	new_folders
	! "$root/qemu-scripts/rxe-vm" new in-c 2>said || fail "it writes over a folder"
	[[ $(<said) == *"in-c: File exists" ]] || fail "it says: $(<said)"
	[[ -x in-python/in-python.py && ! -e in-python/in-python.c ]] || fail "the log is not in Python: $(ls in-python)"
	for kind in c python; do
		plain_make -C in-$kind programs CFLAGS='-O2 -Wall -Werror' || fail "in-$kind is not built"
		! grep -rE '@[A-Z]+@|first-log' in-$kind --include='*.[chpy]*' --include='*.yml' --include=Makefile || fail "a word of the template is left"
		checker=$(sed -n 's|^CHECKER ?= ||p' in-$kind/Makefile)
		for options in '--serve --limit 300' '--limit 20'; do
			for run in with-flush without-flush; do
				status=0
				# shellcheck disable=SC2086 # an option or none
				(cd in-$kind && "$root/build/crash/crash-states" $options --states 50 "$work/$run" -- "$checker") >said || status=$?
				cat said
				case $run,$status in
				with-flush,[04]) grep -q "states of .*: 0 fail" said || fail "$kind: the right log fails" ;;
				without-flush,1) grep -q "The checker: record 0 is lost or torn" said || fail "$kind: it says something else" ;;
				*) fail "$kind: status $status of the log $run" ;;
				esac
			done
		done
	done
}

# yaml FILE KEY...: what is there, a list line by line
yaml() {
	python3 -c '
import sys, yaml
with open(sys.argv[1], encoding="utf-8") as file:
    value = yaml.safe_load(file)
for key in sys.argv[2:]:
    value = value[int(key) if key.isdigit() else key]
print(*value if isinstance(value, list) else [value], sep="\n")' "$@"
}

# A runner stands in for each service: it runs the commands by bash, and has a release whose rxe-vm finds a recorded run.
files_for_ci_do_what_they_should() {
	local kind program ends url status
	export RUN
	new_folders
	make_stub
	cat >"$work/stub/rxe-mpe/qemu-scripts/rxe-vm" <<-'END'
		#!/bin/sh
		printf '<%s>' "$@"
		mkdir -p "$RXE_OUT" && ln -sfn "$RUN" "$RXE_OUT/latest"
	END
	# A checker in Python takes minutes for all states.
	cat >"$work/stub/rxe-mpe/qemu-scripts/crash-states" <<-END
		#!/bin/sh
		case \$RUN in */without-flush) set -- --limit 20 "\$@" ;; esac
		exec "$root/qemu-scripts/crash-states" "\$@"
	END
	ln -s "$root/build" "$work/stub/rxe-mpe"
	mkdir bin
	printf '#!/bin/sh\necho "apt-get $*"\n' >bin/apt-get
	printf '#!/bin/sh\nexec "$@"\n' >bin/sudo
	printf '#!/bin/sh\necho "$*" >>%s/url\nexec tar -C %s/stub --zstd -c rxe-mpe\n' "$work" "$work" >bin/curl
	chmod +x bin/*
	PATH=$work/bin:$PATH
	url=$(sed -n 's/^address\t//p' "$root/OWNER")/releases/download/$(sed -n 's/^version\t//p' "$root/OWNER")
	for kind in c python; do
		program=./in-$kind
		[[ $kind == c ]] || program+=.py
		ends="<--server><$program target \$RXE_ADDR /dev/dax0.0><--client><$program initiator \$RXE_PEER_ADDR 20>"
		for RUN in "$work/with-flush" "$work/without-flush"; do
			as_gitlab
			[[ $kind/${RUN##*/} == python/with-flush ]] || as_github
		done
	done
	[[ $(sort -u url) == "-fsSL $url/rxe-mpe-${url##*/}.tar.zst" ]] || fail "another release: $(sort -u url)"
}

as_gitlab() {
	local file=$work/in-$kind/.gitlab-ci.yml
	status=0
	yaml "$file" survives script >"$work/script"
	(cd "in-$kind" && rm -rf rxe-mpe && bash -euo pipefail "$work/script") >said 2>&1 || status=$?
	cat said
	# A slow machine may not have tried enough: NOT JUDGED.
	case $RUN,$status in
	*/with-flush,[02]) grep -q "states of .*: 0 fail" said || fail "$file: what does it judge?" ;;
	*/without-flush,2) grep -q "The checker: record 0 is lost or torn" said || fail "$file: it does not say why" ;;
	*) fail "$file: status $status of ${RUN##*/}" ;;
	esac
	grep -q '^apt-get install .*\(libibverbs-dev\|python3-pyverbs\).*qemu' said || fail "$file: its packages"
	grep -qF "$ends" said || fail "$file: the two ends"
}

as_github() {
	local file=$work/in-$kind/.github/workflows/survives.yml
	at() { yaml "$file" jobs survives steps "$@"; }
	[[ $(at 0 uses) == actions/checkout@* && $(at 2 uses) == */.github/actions/rxe-pair@* ]] || fail "$file: other actions"
	at 1 run >"$work/script"
	(cd "in-$kind" && plain_make clean && bash -e "$work/script") || fail "$file: its commands fail"
	cd "in-$kind"
	act "$([[ $RUN == */with-flush ]] && echo 0 || echo 1)" RELEASE="$work/stub/rxe-mpe" STATES=50 \
		CLIENT="$(at 2 with client)" SERVER="$(at 2 with server)" CHECKER="$(at 2 with checker)"
	cd ..
	grep -qF "<--kill-server>$ends" said || fail "$file: the two ends"
	[[ $RUN == */with-flush ]] || annotated "a state that a power cut may leave" "::The checker: record 0 is lost or torn"
}

make_alone_shows_a_few_targets() {
	local target
	plain_make -C "$root" >"$work/short"
	plain_make -C "$root" help-all >"$work/all"
	(($(grep -c '^  make ' "$work/short") <= 15)) || fail "more than 15"
	while read -r target; do
		grep -q "^  make $target " "$work/all" || fail "help-all does not have $target"
	done < <(sed -n 's/^  make \([^ ]*\).*/\1/p' "$work/short")
	(($(grep -c '^  make ' "$work/all") > $(grep -c '^  make ' "$work/short"))) || fail "help-all has no more"
}

# With a make that says what it is told, fails for debug, and lacks the sources of v7.3
the_nightly_counts_what_passed() {
	local said status=0
	mkdir "$work/bin"
	cat >"$work/bin/make" <<-'END'
		#!/bin/sh
		case "$*" in
		*fetch-linux*BASE=v7.3*) echo "rxe-mpe: error: the Debian archive (sid) has no linux-source-7.3: correct base.mk"; exit 1 ;;
		*DEBUG=1*SUITES=wire*) echo "not ok 1 it"; exit 2 ;;
		*) echo "make $*" ;;
		esac
	END
	chmod +x "$work/bin/make"
	RXE_OUT=$work PATH=$work/bin:$PATH "$root/scripts/nightly" others-v6.12 rest-v7.3 debug-wire demo >"$work/said" || status=$?
	sed -i "s/ # [0-9]* s/ # N s/; s|$work|WORK|" "$work/said"
	diff - "$work/said" <<-'END' || fail "it says something else"
		KTAP version 1
		1..4
		ok 1 others-v6.12 # N s, make --no-print-directory test BASE=v6.12 SUITES=conformance hostile persistence verbs-api rdma-core-suite remote-log kunit dma-buf
		ok 2 rest-v7.3 # SKIP the Debian archive (sid) has no linux-source-7.3: correct base.mk
		# not ok 1 it
		not ok 3 debug-wire # N s, status 2: WORK/nightly/debug-wire.log
		ok 4 demo # N s, make --no-print-directory demo
		# failed: debug-wire
		2 passed, 1 failed, 1 skipped
	END
	((status == 1)) || fail "status $status"
	RXE_OUT=$work PATH=$work/bin:$PATH "$root/scripts/nightly" others-v6.12 demo >"$work/said" || fail "no run failed"
	(($("$root/scripts/nightly" --jobs | wc -l) <= 50)) || fail "more than 50 jobs"
	# GitHub starts no more.
	said=$("$root/scripts/nightly" --parts | jq -r '(length <= 256 and (unique | length) == length)')
	[[ $said == true ]] || fail "--parts: more than 256, or one of them twice"
}

# The lab's kernels have rxe built in, so their link shows nothing of what a module of it would lack.
rxe_calls_only_what_the_kernel_exports() {
	local obj=$root/build/${BASE:-v6.1}/obj lacking
	local driver=$obj/drivers/infiniband/sw/rxe/built-in.a
	[[ $(nm "$driver") == *" T rxe_init_packet"* ]] || fail "no rxe in $driver"
	lacking=$(comm -23 <(nm -u "$driver" | awk 'NF == 2 { print $2 }' | sort -u) \
		<({ nm --defined-only "$driver" | awk 'NF == 3 { print $3 }'; cut -f 2 "$obj/Module.symvers"; } | sort -u))
	[[ -z $lacking ]] || fail "a module of rxe would not link: the kernel does not export $lacking"
}

cases=(
	a_patch_that_bases_share_exists_once
	a_shared_patch_follows_its_base
	a_new_base_shares_patches
	export_stops_where_a_shared_patch_differs
	broken_suites_are_failures
	listed_results_are_as_listed
	a_suite_that_passes_results_on_judges_them
	a_suite_runs_what_it_is_asked_for
	splats_are_found
	wrong_usage_is_explained
	judge_tells_what_shows_from_what_does_not
	judge_boots_few_guests
	what_a_source_includes_is_compiled
	rxe_calls_only_what_the_kernel_exports
	no_word_of_a_guest_is_a_command_of_the_runner
	an_annotation_begins_with_the_reason
	the_action_names_what_is_missing_without_root
	the_action_runs_a_command_in_one_guest
	the_action_takes_no_damaged_release
	clean_keeps_trees
	make_refuses_wrong_arguments
	right_arguments_of_make_are_taken
	make_names_all_that_is_missing
	make_refuses_a_path_with_a_space
	make_alone_shows_a_few_targets
	rxe_vm_new_makes_what_builds_and_judges
	files_for_ci_do_what_they_should
	the_nightly_counts_what_passed
)
run_suite 2 "$@"
