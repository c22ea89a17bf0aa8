# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder, which share its variables
#
# The command line: checks it, and puts it into option[] and a few variables.

usage() {
	cat <<'END'
Usage: rxe-vm run   [OPTION...] -- COMMAND [ARG...]
       rxe-vm pair  [OPTION...] --server COMMAND --client COMMAND
       rxe-vm group [OPTION...] [--server COMMAND]... --client COMMAND [--client COMMAND]...
       rxe-vm shell [OPTION...]
       rxe-vm attach [GUEST | RUN/GUEST]
       rxe-vm kconfig
       rxe-vm demo  [RECORDS]

run    runs COMMAND in one guest.  rxe-vm ends with COMMAND's exit status.
pair   runs two shell commands in two guests on one Ethernet link.  The client
       starts when the server is ready: when it has run `rxe-ready` or listens
       on TCP or with rdma_cm.  rxe-vm prints what the client prints.  The server's
       output goes to stderr with the prefix "server: ".  rxe-vm ends with the
       client's exit status.  If that is 0, the server must also end by itself,
       within 20 s and with status 0.
group  runs up to 8 shell commands in as many guests, server1, server2 ..., client1
       ..., on one Ethernet segment.  The guests know each other by these names.  The
       clients start when all servers are ready.  rxe-vm ends with the exit status of
       the first client that fails.  The servers end as in a pair.
       On a terminal, one of the commands of a pair or a group may be a shell, `bash`.
shell  opens a shell in one guest.
attach opens a shell in a running guest of the newest run, or of the folder RUN.
       The shell ends with the guest's command at the latest.
kconfig  prints the options that a guest's kernel needs, to add to a tree's:
       rxe-vm kconfig >>.config && make olddefconfig
demo   shows a log in a remote guest's persistent memory, which survives a power cut.
--version prints the version of this tool.

Options of a guest.  In a pair or a group --mem is for all guests, --server-mem for one
side, --server2-mem for one guest; this is so for each of these options:
  --kernel KERNEL     kernel to boot: a kernel tree, or the folder of an O= build,
                      as `make` leaves it; the folder of an unpacked package; or
                      an image, whose modules may be beside it, in lib/modules
                      there, in ../{,usr/}lib/modules, or in /lib/modules
                      (default: build/$BASE/bzImage, with DEBUG=1 build/$BASE-debug/bzImage,
                      with DEBUG=kcsan build/$BASE-kcsan/bzImage)
  --rdma-core DIR     rdma-core to use: a build in place, with bin, lib and
                      python (default build/rdma-core, with RDMA_CORE=v65
                      build/rdma-core-v65)
  --mem SIZE          memory, e.g. 2G (default 1G)
  --cpus N            CPUs (default 2)
  --pmem SIZE         an NVDIMM, fresh for this run, as /dev/dax0.0
  --pmem FILE[:SIZE]  an NVDIMM whose content stays in FILE; if there is no FILE,
                      it is made; a blank NVDIMM becomes device DAX
  --nvme SIZE         an NVMe device with an empty disk of this size, /dev/nvme0n1
  --cmb SIZE          its controller memory buffer, a power of two, e.g. 16M
  --pmr SIZE          its persistent memory region, a power of two
  --pmr FILE[:SIZE]   one whose content stays in FILE
  --share DIR         a folder of the host that the guest may write to
  --delay TIME        delay what the guest sends, for example by 1ms
  --loss PERCENT      lose packets that the guest sends, by chance, for example 1%:
                      different ones in each run.  Neither option is for what the
                      guest sends to itself
  --append ARGS       more kernel parameters
  --qemu ARGS         more arguments of QEMU, words quoted as in a shell

Options of the run:
  --ipv6              the addresses are IPv6
  --vlan ID           the addresses are those of eth0.ID, in this VLAN (GID 1 is
                      always that of RXE_ADDR)
  --mtu BYTES         of the network cards (default 1500, which gives RoCE a path
                      MTU of 1024; 4200 gives 4096)
  --name NAME         part of the name of the run's folder under build/out
  --timeout SECONDS   deadline of the whole run (default 300; with a shell, none)
  --record-cpu        of a pair, record what the server's programs store to its NVDIMM by
                      themselves, write back, and wait for, for crash-states; wants
                      QEMU 9.2 or newer, without KVM
  --no-capture        no *.pcap: writing them takes time from the guests
  --stop-server       the server is a daemon.  It gets SIGTERM when the client
                      has ended, and its status does not count
  --kill-server       cut the power of the server's guest when the client has ended
                      (`rxe-kill-server [N]` in the client's guest does so at once;
                      `rxe-start-server N`, in a group, boots server N again, on the
                      same NVDIMM, and ends when it is ready)
  --kill-server=lose[:SEED]
                      also leave in the server's NVDIMM only what a power failure
                      may leave: Documentation/crash-states.rst (a pair needs
                      --server-pmem FILE:SIZE).  SEED (by chance, if not given) decides
                      what: for the B-th boot of the N-th server it is
                      SEED + 8 (B - 1) + N - 1, as printed.  It repeats the losses of
                      one recording, not the run itself

Exit status: 0 pass, 1 fail (or what the command ended with), 4 skip, 3 lost: a
guest died or missed its deadline, 5 the kernel is in trouble (oops, WARNING,
lockdep, KASAN, ...), 2 wrong usage.

In a guest: RXE_ROLE (guest, server or client), RXE_NAME, RXE_ADDR, RXE_PEER_ADDR, RXE_PEER_ADDRS
(of all servers for a client, of all clients for a server).

Environment: BASE (v6.1), RDMA_CORE (v56), DEBUG (1 or kcsan), QEMU (qemu-system-x86_64),
QEMU_ACCEL (kvm, tcg), RXE_TIME_SCALE (1, for a debug kernel 4: multiplies all
deadlines; KSFT_TIMEOUT_SCALE in the guest), RXE_OUT (where the folder of the run
is made: build/out of the tree or release; ~/.local/state/rxe-mpe if installed).
END
}

