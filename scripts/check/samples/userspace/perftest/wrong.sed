# SPDX-License-Identifier: GPL-2.0
## applies: does not apply
# It applies, but only with fuzz.
s/^ }/&;/

## message: not imperative
# The subject tells what was done.
s/^\(Subject:.*\) Add /\1 Added /

## perftest-builds: implicit declaration
# One function is not declared.
s/static inline //
s/return size/return not_declared(size)/
