# SPDX-License-Identifier: GPL-2.0
# For Sphinx: `make docs`.  The kernel API is taken from the comments in the patched tree, by the
# kernel's own extension.  Without a tree that section has no content.
import os
import re
import subprocess
import sys

from docutils.parsers.rst import Directive

tree = os.environ.get("KERNEL_TREE", "")
project = "Memory Placement Extensions for Soft-RoCE"
extensions = []
if os.path.exists(tree + "/scripts/kernel-doc"):
    sys.path.insert(0, tree + "/Documentation/sphinx")
    extensions = ["kerneldoc"]
    kerneldoc_srctree = tree
    kerneldoc_bin = tree + "/scripts/kernel-doc"
    # 1 would tell of all faults in the comments of the headers, which are mostly not ours
    kerneldoc_verbosity = 0
html_theme = "classic"
html_theme_options = {"body_max_width": "60em"}
highlight_language = "none"


class NoKernelDoc(Directive):
    """Stands for kernel-doc where there is no tree"""
    required_arguments = 1  # the file
    option_spec = {"identifiers": str}

    def run(self):
        return []


def put_page(app, name, source):
    """Put the page that a file names in its place, with the records of kernel/fixes"""
    named = re.search(r"^\.\. @PAGE (.*)@$", source[0], re.M)
    if named:
        app.env.note_reread()
        top = os.path.dirname(app.srcdir)
        source[0] = subprocess.check_output(["scripts/fixes", "fill", named[1]], cwd=top, text=True)


def setup(app):
    app.connect("source-read", put_page)
    if not extensions:
        app.add_directive("kernel-doc", NoKernelDoc)
