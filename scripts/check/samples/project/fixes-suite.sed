# SPDX-License-Identifier: GPL-2.0
# Expect: `cases` are of "hostile --only": hostile.sh: error: unknown option --only
s/\thostile: /\thostile --only: /
