# SPDX-License-Identifier: GPL-2.0
# Expect: upstream is "merged: yesterday": write posted: ID
s/^\tupstream\tmerged: .*/\tupstream\tmerged: yesterday/