terminal=		# the guest that has ours
mode=			# run, shell, pair, group
guests=()		# their names, servers first: server1 server2 client1; server client; guest
servers=() clients=()	# of these
declare -A side=()	# guest -> guest, server, client
declare -A number=()	# guest -> 1 to 8, the last part of its addresses
declare -A option=()	# guest.name -> value, or lines of values where more than one may be given
name=
timeout=
server_end=self		# self, stop, kill
lose=			# seed of what a power failure takes
ipv6=	# of the link, with these two
vlan=
mtu=
capture=1	# what goes over the network cards
record_cpu=	# of the server

max_guests=8
# As they were given: option, whose (all, server, client, server2 ...), value.
given_keys=() given_whose=() given_values=()
server_commands=() client_commands=()

# check_option NAME VALUE
check_option() {
	case $1 in
	kernel | append) ;;
	qemu) quoted_words "$2" >/dev/null || die "--qemu $2: a quote is not closed" ;;
	delay) [[ $2 =~ ^[0-9]+(us|ms|s)$ ]] || die "--delay $2: say for example 500us or 1ms" ;;
	loss) [[ $2 =~ ^([0-9]{1,2}(\.[0-9]+)?|100)%$ ]] || die "--loss $2: say for example 1%" ;;
	rdma-core) [[ -e $2/lib/libibverbs.so ]] || die "--rdma-core $2: no build of rdma-core is there" ;;
	mem) megabytes "$2" >/dev/null ;;
	cpus) [[ $2 =~ ^[1-9][0-9]*$ ]] || die "--cpus $2: not a number of CPUs" ;;
	pmem) pmem_size "$2" >/dev/null ;;
	nvme) megabytes "$2" >/dev/null ;;
	cmb | pmr) check_bar "$1" "$2" ;;
	share) [[ -d $2 ]] || die "--share $2: no such folder" ;;
	*) die "unknown option --$1 (rxe-vm --help)" ;;
	esac
}

# set_option GUEST NAME VALUE
set_option() {
	case $2 in
	pmem | share | append | qemu) option[$1.$2]+=$3$'\n' ;;
	*) option[$1.$2]=$3 ;;
	esac
}

