# SPDX-License-Identifier: GPL-2.0
# kernel/fixes as it is
