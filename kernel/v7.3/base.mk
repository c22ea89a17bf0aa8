# SPDX-License-Identifier: GPL-2.0
# Where the base of these topics comes from: Linux 7.3 as Debian sid or experimental ships it, the newer of the two.
LINUX_TYPE    := deb
LINUX_SUITES  := sid experimental
LINUX_PACKAGE := linux-source-7.3
LINUX_FILE    := linux-source-7.3_*_all.deb
# A path that any tree of the right kind has.
LINUX_HAS     := drivers/infiniband/sw/rxe
# What the git tree takes on disk.
LINUX_MIB     := 3000
