# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # rxe-vm sources all files of this folder, which share its variables
#
# What a guest is: the command line of its QEMU, and the environment of what runs in it.

# The addresses, one in each line, of these guests.
addresses() {
	local guest
	for guest; do
		echo "$([[ -n $ipv6 ]] && echo 2001:db8:: || echo 192.0.2.)${number[$guest]}"
	done
}

# The guests that this one is to talk with: the other side; of a single one, itself.
peers_of() {
	case ${side[$1]} in
	server) addresses "${clients[@]}" ;;
	client) addresses "${servers[@]}" ;;
	guest) addresses "$1" ;;
	esac
}

# tells_lines GUEST: does crash-states want to know what it prints?  Not before the program is built.
tells_lines() {
	local server
	[[ ${side[$1]} == client && -x $root/build/crash/tell-lines ]] || return
	for server in "${servers[@]}"; do
		[[ -z ${option[$server.pmem]-} ]] || return 0
	done
	return 1
}

# write_env GUEST: what guest/init and guest/session want to know.
write_env() {
	local guest=$1 peers dir rdma_core
	local -i shares=0
	rdma_core=$(readlink -m "${option[$guest.rdma-core]-$root/$rdma_core_folder}")
	peers=$(peers_of "$guest")
	env_line() { echo "$1=$(sh_quote "$2")"; }
	env_line RXE_ROLE "${side[$guest]}"
	env_line RXE_NAME "$guest"
	env_line RXE_ADDR "$(addresses "$guest")"
	env_line RXE_PEER_ADDR "${peers%%$'\n'*}"
	env_line RXE_PEER_ADDRS "${peers//$'\n'/ }"
	env_line RXE_SERVERS "${#servers[@]}"
	env_line RXE_HOSTS "$(paste -d ' ' <(addresses "${guests[@]}") <(printf '%s\n' "${guests[@]}"))"
	env_line RXE_MTU "$mtu"
	env_line RXE_VLAN "$vlan"
	env_line RXE_NETEM "${option[$guest.delay]+delay ${option[$guest.delay]} }${option[$guest.loss]+loss ${option[$guest.loss]}}"
	env_line RXE_ACCEL "$accel"
	env_line KSFT_TIMEOUT_SCALE "$scale"
	env_line RXE_LAB "$here"
	env_line RXE_RDMA_CORE "$rdma_core"
	env_line RXE_CWD "$PWD"
	env_line RXE_SHELL "$([[ $guest != "$terminal" ]] || stty size)"
	env_line RXE_COMMAND "${option[$guest.command]-}"
	env_line RXE_MODULES "${modules[$guest]}"
	while IFS= read -r dir; do
		[[ -n $dir ]] || continue
		env_line "RXE_SHARE_$shares" "$(readlink -f "$dir")"
		shares+=1
	done <<<"${option[$guest.share]-}"
	env_line RXE_SHARES "$shares"
	env_line RXE_TELL_LINES "$(tells_lines "$guest" && echo "$root/build/crash/tell-lines")"
	env_line RXE_NVME_DISK "${option[$guest.nvme]-}"
	env_line RXE_NVDIMMS "$(grep -c . <<<"${option[$guest.pmem]-}")"
	env_line PATH "$rdma_core/bin:$root/build/iproute2/bin:$root/build/selftests:$here/guest/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"
	env_line LD_LIBRARY_PATH "$rdma_core/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
	env_line PYTHONPATH "$rdma_core/python${PYTHONPATH:+:$PYTHONPATH}"
	env_line HOME /tmp
	env_line TERM "${TERM:-dumb}"
	env_line LANG C.UTF-8
}

# A comma in a value is doubled, for QEMU.
value() { printf %s "${1//,/,,}"; }

# pmem_path GUEST N SPEC: the file of its N-th NVDIMM
pmem_path() {
	local file
	file=$(pmem_file "$3")
	case $mode in
	# There server1.pmem0 is a copy, of the end of the first boot.
	group) echo "${file:-$run/$1.nvdimm$2}" ;;
	*) echo "${file:-$run/$1.pmem$2}" ;;
	esac
}

# Until this run ends no other one shall write to it.  What had it before may be about to end.
declare -A locked=()	# file -> file descriptor
# lock_file OPTION FILE
lock_file() {
	local fd
	[[ -z ${locked[$2]-} ]] || return 0
	exec {fd}<"$2"
	flock -w 5 "$fd" || (($? != 1)) || die "$1 $2: another run uses it"
	locked[$2]=$fd
}

