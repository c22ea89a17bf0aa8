# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it
#
# Which series of rdma-core RDMA_CORE asks for: sets $rdma_core_folder, its build's folder.
case ${RDMA_CORE:-v56} in
v56) rdma_core_folder=build/rdma-core ;;
*) rdma_core_folder=build/rdma-core-$RDMA_CORE ;;
esac
