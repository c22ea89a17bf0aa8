# SPDX-License-Identifier: GPL-2.0
# Expect: "Fix deadlock when a QP drops its queued packets": v7.3 is "not shown", and no case shows the bug on another base
/^Fix deadlock when a QP drops its queued packets$/,/^$/{
s/^\tbefore\t.*/&\n\tv7.3\tfixed, not shown: a reason/
}
