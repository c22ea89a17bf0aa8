# SPDX-License-Identifier: GPL-2.0
# Where the base of this series comes from: the upstream tarball of Debian unstable's source package.
RDMA_CORE_TYPE    := deb-src
RDMA_CORE_SUITES  := sid
RDMA_CORE_PACKAGE := rdma-core
RDMA_CORE_FILE    := rdma-core_65.0.orig.tar.gz
# A path that any tree of the right kind has.
RDMA_CORE_HAS     := providers/rxe
# What the git tree takes on disk.
RDMA_CORE_MIB     := 100
