# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder: they share its variables
#
# What the user wants: the words of the command line, checked, as option[] and a few variables.

usage() {
	cat <<'END'
Usage: rxe-vm run   [OPTION...] -- COMMAND [ARG...]
       rxe-vm pair  [OPTION...] --server COMMAND --client COMMAND
       rxe-vm shell [OPTION...]
       rxe-vm kconfig

run    runs COMMAND in one guest; its exit status is that of rxe-vm.
pair   runs two shell commands in two guests on one Ethernet link.  The client
       starts when the server is ready: when it ran `rxe-ready` or listens on
       TCP or with rdma_cm.  rxe-vm's output is the client's; the server's goes
       to stderr behind "server: ".  The client's status is the pair's; if it is
       0, the server has to end by itself, too, within 20 s and with status 0.
shell  opens a shell in one guest.
kconfig  prints the options that a guest's kernel needs, to be added to those of
       a tree: rxe-vm kconfig >>.config && make olddefconfig

Options of a guest (in a pair of both; --server-... and --client-... of one):
  --kernel KERNEL     kernel to boot: a kernel tree, or the folder of an O= build,
                      as `make` leaves it; the folder of an unpacked package; or
                      an image, whose modules are looked for beside it, in
                      lib/modules there, in ../{,usr/}lib/modules, and in /lib/modules
                      (default: build/$BASE/bzImage, with DEBUG=1 build/$BASE-debug/bzImage,
                      with DEBUG=kcsan build/$BASE-kcsan/bzImage)
  --rdma-core DIR     rdma-core to use: a build in place, with bin, lib and
                      python (default build/rdma-core, with RDMA_CORE=v65
                      build/rdma-core-v65)
  --mem SIZE          memory, e.g. 2G (default 1G)
  --cpus N            CPUs (default 2)
  --pmem SIZE         an NVDIMM, fresh for this run, as /dev/dax0.0
  --pmem FILE[:SIZE]  an NVDIMM whose content stays in FILE, made if absent;
                      a blank one becomes device DAX
  --share DIR         a folder of the host that the guest may write
  --append ARGS       more kernel parameters
  --qemu ARGS         more arguments of QEMU

Options of the run:
  --name NAME         part of the name of the run's folder under build/out
  --timeout SECONDS   deadline of the whole run (default 300; of a shell, none)
  --stop-server       the server is a daemon: it gets SIGTERM when the client
                      has ended, and its status does not count
  --kill-server       power the server's guest off hard when the client has ended
                      (`rxe-kill-server` in the client's guest does so at once)
  --kill-server=lose[:SEED]
                      and leave in the server's NVDIMM, a FILE, what a power
                      failure may leave there: see Documentation/crash-model.rst

Exit status: 0 pass, 1 fail (or what the command ended with), 4 skip, 3 lost: a
guest died or missed its deadline, 5 the kernel is in trouble (oops, WARNING,
lockdep, KASAN, ...), 2 wrong usage.

Environment: BASE (v6.1), RDMA_CORE (v56), DEBUG (1 or kcsan), QEMU (qemu-system-x86_64),
QEMU_ACCEL (kvm, tcg), RXE_TIME_SCALE (1, of a debug kernel 4: all deadlines
times this; in the guest KSFT_TIMEOUT_SCALE), RXE_OUT (build/out: where the
folder of the run is made).
END
}

declare -A option=()	# role.name -> value, or lines of values where more than one may be given
roles=()
name=
timeout=
server_end=self		# self, stop, kill
lose=			# seed of what the power failure takes

# guest_option ROLE NAME VALUE
guest_option() {
	local list=
	case $2 in
	kernel) ;;
	rdma-core) [[ -e $3/lib/libibverbs.so ]] || die "--rdma-core $3: no build of rdma-core is there" ;;
	mem) megabytes "$3" >/dev/null ;;
	cpus) [[ $3 =~ ^[1-9][0-9]*$ ]] || die "--cpus $3: not a number of CPUs" ;;
	pmem) pmem_size "$3" >/dev/null; list=1 ;;
	share) [[ -d $3 ]] || die "--share $3: no such folder"; list=1 ;;
	append | qemu) list=1 ;;
	*) die "unknown option --$2 (rxe-vm --help)" ;;
	esac
	if [[ -n $list ]]; then
		option[$1.$2]+=$3$'\n'
	else
		option[$1.$2]=$3
	fi
}

