# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# shellcheck disable=SC2034 # for those that source it
#
# What stands before and after a text that shall be red, green or bold: nothing, unless a terminal shows it.
red='' green='' bold='' plain=''
if [[ -t 1 && -z ${NO_COLOR-} && ${TERM-dumb} != dumb ]]; then
	red=$'\e[1;31m' green=$'\e[1;32m' bold=$'\e[1m' plain=$'\e[0m'
fi
