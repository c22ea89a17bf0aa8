# SPDX-License-Identifier: GPL-2.0
"""The parts of rxe-vm, each with a job of its own."""
