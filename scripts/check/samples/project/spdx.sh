#!/usr/bin/env bash
echo "$@"
# Expect: no SPDX-License-Identifier
