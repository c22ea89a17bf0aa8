# SPDX-License-Identifier: GPL-2.0
# Where the base of this series comes from: the upstream tarball of Debian's next release, the newest that the archive has.
IPROUTE2_TYPE    := deb-src
IPROUTE2_SUITES  := forky
IPROUTE2_PACKAGE := iproute2
IPROUTE2_FILE    := iproute2_7.2.0.orig.tar.xz
# A path that any tree of the right kind has.
IPROUTE2_HAS     := rdma/dev.c
# What the git tree takes on disk.
IPROUTE2_MIB     := 40
