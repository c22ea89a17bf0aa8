# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it
#
# Sets $scale, by which all deadlines are multiplied.  They are for an emulator on a fast machine, and for a kernel
# that is not a debug one; RXE_TIME_SCALE overrides the scale.
[[ ${DEBUG:-0} == 0 ]] && scale=1 || scale=4
scale=${RXE_TIME_SCALE:-$scale}
