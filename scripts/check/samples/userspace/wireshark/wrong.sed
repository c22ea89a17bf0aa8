# SPDX-License-Identifier: GPL-2.0
## applies: does not apply
# It applies, but only with fuzz.
s/^ }/&;/

## message: not imperative
# The subject tells what was done.
s/^\(Subject:.*\) Add /\1 Added /

## wireshark-builds: unused variable
# One variable is not used.
s/return plt/guint32 sample; &/
