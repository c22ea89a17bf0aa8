# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2016 # the guests expand their commands
# shellcheck disable=SC2034,SC2154 # the script that sources this has work and root, and uses what is here
#
# The guests of the remote log, for those who source this: the target's memory is the file
# $work/nvdimm, and what the initiator writes goes to $work.

# What the guests run.  A text is a file that the log's records are the lines of.
serve_log='exec remote-log-target "$RXE_ADDR" /dev/dax0.0'
# append_lines TEXT RECORDS [STEP]
append_lines() {
	printf 'remote-log-append "$RXE_PEER_ADDR" %q %q %q %s' "$1" "$2" "$work/acknowledged" "${3-}"
}
# check_log TEXT RECORDS: the log holds so many, or more
check_log() { printf 'remote-log-check /dev/dax0.0 %q %q' "$1" "$2"; }

acknowledged() { cat "$work/acknowledged"; }

# until_power_fails COMMAND: the initiator's, as append_lines has it: the target's power fails when it says for
# the first time that records are acknowledged
until_power_fails() {
	printf "bash -c '%s 2>&1 | { read -r && read -r && rxe-kill-server; cat; }; exit \${PIPESTATUS[0]}'" "$1"
}

# log_pair NAME SEED TARGET INITIATOR: the commands of two guests; the target's power is cut when the initiator
# has ended, at the latest, and takes what a power failure may take, which SEED decides.
log_pair() {
	"$root/qemu-scripts/rxe-vm" pair --name "$1" --kill-server="lose:$2" --server-pmem "$work/nvdimm:64M" \
		--client-share "$work" --server "$3" --client "$4"
}

# log_recovery NAME COMMAND: in the target's guest, after that
log_recovery() {
	"$root/qemu-scripts/rxe-vm" run --name "$1" --pmem "$work/nvdimm" -- sh -c "$2"
}
