# SPDX-License-Identifier: GPL-2.0
# Its Linux has FLUSH and ATOMIC WRITE: the series fixes them (see scripts/bases).
ROLE          := fixes
# Where the base of these topics comes from: Linux 6.12 as Debian 13 ships it, the newest version of its suites.
LINUX_TYPE    := deb
LINUX_SUITES  := trixie trixie-security
LINUX_PACKAGE := linux-source-6.12
LINUX_FILE    := linux-source-6.12_*_all.deb
# The packages of the stock kernel: releases may end in +deb13 or +deb13.1, those of other flavours end in another word.
STOCK_SUITES  := trixie trixie-security
STOCK_PACKAGES := linux-image-6.12.*+deb*[0-9]-amd64
# A path that any tree of the right kind has.
LINUX_HAS     := drivers/infiniband/sw/rxe
# What the git tree takes on disk.
LINUX_MIB     := 3000
# Stock kernels with which the module of `make dkms` has passed the suites ulps and conformance.
DKMS_TESTED   := 6.12.117+deb13-amd64 6.12.118+deb13-amd64