parse_command_line() {
	local key whose
	case ${1-} in
	run | shell | pair | group) mode=$1 ;;
	attach)
		shift
		attach "$@"
		exit ;;
	kconfig)
		(($# == 1)) || die "'$2': rxe-vm kconfig takes no options"
		exec cat "$root/kernel/config/guest.config" ;;
	demo) check_machine; exec "$root/selftests/examples/demo.sh" "${@:2}" ;;
	--version) version rxe-vm; exit ;;
	-h | --help | help) usage; exit ;;
	'') usage >&2; exit 2 ;;
	*) die "no such thing as '$1': say run, pair, group, shell, attach, kconfig or demo (rxe-vm --help)" ;;
	esac
	shift

	while (($#)); do
		key=${1#--}
		case $key in
		help) usage; exit ;;
		ipv6) ipv6=1; shift; continue ;;
		no-capture) capture=; shift; continue ;;
		record-cpu) record_cpu=1; shift; continue ;;
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
		vlan)
			[[ $2 =~ ^[1-9][0-9]{0,3}$ && $2 -lt 4095 ]] || die "--vlan $2: a VLAN has a number from 1 to 4094"
			vlan=$2 ;;
		mtu)
			[[ $2 =~ ^[1-9][0-9]{0,4}$ && $2 -ge 576 && $2 -le 65000 ]] || die "--mtu $2: a network card takes 576 to 65000 bytes"
			mtu=$2 ;;
		server | client | server[-1-9]* | client[-1-9]*)
			[[ $mode == pair || $mode == group ]] || die "$1: only rxe-vm pair and group have servers and clients"
			case $key in
			server) server_commands+=("$2") ;;
			client) client_commands+=("$2") ;;
			*)
				whose=${key%%-*}
				check_option "${key#*-}" "$2"
				given_whose+=("$whose") given_keys+=("${key#*-}") given_values+=("$2") ;;
			esac ;;
		*)
			check_option "$key" "$2"
			given_whose+=(all) given_keys+=("$key") given_values+=("$2") ;;
		esac
		shift 2
	done
	[[ -z $ipv6 || ${mtu:-1500} -ge 1280 ]] || die "--mtu $mtu: IPv6 wants 1280 or more"
	name_guests "$@"
	distribute_options
	check_server_end
	check_pmem
	check_nvme
	check_record_cpu
	[[ -z ${option[guest.delay]-}${option[guest.loss]-} ]] ||
		note "--delay, --loss: what a guest sends to itself is neither late nor lost"
	find_terminal
	name=${name:-$mode}
	timeout=${timeout:-300}
}

# add_guest NAME SIDE COMMAND
add_guest() {
	guests+=("$1")
	side[$1]=$2 number[$1]=${#guests[@]} option[$1.command]=$3
	case $2 in
	server) servers+=("$1") ;;
	client) clients+=("$1") ;;
	esac
}

