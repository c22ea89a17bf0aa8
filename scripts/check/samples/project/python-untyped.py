# SPDX-License-Identifier: GPL-2.0
# Expect: Function is missing a type annotation
def half(number):
    return number / 2
