# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it
#
# What the environment asks for: sets variant, scale and rdma_core_folder.

# variant: the end of the name of the kernel's folder
case ${DEBUG:-0} in
0) variant='' ;;
1) variant=-debug ;;
*) variant=-$DEBUG ;;
esac

# scale: multiplies all deadlines.  They are for an emulator on a fast machine, and for a kernel that is not a debug one.
[[ ${DEBUG:-0} == 0 ]] && scale=1 || scale=4
scale=${RXE_TIME_SCALE:-$scale}

# rdma_core_folder: where that series of rdma-core is built
case ${RDMA_CORE:-v56} in
v56) rdma_core_folder=build/rdma-core ;;
*) rdma_core_folder=build/rdma-core-$RDMA_CORE ;;
esac
