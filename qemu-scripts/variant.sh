# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it
#
# Which kernel DEBUG asks for: $variant, as the end of its folder's name, and how many times longer it
# takes for everything: $scale.  Deadlines are for a fast machine's emulator; RXE_TIME_SCALE overrides.
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