# add_pmem GUEST SPEC: one more NVDIMM.
add_pmem() {
	local file at=
	local -i size
	size=$(pmem_size "$2")
	file=$(pmem_path "$1" "$pmems" "$2")
	[[ -e $file ]] || truncate -s "${size}M" "$file" || die "--pmem $2: cannot make $file"
	lock_file --pmem "$(readlink -f "$file")"
	[[ $pmems != 0 || -z $place ]] || at=,addr=$place
	qemu+=(
		-object "memory-backend-file,id=pmem$pmems,mem-path=$(value "$(readlink -f "$file")"),size=${size}M,share=on"
		-device "nvdimm,memdev=pmem$pmems,id=nvdimm$pmems$at"
	)
	pmems+=1
	memory_top+=size
}

# record_cpu_of GUEST BOOT: crash-states wants to know what its programs do to the first NVDIMM.  This has the place where
# QEMU puts it, the next GiB after 4 GiB and the memory that the machine has there.  QEMU 9.2 to 10.0 do not translate
# addresses, so the recorder reads the page tables, and Linux tells where these are unless it hides them (KASLR).  For REP
# MOVSB, each byte would be a store.
record_cpu_of() {
	local -i above=$((memory < 2816 ? 0 : memory - 2048))
	place=$(((4096 + above + 1023) / 1024 << 30))
	append+=" nokaslr"
	qemu+=(-cpu "max,-erms,-fsrm" -plugin "$(value "$cpu_recorder"),base=$place,size=$(($(pmem_size "$(first_pmem "$1")") << 20)),pcap=$2.pcap,start=$2.pmem0.start,to=$2.cpu")
}

# add_nvme GUEST: an NVMe device; its own memory is not the guest's.
add_nvme() {
	local pmr=${option[$1.pmr]-} disk=$run/$1.nvme file device
	device="nvme,serial=rxe-$1,drive=nvme${option[$1.cmb]:+,cmb_size_mb=$(megabytes "${option[$1.cmb]}")}"
	[[ -e $disk ]] || truncate -s "$(megabytes "${option[$1.nvme]}")M" "$disk" || die "--nvme: cannot make $disk"
	if [[ -n $pmr ]]; then
		file=$(pmem_file "$pmr")
		file=${file:-$run/$1.pmr}
		[[ -e $file ]] || truncate -s "$(file_size --pmr "$pmr")M" "$file" || die "--pmr $pmr: cannot make $file"
		lock_file --pmr "$(readlink -f "$file")"
		qemu+=(-object "memory-backend-file,id=pmr,mem-path=$(value "$(readlink -f "$file")"),size=$(file_size --pmr "$file")M,share=on")
		device+=,pmrdev=pmr
	fi
	qemu+=(-drive "id=nvme,if=none,format=raw,file=$(value "$disk")" -device "$device")
}

# Two guests have a cable, more a hub: one that goes shall not take the link of the others with it.
# compose_segment: sets qemu[] to the command that is this hub, a QEMU without a machine.
compose_segment() {
	local guest
	qemu=("$qemu_program" -name rxe-segment -machine none -nodefaults -no-user-config -display none
		-chardev "file,id=qmp,path=events" -mon "chardev=qmp,mode=control")
	for guest in "${guests[@]}"; do
		qemu+=(-netdev "stream,id=$guest,server=on,addr.type=unix,addr.path=link.$guest"
			-netdev "hubport,id=port-$guest,hubid=0,netdev=$guest")
	done
}

