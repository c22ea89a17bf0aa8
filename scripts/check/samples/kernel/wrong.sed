# SPDX-License-Identifier: GPL-2.0
## applies: does not apply
# It applies, but only with fuzz.
s/Soft RDMA transport/Soft transport/

## message: not imperative
# The subject tells what was done.
s/^\(Subject:.*\) Add /\1 Added /

## checkpatch: SPACING
# A space is missing.
s/return depth/if(depth) &/

## kernel-doc: not described
# One parameter is not described.
/@depth: how deep/s/depth/width/

## builds-x86_64: unused variable
# One variable is not used.
s/return depth/u32 sample; &/

## builds-x86_64-undefined: undefined: rxe_sample_of_later
# It calls what only a later patch would bring.
s|^+/\*\*|+u32 rxe_sample_of_later(u32 depth);|
s|^+ \* rxe_sample() .*|+u32 rxe_sample(u32 depth);|
s|^+ \*.*|+|
s/static inline //
s/return depth/return rxe_sample_of_later(depth)/

## builds-arm64: implicit declaration|undeclared
# The function is one of x86.
s/return depth/return boot_cpu_has(X86_FEATURE_CLWB) ? depth : 0/

## builds-i386: format.*expects argument
# A size_t is an unsigned int there.
s/return depth/pr_debug("%lu", sizeof(depth)); &/

## builds-s390x: no member named
# A header forgets the other order of bits.
s|^+/\*\*|+struct rxe_sample {|
s|^+ \* rxe_sample() .*|+	u8 high;|
s|^+ \* @depth: .*|+#ifdef __LITTLE_ENDIAN_BITFIELD|
s|^+ \*$|+	u8 low;|
s|^+ \* Return.*|+#endif|
s|^+ \*/|+};|
s/(u32 depth)/(struct rxe_sample *sample)/
s/return depth/return sample->low/

## sparse: incorrect type in return expression
# A number goes to the wire in the order of the CPU.
s|^+/\*\*|+__be32 rxe_sample(u32 depth);|
s|^+ \*.*|+|
s/static inline u32/__be32/

## coccicheck: NULL check before
# kfree() takes NULL as well.
s|^+/\*\*|+|
s|^+ \*.*|+|
s/u32 rxe_sample(u32 depth)/void rxe_sample(void *buf)/
s/return depth/if (buf) kfree(buf)/

## litmus-no-result of litmus.patch: sample has no line
# A litmus test does not say what it ends in.
s/Result: Never/It ends somehow./
