# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it
#
# Which kernel DEBUG selects: sets $variant, the end of its folder's name, and $scale, by which all deadlines
# are multiplied.  Deadlines are for an emulator on a fast machine; RXE_TIME_SCALE overrides the scale.
case ${DEBUG:-0} in
0) variant='' scale=1 ;;
1) variant=-debug scale=4 ;;
*) variant=-$DEBUG scale=4 ;;
esac
scale=${RXE_TIME_SCALE:-$scale}

# Which series of rdma-core RDMA_CORE asks for: its build's folder.
case ${RDMA_CORE:-v56} in
v56) rdma_core_folder=build/rdma-core ;;
*) rdma_core_folder=build/rdma-core-$RDMA_CORE ;;
esac
