# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2154 # rxe-vm sources all files of this folder, which share its variables
#
# Where the words of guests come in.  A guest is not trusted: its command may write anything to its control port.  Each boot
# has a FIFO of its own, so whose word it is is known here and not said there.  What the rest of rxe-vm gets is a line of
# guest/session, with numbers in their ranges; anything else is dropped and counted.

longest_line=4000	# with the name of the boot, less than a FIFO takes at once
most_events=1000	# of one boot, without what it says of memory

# attend BOOT: until its QEMU, whose stderr is stdin here, has ended.
attend() {
	local opened words
	# If rxe-vm is killed, there shall be no reader left to wait for.
	exec >"$run/events" {events}>&-
	if [[ $1 == hub ]]; then
		cat >"$run/$1.qemu.log"
	else
		# QEMU may open it late, or never: until QEMU has ended there is a writer, for words to be opened, and not to end.
		exec {opened}<>"$run/$1.control.out" {words}<"$run/$1.control.out"
		hear "$1" <&"$words" {opened}>&- &
		cat >"$run/$1.qemu.log"
		exec {opened}>&-
		wait
	fi
	echo "$1 gone"
}

# hear BOOT: what it says on stdin.
hear() {
	local boot=$1 line rest word argument first='' LC_ALL=C
	local -i events=0 dropped=0
	while IFS= read -r -n "$longest_line" line; do
		rest=$line
		while ((${#rest} == longest_line)); do
			IFS= read -r -n "$longest_line" rest || break
		done
		word=${line%% *}
		argument=${line:${#word}+1}
		if ((${#line} == longest_line || events == most_events)) || ! is_known "${boot%%.*}" "$word" "$argument"; then
			first=${first:-${line:0:60}}
			dropped+=1
		elif [[ $word == memory ]]; then
			echo "$argument" >>"$run/$boot.memory"
		else
			events+=1
			echo "$boot $word${argument:+ $argument}"
		fi
	done
	((!dropped)) || note "$boot: dropped $dropped of the lines that it said; the first one: ${first//[^[:print:]]/?}"
}

# is_known GUEST WORD ARGUMENT: would guest/session say that, in this guest?
is_known() {
	[[ $2 =~ ^[a-z-]+$ ]] || return 1
	case $mode.${side[$1]}.$2 in
	*.started | *.shell-ended | *.server.ready) [[ -z $3 ]] ;;
	*.taint) is_number 0 999999999 "$3" ;;
	*.exit) is_number 0 255 "$3" ;;
	*.fail) [[ $3 =~ ^[[:print:]]+$ ]] ;;
	*.server.memory) [[ $3 =~ ^(link|device|region|piece|window|sent|unknown)' '[[:print:]]+$ ]] ;;
	*.client.kill-server | group.client.start-server) is_number 1 ${#servers[@]} "$3" ;;
	*) return 1 ;;
	esac
}

# is_number MIN MAX TEXT
is_number() { [[ $3 =~ ^(0|[1-9][0-9]{0,8})$ ]] && (($1 <= $3 && $3 <= $2)); }
