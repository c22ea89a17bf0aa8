# SPDX-License-Identifier: GPL-2.0
# Where the base of this series comes from: the upstream tarball of Debian 13's source package.
PERFTEST_TYPE    := deb-src
PERFTEST_SUITES  := trixie
PERFTEST_PACKAGE := perftest
PERFTEST_FILE    := perftest_25.01.0+0.80.orig.tar.gz
# A path that any tree of the right kind has.
PERFTEST_HAS     := src/perftest_resources.c
# What the git tree takes on disk.
PERFTEST_MIB     := 20