# compose_qemu GUEST BOOT: sets qemu[] to the command that boots it.  It runs in the run's
# folder, so its own files have short names (a socket's path is limited).
compose_qemu() {
	local guest=$1 boot=$2 link spec dir append place=
	local -a sink=() words
	local -i pmems=0 shares=0 memory memory_top
	memory=$(megabytes "${option[$guest.mem]:-1G}")
	memory_top=memory
	case $mode.${side[$guest]} in
	group.*) link=stream,id=net,server=off,addr.type=unix,addr.path=link.$guest ;;
	pair.server) link=stream,id=net,server=on,addr.type=unix,addr.path=link ;;
	pair.client) link=stream,id=net,server=off,addr.type=unix,addr.path=link ;;
	# A hub wants a second port, or nothing that is sent ever counts as sent.
	*) link=hubport,id=net,hubid=0 sink=(-netdev "hubport,id=sink,hubid=0") ;;
	esac

	qemu=("$qemu_program" -name "rxe-$guest" -nodefaults -no-user-config
		-display none -no-reboot -machine "q35,nvdimm=on,nvdimm-persistence=mem-ctrl"
		-smp "${option[$guest.cpus]:-2}" -kernel "${image[$guest]}" -initrd "${initramfs[$guest]}")
	# A kernel in trouble says so and ends.
	append="console=ttyS0 ignore_loglevel printk.devkmsg=on panic=-1 oops=panic mitigations=off"
	# Emulated CPUs are slow, not stuck, and share one TSC, the host's: HPET,
	# which the kernel would take instead, costs them a global lock.
	case $accel in
	tcg)
		# A thread for each CPU, unless -icount makes the guest's time a count of instructions.
		# If a CPU gets no further than its own exceptions, QEMU ends without a word but this.
		qemu+=(-accel tcg -cpu max -d cpu_reset -D "$boot.qemu.resets")
		# Before 8.2, where one CPU uses a device's registers while another moves a BAR, QEMU takes the wrong
		# device for it, or dies: guest/init brings the other CPUs when the drivers have their devices.
		append+=" maxcpus=1 noreplace-smp"
		append+=" watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 no_timer_check tsc=reliable"
		append+=$(known_tsc)
		# While a CPU comes up, Linux 7.3 with KASAN may forget for a moment that there are five levels of page
		# tables, and then takes good addresses for bad.
		append+=" no5lvl" ;;
	*)
		qemu+=(-accel "$accel" -cpu host) ;;
	esac
	[[ -z $record_cpu || ${side[$guest]} != server ]] || record_cpu_of "$guest" "$boot"
	append+=" rxe.guest=\"$run/$boot\" ${option[$guest.append]-}"
	qemu+=(-append "${append//$'\n'/ }")

	qemu+=(
		-chardev "file,id=console,path=$boot.console" -serial "chardev:console"
		-device virtio-serial-pci
		-chardev "pipe,id=control,path=$boot.control" -device "virtserialport,chardev=control,nr=1,name=control"
		-chardev "file,id=stdout,path=$boot.stdout" -device "virtserialport,chardev=stdout,nr=2,name=stdout"
		-chardev "file,id=stderr,path=$boot.stderr" -device "virtserialport,chardev=stderr,nr=3,name=stderr"
		# QMP's greeting says that QEMU has opened everything.
		-chardev "file,id=qmp,path=events" -mon "chardev=qmp,mode=control"
		-netdev "$link" "${sink[@]}" -device "virtio-net-pci,netdev=net,mac=52:54:00:00:00:0${number[$guest]}"
		-device virtio-rng-pci
		-fsdev "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"
		-device "virtio-9p-pci,fsdev=root,mount_tag=root"
	)
	[[ -z $capture ]] || qemu+=(-object "filter-dump,id=dump,netdev=net,file=$boot.pcap")
	if [[ $guest == "$terminal" ]]; then
		qemu+=(-chardev "stdio,id=shell,signal=off")
	else
		# For rxe-vm attach.
		qemu+=(-chardev "pipe,id=shell,path=$boot.shell")
	fi
	qemu+=(-device "virtconsole,chardev=shell")
	while IFS= read -r spec; do
		[[ -z $spec ]] || add_pmem "$guest" "$spec"
	done <<<"${option[$guest.pmem]-}"
	while IFS= read -r dir; do
		[[ -n $dir ]] || continue
		qemu+=(-fsdev "local,id=share$shares,path=$(value "$(readlink -f "$dir")"),security_model=none"
			-device "virtio-9p-pci,fsdev=share$shares,mount_tag=share$shares")
		shares+=1
	done <<<"${option[$guest.share]-}"
	[[ -z ${option[$guest.nvme]-} ]] || add_nvme "$guest"
	qemu+=(-m "${memory}M,slots=$((pmems + 1)),maxmem=$((memory_top + 1024))M")
	mapfile -d '' -t words < <(quoted_words "${option[$guest.qemu]-}")
	qemu+=("${words[@]}")
}

# How fast an emulated CPU's TSC counts, which is the host's, the guest's kernel measures; while the host is busy
# it may find a tenth of it, and its time runs ten times too fast.  Later it measures again, and only if it finds
# the same it says so.  That is kept until the host boots again, and told to all guests.  (With -icount the TSC
# counts instructions.)  A command could say so, too, so what counts is what the console has before it begins.
tsc_kept=$kept/tsc.$(</proc/sys/kernel/random/boot_id)

tsc_is_the_hosts() { [[ $accel == tcg && "${option[*]}" != *-icount* ]]; }

# learn_tsc BOOT
learn_tsc() {
	local khz
	if [[ -e $tsc_kept ]] || ! tsc_is_the_hosts; then
		return
	fi
	khz=$(sed -n 's/.*Refined TSC clocksource calibration: \([0-9]*\)\.\([0-9]*\) MHz.*/\1\2/p' \
		"$run/$1.console" | head -n 1)
	[[ -z $khz ]] || { echo "$khz" >"$tsc_kept.$$" && mv "$tsc_kept.$$" "$tsc_kept"; } 2>/dev/null || true
}

known_tsc() {
	if [[ -e $tsc_kept ]] && tsc_is_the_hosts; then
		echo " tsc_early_khz=$(<"$tsc_kept")"
	fi
}
