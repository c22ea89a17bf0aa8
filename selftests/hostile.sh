#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Hostile WQEs (hostile_wqes.c) in a guest: KTAP.  With LONG=1 each race is run ten times as often.

set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "$0")")")
# As rxe-vm does: a debug kernel is slower.
scale=${RXE_TIME_SCALE:-$((${DEBUG:-0} == 1 ? 4 : 1))}
exec "$root/qemu-scripts/rxe-vm" run --name hostile --timeout 3600 -- \
	env "KSFT_TIMEOUT_SCALE=$scale" "$root/build/selftests/hostile_wqes" $((${LONG:-0} ? 150 : 15))
