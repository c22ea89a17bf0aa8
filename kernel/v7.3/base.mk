# SPDX-License-Identifier: GPL-2.0
# Its Linux has FLUSH and ATOMIC WRITE: the series fixes them (see scripts/bases).
ROLE          := fixes
# Where the base of these topics comes from: Linux 7.3 as Debian ships it: the newest of trixie-backports, sid and experimental.
LINUX_TYPE    := deb
LINUX_SUITES  := trixie-backports sid experimental
LINUX_PACKAGE := linux-source-7.3
LINUX_FILE    := linux-source-7.3_7.3.*_all.deb
# The packages of the stock kernel: releases may end in +deb13 or +deb13.1, those of other flavours end in another word.
STOCK_SUITES  := trixie-backports
STOCK_PACKAGES := linux-binary-7.3.*+deb*[0-9]-amd64 linux-modules-7.3.*+deb*[0-9]-amd64 linux-base-7.3.*+deb*[0-9]-amd64
# A path that any tree of the right kind has.
LINUX_HAS     := drivers/infiniband/sw/rxe
# What the git tree takes on disk.
LINUX_MIB     := 3000
# Stock kernels with which the module of `make dkms` has passed the suites ulps and conformance.
DKMS_TESTED   := 7.3.4+deb13-amd64
