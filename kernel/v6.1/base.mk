# SPDX-License-Identifier: GPL-2.0
# Its Linux has neither FLUSH nor ATOMIC WRITE: the series adds both (see scripts/bases).
ROLE          := adds
# Where the base of this series comes from: Linux 6.1 as Debian 12 ships it, the newest version of its suites.
LINUX_TYPE    := deb
LINUX_SUITES  := bookworm bookworm-security
LINUX_PACKAGE := linux-source-6.1
LINUX_FILE    := linux-source-6.1_*_all.deb
# The package of the stock kernel: those of other flavours end in another word.
STOCK_SUITES  := bookworm bookworm-security
STOCK_PACKAGES := linux-image-6.1.0-[0-9][0-9]-amd64
# A path that any tree of the right kind has.
LINUX_HAS     := drivers/infiniband/sw/rxe
# What the git tree takes on disk.
LINUX_MIB     := 2500
