#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Hostile WQEs (hostile_wqes.c) in a guest: KTAP.  With LONG=1 each race is run ten times as often.

set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "$0")")")
exec "$root/qemu-scripts/rxe-vm" run --name hostile --timeout 3600 -- \
	"$root/build/selftests/hostile_wqes" $((${LONG:-0} ? 150 : 15))