# name_guests WORD...: those after the options
name_guests() {
	local -i n
	case $mode in
	run)
		(($#)) || die "no command given: rxe-vm run -- COMMAND [ARG...]"
		add_guest guest guest "$(sh_quote "$@")"
		return ;;
	shell)
		((!$#)) || die "'$1': rxe-vm shell takes no command"
		tty -s || die "rxe-vm shell wants a terminal"
		add_guest guest guest "exec bash -i"
		take_terminal guest
		return ;;
	esac
	((!$#)) || die "'$1': the commands of a $mode are given by --server and --client, as one string each"
	[[ $mode == group ]] || ((${#server_commands[@]})) || die "no command given: --server COMMAND"
	((${#client_commands[@]})) || die "no command given: --client COMMAND"
	if [[ $mode == pair ]]; then
		((${#server_commands[@]} + ${#client_commands[@]} == 2)) ||
			die "a pair has one --server and one --client: for more say rxe-vm group"
		add_guest server server "${server_commands[0]}"
		add_guest client client "${client_commands[0]}"
		return
	fi
	((${#server_commands[@]} + ${#client_commands[@]} <= max_guests)) ||
		die "a group has up to $max_guests guests, not $((${#server_commands[@]} + ${#client_commands[@]}))"
	for n in "${!server_commands[@]}"; do
		add_guest "server$((n + 1))" server "${server_commands[n]}"
	done
	for n in "${!client_commands[@]}"; do
		add_guest "client$((n + 1))" client "${client_commands[n]}"
	done
}

# It has our terminal for as long as one likes.
take_terminal() {
	[[ -z $terminal ]] || die "$terminal and $1 cannot both have the terminal: use rxe-vm attach for one"
	terminal=$1
	timeout=${timeout:-1000000}
}

# A command of a pair or a group that is a shell and nothing else.
find_terminal() {
	local guest
	[[ $mode == pair || $mode == group ]] && tty -s || return 0
	for guest in "${guests[@]}"; do
		[[ ! ${option[$guest.command]} =~ ^(/[a-z/]*/)?(ba|da|z)?sh(\ -i)?$ ]] || take_terminal "$guest"
	done
}

# Each option to the guests that it is for; of two, the later one counts.
distribute_options() {
	local -i i found
	local guest whose
	for i in "${!given_keys[@]}"; do
		whose=${given_whose[i]} found=0
		for guest in "${guests[@]}"; do
			[[ $whose == all || $whose == "${side[$guest]}" || $whose == "$guest" ]] || continue
			set_option "$guest" "${given_keys[i]}" "${given_values[i]}"
			found=1
		done
		((found)) || die "--$whose-${given_keys[i]}: there is no $whose"
	done
}

check_server_end() {
	[[ $server_end == self ]] || ((${#servers[@]})) || die "--$server_end-server: there is no server"
	[[ -z $lose || -n $capture ]] || die "--kill-server=lose looks at the capture: leave out --no-capture"
}

# A file is the NVDIMM of one guest; and what takes from it wants one.
check_pmem() {
	local guest spec file
	local -A owner=()
	for guest in "${guests[@]}"; do
		while IFS= read -r spec; do
			file=$(pmem_file "$spec")
			[[ -n $file ]] || continue
			file=$(readlink -m "$file")
			[[ -z ${owner[$file]-} ]] ||
				die "--pmem $spec: ${owner[$file]} and $guest cannot share an NVDIMM: say --$guest-pmem OTHER"
			owner[$file]=$guest
		done <<<"${option[$guest.pmem]-}"
	done
	[[ -n $lose ]] || return 0
	[[ -x $crash_states ]] || die "there is no $crash_states: $(to_build selftests)"
	for guest in "${servers[@]}"; do
		[[ $mode == group || -n $(pmem_file "$(first_pmem "$guest")") ]] ||
			die "--kill-server=lose wants the NVDIMM to outlive the run: --server-pmem FILE:SIZE"
		[[ -n $(first_pmem "$guest") ]] || die "--kill-server=lose wants an NVDIMM: --$guest-pmem SIZE"
	done
}

check_record_cpu() {
	[[ -n $record_cpu ]] || return 0
	[[ $mode == pair ]] || die "--record-cpu: only rxe-vm pair records the CPU of its server"
	[[ -n $(first_pmem server) ]] || die "--record-cpu wants an NVDIMM: --server-pmem SIZE"
	[[ -n $capture ]] || die "--record-cpu wants the capture, which gives the time: leave out --no-capture"
	[[ -e $cpu_recorder ]] || die "there is no $cpu_recorder: $(to_build selftests)"
}

# Both are memory of the NVMe device.
check_nvme() {
	local guest
	for guest in "${guests[@]}"; do
		[[ -n ${option[$guest.nvme]-} || -z ${option[$guest.cmb]-}${option[$guest.pmr]-} ]] ||
			die "--cmb, --pmr: $guest has no NVMe device: say --nvme SIZE, too"
	done
}

# The guest's first NVDIMM, as it was asked for.
first_pmem() { head -n 1 <<<"${option[$1.pmem]-}"; }

# The words, quoted for any POSIX shell.
sh_quote() {
	local word
	for word; do
		printf "'%s' " "${word//\'/\'\\\'\'}"
	done
}

# quoted_words TEXT: its words, each with a zero after it; quotes and backslashes are the shell's.
quoted_words() { xargs -r printf '%s\0' <<<"$1" 2>/dev/null; }

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

# file_size OPTION SIZE|FILE[:SIZE]: in MiB.
file_size() {
	local file size=
	file=$(pmem_file "$2")
	[[ -n $file && $2 != *:* ]] || size=$(megabytes "${2##*:}")
	if [[ -n $file && -e $file ]]; then
		[[ -f $file && -r $file && -w $file ]] || die "$1 $2: you cannot read and write $file"
		local -i have=$(($(stat -L -c %s "$file") / 1024 / 1024))
		[[ -z $size || $size == "$have" ]] || die "$1 $2: $file has ${have}M"
		size=$have
	fi
	[[ -n $size ]] || die "$1 $2: no such file; say $2:SIZE to make one"
	echo "$size"
}

# pmem_size SIZE|FILE[:SIZE]: in MiB.
pmem_size() {
	local size
	size=$(file_size --pmem "$1") || exit
	((size >= 16 && size % 16 == 0)) || die "--pmem $1: the size must be a multiple of 16M"
	echo "$size"
}

# check_bar cmb|pmr SIZE|FILE[:SIZE]: each is one BAR of the NVMe device.
check_bar() {
	local size
	case $1 in
	cmb) size=$(megabytes "$2") ;;
	pmr) size=$(file_size --pmr "$2") ;;
	esac || exit
	((size > 0 && (size & (size - 1)) == 0)) || die "--$1 $2: the size must be a power of two"
}
