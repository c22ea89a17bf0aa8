# SPDX-License-Identifier: GPL-2.0
# Where the base of this series comes from: the upstream tarball of Debian 12's source package.
WIRESHARK_TYPE    := deb-src
WIRESHARK_SUITES  := bookworm bookworm-security
WIRESHARK_PACKAGE := wireshark
WIRESHARK_FILE    := wireshark_4.0.17.orig.tar.bz2
# A path that any tree of the right kind has.
WIRESHARK_HAS     := epan/dissectors/packet-infiniband.c
# What the git tree takes on disk.
WIRESHARK_MIB     := 450
