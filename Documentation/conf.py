# SPDX-License-Identifier: GPL-2.0
# For Sphinx: `make docs`.  The kernel API is taken from the comments in the patched tree, by the
# kernel's own extension.
import os
import subprocess
import sys

tree = os.environ["KERNEL_TREE"]
sys.path.insert(0, tree + "/Documentation/sphinx")

project = "Memory Placement Extensions for Soft-RoCE"
extensions = ["kerneldoc"]
kerneldoc_srctree = tree
kerneldoc_bin = tree + "/scripts/kernel-doc"
# 1 would tell of all faults in the comments of the headers, which are mostly not ours
kerneldoc_verbosity = 0
html_theme = "classic"
html_theme_options = {"body_max_width": "60em"}
highlight_language = "none"


def put_records(app, name, source):
    """Put the records of kernel/fixes into the page that asks for them"""
    if "\n.. @FIXES " in source[0]:
        app.env.note_reread()
        fill = ["scripts/fixes", "fill", f"Documentation/{name}.rst"]
        source[0] = subprocess.check_output(fill, cwd=os.path.dirname(app.srcdir), text=True)


def setup(app):
    app.connect("source-read", put_records)
