# SPDX-License-Identifier: GPL-2.0
def half(number: float) -> float:
    return number / 2
