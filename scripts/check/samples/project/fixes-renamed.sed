# SPDX-License-Identifier: GPL-2.0
# Expect: "Fix a panic": does not answer for v7.3, which has no patch of this subject
s/^Fix panic on a packet that is shorter than its BTH$/Fix a panic/
