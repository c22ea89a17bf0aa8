#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# shellcheck disable=SC2016 # for the guests' shells
#
# libfabric with its series (build/libfabric): what completes with FI_COMMIT_COMPLETE outlives a power cut, by the states
# that crash-states makes of a run of fabric-log.  A device without FLUSH is not said to have the capability, and fabtests
# pass as before.
#
# STOCK_6_1=IMAGE: a kernel without FLUSH, in place of Debian's.

set -euo pipefail

# shellcheck source=selftests/ktap.sh
. "$(dirname "$(readlink -f "$0")")/../ktap.sh"

fabric=$root/build/libfabric
log=$fabric/fabric-log

prepare() {
	local source=$here/../examples/libfabric/fabric-log.c
	[[ -e $fabric/built ]] || wrong_usage "there is no $fabric: run \`make libfabric\`"
	[[ ! $log -nt $source || ! $log -nt $fabric/built ]] || return 0
	cc -O2 -g -Wall -Wextra -Werror -I"$fabric/include" -o "$log.$$" "$source" -L"$fabric/lib" -lfabric \
		-Wl,-rpath-link="$root/$rdma_core_folder/lib"
	mv "$log.$$" "$log"
}

# environment [FOLDER]: for a guest, of this libfabric, or with the library of FOLDER.  For more peers ofi_rxm wants larger
# CQs than rxe has.
environment() {
	echo "export FI_LOG_LEVEL=warn FI_UNIVERSE_SIZE=8 PATH=$fabric/bin:\$PATH LD_LIBRARY_PATH=${1:-$fabric/lib}:\$LD_LIBRARY_PATH; "
}

##############################################################################
# The log

# append CALL [FOLDER [PROLOGUE]]: the initiator has the library of FOLDER; the target's guest runs PROLOGUE first
append() {
	RXE_OUT=$work "$root/qemu-scripts/rxe-vm" pair --name libfabric --server-pmem 64M \
		--server "${3-} $(environment)exec $log target \$RXE_ADDR /dev/dax0.0" \
		--client "$(environment "${2-}")exec $log initiator \$RXE_PEER_ADDR 10 $1" || fail "the log was not written"
}

# judge STATUS TEXT: crash-states ends with STATUS, and says TEXT.
judge() {
	local status=0 said
	said=$("$root/qemu-scripts/crash-states" --serve --states 300 "$work/latest" -- first-log-survives) || status=$?
	echo "$said"
	((status == $1)) || fail "status $status, not $1"
	[[ $said == *"$2"* ]] || fail "it does not say: $2"
}

durable_log() {
	append "$1"
	judge 0 ': 0 fail'
}

log_by_fi_writemsg_survives() { durable_log writemsg; }
log_by_fi_write_survives() { durable_log write; }
log_by_fi_writev_survives() { durable_log writev; }
log_by_fi_writedata_survives() { durable_log writedata; }

log_without_the_flag_is_found() {
	append transmit
	judge 1 'No persistent FLUSH of its QP that covers it follows'
}

# The first part of an operation completes it, in place of the last.
provider_that_does_not_wait_for_the_flush_is_found() {
	local source=$work/obj/prov/verbs/src/verbs_ep.c
	cp -a "$fabric/obj" "$work/obj"
	# By ccache the dependencies are relative, to another depth.  configure has left a config.h that looks outdated.
	find "$work/obj" -name '*.Plo' -exec sed -i -E "s,(^| )\.\./\.\./,\1$root/build/," {} +
	touch -r "$work/obj/stamp-h1" "$work/obj/config.h"
	sed -i '/^ssize_t vrb_post_placed/,/^}/{
		s/\(ctx->user_ctx = \)\(.*wr->wr_id\);/\1i ? (void *) VERBS_NO_COMP_FLAG : \2;/
		s/\(ctx->more = \).*/\1false;/
		}' "$source"
	[[ $(diff "$fabric/obj/prov/verbs/src/verbs_ep.c" "$source" | grep -c '^>') == 2 ]] || fail "the source has changed"
	make -s -C "$work/obj" src/libfabric.la >"$work/said" 2>&1 || { tail "$work/said"; fail "it does not build"; }
	# Each third FLUSH gets lost after it was recorded, so it is answered late.  A stock kernel would end the connection.
	KERNEL='' append writemsg "$work/obj/src/.libs" "nft add table netdev lossy
		nft add chain netdev lossy in '{ type filter hook ingress device eth0 priority 0; }'
		nft add rule netdev lossy in udp dport 4791 @th,64,8 0x1c numgen inc mod 3 1 drop;"
	judge 1 'records were promised'
}

##############################################################################
# fabtests

