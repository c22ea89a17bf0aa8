# SPDX-License-Identifier: GPL-2.0
## fixes-bare of kernel/fixes: v7.3 is "fixed": leave that line out
# A record says what the patches say.
/^Fix deadlock when a QP drops its queued packets$/a\
	v7.3	fixed

## fixes-base of kernel/fixes: "Allow MRs of more than 1 GiB again": does not answer for v6.1
# A record does not answer for a base.
/^Allow MRs of more than 1 GiB again$/,/^$/{
/^\tv6.1\t/d
}

## fixes-both of kernel/fixes: v7.3 is both fixed, by a patch, and "not there: a reason"
# A base has a patch, and another answer.
/^Fix deadlock when a QP drops its queued packets$/a\
	v7.3	not there: a reason

## fixes-missing of kernel/fixes: kernel/v6.1 has the patch "Test opcode tables and packets with KUnit", and .* has no record
# A patch has no record.
/^\tpatch\tTest opcode tables and packets with KUnit$/d

## fixes-not-shown of kernel/fixes: "Fix deadlock when a QP drops its queued packets": v7.3 is "not shown", and no case shows the bug on another base
# A base is said to be like another one, which shows nothing.
/^Fix deadlock when a QP drops its queued packets$/,/^$/{
s/^\tbefore\t.*/&\n\tv7.3\tfixed, not shown: a reason/
}

## fixes-order of kernel/fixes: stands after "Do not let comp.psn pass a WQE that is being sent again", and v7.3 has it before
# A record stands in another order than the patches.
/^Allow MRs of more than 1 GiB again$/,/^$/{
H
d
}
/^Fix hang when a fenced WQE is retried$/{
x
s/^\n//
G
}

## fixes-renamed of kernel/fixes: "Fix a panic": does not answer for v7.3, which has no patch of this subject
# A record names a patch that is not there.
s/^Fix panic on a packet that is shorter than its BTH$/Fix a panic/

## fixes-suite of kernel/fixes: `cases` are of "hostile --only": hostile.sh: error: unknown option --only
# A suite does not take what a record gives it.
s/\thostile: /\thostile --only: /

## fixes-upstream of kernel/fixes: upstream is "merged: yesterday": write posted: ID
# What upstream has is no id.
s/^\tupstream\tmerged: .*/\tupstream\tmerged: yesterday/

## owner of good.md: the address is "https://example\.org/rxe-mpe" here, but ".*" in OWNER
# A document names another address.
$a\
\
    git clone https://example.org/rxe-mpe

## owner-version of good.md: the version is "v0" here, but ".*" in OWNER
# An action is of another version.
$a\
\
    - uses: ORGANISATION/rxe-mpe/.github/actions/rxe-pair@v0

## figures-gone of good.list: :4: "has # words" does not stand in scripts/check/samples/project/good.md
# Words do not stand in their document.
s/# lines/# words/

## figures-no-figure of good.list: :4: "has three lines" has no #
# Words have no number.
s/# lines/three lines/

## figures-nothing of good.list: "has three lines" has 3, but .* gives nothing and ends with 1
# A source gives nothing.
s/wc -l </grep -o nothing /

## figures-other of good.list: good.md: "has three lines" has 3, but .*:4 gives 1:
# A source gives another number.
s/wc -l/grep -c echo/

## python-long of good.py: has 41 lines: 40 at most
# A function is too long.
/return/{
:longer
s/^/    number += 1\n/
/^\(    number += 1\n\)\{39\}/!b longer
}

## python-untyped of good.py: Function is missing a type annotation
# A function has no types.
s/number: float) -> float/number)/

## shellcheck of good.sh: SC2068
# Words of an argument are split.
s/"\$@"/$@/

## spdx of good.sh: no SPDX-License-Identifier
# A file has no licence.
/SPDX/d
