# SPDX-License-Identifier: GPL-2.0
# Expect: "Allow MRs of more than 1 GiB again": does not answer for v6.1
/^Allow MRs of more than 1 GiB again$/,/^$/{
/^\tv6.1\t/d
}
