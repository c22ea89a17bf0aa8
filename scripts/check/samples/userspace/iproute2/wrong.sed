# SPDX-License-Identifier: GPL-2.0
## applies: does not apply
# It applies, but only with fuzz.
s/ \*dev_caps_to_str/ *caps_to_str/

## message: not imperative
# The subject tells what was done.
s/^\(Subject:.*\) Add /\1 Added /

## checkpatch: SPACING
# A space is missing.
s/return idx/if(idx) &/

## iproute2-builds: unused variable
# One variable is not used.
s/return idx/uint32_t sample; &/
