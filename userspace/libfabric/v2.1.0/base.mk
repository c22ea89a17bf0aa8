# SPDX-License-Identifier: GPL-2.0
# Where the base of this series comes from: the upstream tarball of Debian's unstable, the newest that the archive has.
LIBFABRIC_TYPE    := deb-src
LIBFABRIC_SUITES  := sid
LIBFABRIC_PACKAGE := libfabric
LIBFABRIC_FILE    := libfabric_2.1.0.orig.tar.xz
# A path that any tree of the right kind has.
LIBFABRIC_HAS     := prov/verbs/src/verbs_rma.c
# What the git tree takes on disk.
LIBFABRIC_MIB     := 40
