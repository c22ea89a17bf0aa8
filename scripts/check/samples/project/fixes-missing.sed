# SPDX-License-Identifier: GPL-2.0
# Expect: kernel/v6.1 has the patch "Test opcode tables and packets with KUnit", and .* has no record
/^\tpatch\tTest opcode tables and packets with KUnit$/d