parse_command_line() {
	local role key
	case ${1-} in
	run | shell) roles=(guest) ;;
	pair) roles=(server client) ;;
	kconfig)
		(($# == 1)) || die "'$2': rxe-vm kconfig takes no options"
		exec cat "$root/kernel/config/guest.config" ;;
	-h | --help | help) usage; exit ;;
	'') usage >&2; exit 2 ;;
	*) die "no such thing as '$1': say run, pair, shell or kconfig (rxe-vm --help)" ;;
	esac
	mode=$1
	shift

	while (($#)); do
		key=${1#--}
		case $key in
		help) usage; exit ;;
		stop-server) server_end=stop; shift; continue ;;
		kill-server) server_end='kill'; shift; continue ;;
		kill-server=*)
			[[ $key =~ ^kill-server=lose(:([0-9]{1,18}))?$ ]] || die "$1: say --kill-server=lose or --kill-server=lose:SEED"
			server_end='kill' lose=${BASH_REMATCH[2]:-$((RANDOM * 32768 + RANDOM))}
			shift; continue ;;
		'') shift; break ;;
		esac
		[[ $1 == --* ]] || break
		(($# > 1)) || die "$1 wants a value, or is no option (rxe-vm --help)"
		case $key in
		name)
			[[ $2 =~ ^[A-Za-z0-9._-]+$ ]] || die "--name '$2': letters, digits, dot, dash and underscore only"
			name=$2 ;;
		timeout)
			[[ $2 =~ ^[1-9][0-9]*$ ]] || die "--timeout $2: not a number of seconds"
			timeout=$2 ;;
		server | client | server-* | client-*)
			[[ $mode == pair ]] || die "$1: only rxe-vm pair has a server and a client"
			case $key in
			*-*) guest_option "${key%%-*}" "${key#*-}" "$2" ;;
			*) option[$key.command]=$2 ;;
			esac ;;
		*)
			for role in "${roles[@]}"; do
				guest_option "$role" "$key" "$2"
			done ;;
		esac
		shift 2
	done

	case $mode in
	run)
		(($#)) || die "no command given: rxe-vm run -- COMMAND [ARG...]"
		option[guest.command]=$(sh_quote "$@") ;;
	pair)
		((!$#)) || die "'$1': the commands of a pair are given by --server and --client, as one string each"
		for role in "${roles[@]}"; do
			[[ -n ${option[$role.command]-} ]] || die "no command given: --$role COMMAND"
		done ;;
	shell)
		((!$#)) || die "'$1': rxe-vm shell takes no command"
		tty -s || die "rxe-vm shell wants a terminal"
		timeout=${timeout:-1000000} ;;	# as long as one likes
	esac
	if [[ -n $lose ]]; then
		[[ -n $(pmem_file "$(server_pmem)") ]] ||
			die "--kill-server=lose wants the NVDIMM to outlive the run: --server-pmem FILE:SIZE"
		[[ -x $crash_states ]] || die "there is no $crash_states: run \`make selftests\`"
	fi
	name=${name:-$mode}
	timeout=${timeout:-300}
}

# The server's first NVDIMM, as it was asked for.
server_pmem() { head -n 1 <<<"${option[server.pmem]-}"; }

# The words, quoted for any POSIX shell.
sh_quote() {
	local word
	for word; do
		printf "'%s' " "${word//\'/\'\\\'\'}"
	done
}

# megabytes SIZE: 256M, 4G -> 256, 4096
megabytes() {
	[[ $1 =~ ^([1-9][0-9]*)([MG])$ ]] || die "'$1' is not a size: say for example 256M or 4G"
	case ${BASH_REMATCH[2]} in
	M) echo "${BASH_REMATCH[1]}" ;;
	G) echo $((BASH_REMATCH[1] * 1024)) ;;
	esac
}

# pmem_file SIZE|FILE[:SIZE]: the file that keeps the content, if any.
pmem_file() {
	[[ $1 =~ ^[0-9]+[MG]?$ ]] || echo "${1%:*}"
}

# pmem_size SIZE|FILE[:SIZE]: in MiB.
pmem_size() {
	local file size=
	file=$(pmem_file "$1")
	[[ -n $file && $1 != *:* ]] || size=$(megabytes "${1##*:}")
	if [[ -n $file && -e $file ]]; then
		[[ -f $file && -r $file && -w $file ]] || die "--pmem $1: you cannot read and write $file"
		local -i have=$(($(stat -L -c %s "$file") / 1024 / 1024))
		[[ -z $size || $size == "$have" ]] || die "--pmem $1: $file has ${have}M"
		size=$have
	fi
	[[ -n $size ]] || die "--pmem $1: no such file; say $1:SIZE to make one"
	((size >= 16 && size % 16 == 0)) || die "--pmem $1: the size must be a multiple of 16M"
	echo "$size"
}
