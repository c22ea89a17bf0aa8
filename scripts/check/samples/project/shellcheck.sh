#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
echo $@
# Expect: SC2068
