# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it
#
# Which kernel DEBUG selects: sets $variant, the end of its folder's name.
case ${DEBUG:-0} in
0) variant='' ;;
1) variant=-debug ;;
*) variant=-$DEBUG ;;
esac
