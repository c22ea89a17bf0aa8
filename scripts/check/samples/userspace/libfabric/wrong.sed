# SPDX-License-Identifier: GPL-2.0
## applies: does not apply
# It applies, but only with fuzz.
s/^ static ssize_t/&;/

## message: not imperative
# The subject tells what was done.
s/^\(Subject:.*\) Add /\1 Added /

## libfabric-builds: implicit declaration
# One function is not declared.
s/return size/return not_declared(size)/
