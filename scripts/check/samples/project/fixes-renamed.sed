# SPDX-License-Identifier: GPL-2.0
# Expect: says that v7.3 has the patch "Fix a panic", which it has not
s/^Fix panic on a packet that is shorter than its BTH$/Fix a panic/
