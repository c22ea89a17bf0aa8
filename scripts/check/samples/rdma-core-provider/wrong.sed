# SPDX-License-Identifier: GPL-2.0
## applies: does not apply
# It applies, but only with fuzz.
s/ hca_table/ soft_hca_table/

## message: not imperative
# The subject tells what was done.
s/^\(Subject:.*\) Add /\1 Added /

## checkpatch: SPACING
# A space is missing.
s/return depth/if(depth) &/

## rdma-builds: unused variable
# One variable is not used.
s/return depth/uint32_t sample; &/
