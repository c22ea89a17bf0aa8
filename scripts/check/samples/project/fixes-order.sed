# SPDX-License-Identifier: GPL-2.0
# Expect: stands after "Do not let comp.psn pass a WQE that is being sent again", and v7.3 has it before
/^Allow MRs of more than 1 GiB again$/,/^$/{
H
d
}
/^Fix hang when a fenced WQE is retried$/{
x
s/^\n//
G
}