# Those that pass without the series: FI_EP_MSG by verbs, and FI_EP_RDM by ofi_rxm
common='
fi_msg
fi_cm_data
fi_cq_data -o writedata
fi_msg_pingpong -I 10 -S 4096 -v
fi_rma_bw -e msg -o write -I 10 -S 4096
fi_rma_bw -e msg -o writedata -I 10 -S 4096
fi_rma_bw -e msg -o read -I 10 -S 4096
fi_rdm_pingpong -I 10 -S 4096 -v
fi_rma_bw -e rdm -o write -I 10 -S 4096
'
# On siw others end with a receive that was cancelled, now and then, without the series, too.
on_siw='
fi_msg
fi_cm_data
'
# Those of the flags; the server needs an NVDIMM.
placed='
fi_rma_placed
fi_rma_placed -M /dev/dax0.0
fi_rma_placed -M /dev/dax0.0 -D
fi_rma_placed -M /dev/dax0.0 -E
fi_rma_placed -e rdm
fi_rma_placed -e rdm -M /dev/dax0.0
fi_rma_placed -e rdm -M /dev/dax0.0 -D
'

# run_fabtests TESTS: in a guest, each as server and client; prints KTAP
run_fabtests() {
	cat >"$work/fabtests" <<-'END'
		# client COMMAND...: again, as long as the server does not listen
		client() {
			for try in $(seq 60); do
				timeout 100 "$@" $RXE_ADDR >/tmp/client 2>&1 </dev/null && return
				grep -qi refused /tmp/client || return
				sleep 0.5
			done
			return 1
		}

		n=0
		while read -r program arguments; do
			n=$((n + 1)) provider=verbs
			case "$program $arguments" in *_rdm_* | *'-e rdm'*) provider='verbs;ofi_rxm' ;; esac
			timeout 130 $program -p "$provider" $arguments -s $RXE_ADDR >/tmp/server 2>&1 </dev/null &
			if client $program -p "$provider" $arguments && wait $!; then
				echo "ok $n $program $arguments"
			else
				kill $! 2>/dev/null
				sed 's/^/# /' /tmp/client /tmp/server
				echo "not ok $n $program $arguments"
			fi
		done
	END
	grep . <<<"$1" >"$work/tests"
	echo "KTAP version 1"
	echo "1..$(grep -c . "$work/tests")"
	RXE_OUT=$work "$root/qemu-scripts/rxe-vm" run --name libfabric --timeout 1800 "${@:2}" -- \
		sh -c "${prologue-} $(environment "${library-}") sh $work/fabtests <$work/tests"
}

fabtests_pass_on_rxe() { nested run_fabtests "$common"; }
fabtests_of_the_flags_pass() { nested run_fabtests "$placed" --pmem 64M; }

# siw: sets prologue, which puts siw0 in place of rxe0
siw() {
	local module
	module=$("$here/../modules/kernel-module" siw)
	prologue="rdma link delete rxe0 && insmod $module && rdma link add siw0 type siw netdev eth0 &&"
}

fabtests_pass_on_siw() {
	local prologue
	siw
	nested run_fabtests "$on_siw"
}

##############################################################################
# Without FLUSH

rxe_has_the_capability() {
	local said
	said=$("$root/qemu-scripts/rxe-vm" run --name libfabric -- sh -c "$(environment)
		fi_info -v -p verbs -t FI_EP_MSG; fi_info -v -p 'verbs;ofi_rxm'")
	[[ $(grep -c '^    caps: .*FI_RMA_PMEM' <<<"$said") == $(grep -c '^    caps: ' <<<"$said") ]] || fail "$said"
	[[ $said == *ofi_rxm*FI_RMA_PMEM* ]] || fail "$said"
}

# lacks DEVICE [PROLOGUE [ARG...]]: it is there, without FI_RMA_PMEM
lacks() {
	local said
	said=$(RXE_OUT=$work "$root/qemu-scripts/rxe-vm" run --name libfabric "${@:3}" -- sh -c "${2-} $(environment)
		fi_info -v -p verbs | grep 'caps: .*PMEM'; fi_info -v -p 'verbs;ofi_rxm' | grep 'caps: .*PMEM'
		fi_info -p verbs && fi_info -p 'verbs;ofi_rxm' && ! $log initiator \$RXE_ADDR 1 && echo it does" 2>&1) || true
	echo "$said"
	[[ $said == *"domain: $1"*ofi_rxm* && $said != *'caps: '* && $said == *"verbs offers no FI_RMA_PMEM"*"it does" ]] || fail "it does not say so"
}

a_kernel_without_flush_has_no_capability() {
	local kernel=${STOCK_6_1-}
	[[ $kernel ]] || stock_kernel 6.1
	lacks rxe0 '' --kernel "$kernel"
}

turned_off_rxe_has_no_capability() { lacks rxe0 'export FI_VERBS_USE_FLUSH=no;'; }

siw_has_no_capability() {
	local prologue
	siw
	lacks siw0 "$prologue"
}

cases=(
	log_by_fi_writemsg_survives
	log_without_the_flag_is_found
	fabtests_of_the_flags_pass
	provider_that_does_not_wait_for_the_flush_is_found
	a_kernel_without_flush_has_no_capability
	siw_has_no_capability
	turned_off_rxe_has_no_capability
	rxe_has_the_capability
	fabtests_pass_on_rxe
	fabtests_pass_on_siw
	log_by_fi_write_survives
	log_by_fi_writev_survives
	log_by_fi_writedata_survives
)

run_suite 2 "$@"
