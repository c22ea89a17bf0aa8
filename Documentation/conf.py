# SPDX-License-Identifier: GPL-2.0
# For Sphinx: `make docs`.  The kernel API is taken from the comments in the patched tree, by the
# kernel's own extension.  Without a tree that section has no content.
import os
import re
import subprocess
import sys

import furo
from docutils import nodes
from docutils.parsers.rst import Directive

tree = os.environ.get("KERNEL_TREE", "")
project = html_title = "rxe-mpe"
extensions = []
if os.path.exists(tree + "/scripts/kernel-doc"):
    sys.path.insert(0, tree + "/Documentation/sphinx")
    extensions = ["kerneldoc"]
    kerneldoc_srctree = tree
    kerneldoc_bin = tree + "/scripts/kernel-doc"
    # 1 would tell of all faults in the comments of the headers, which are mostly not ours
    kerneldoc_verbosity = 0
html_theme = "furo"
# The furo of Debian 12 has dark colours for those who choose them, but not for those whose system does.
with open(os.path.join(os.path.dirname(furo.__file__), "theme/furo/static/styles/furo.css")) as css:
    dark = re.search(r'body\[data-theme="?dark"?\] ?{([^}]*)', css.read())
html_theme_options = {"dark_css_variables": dict(re.findall(r"--([^:;]+):([^;]+);?", dark[1]) if dark else [])}
html_show_copyright = False
html_static_path = ["site"]
html_css_files = ["site.css"]
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


def link_wide_pictures(app, doctree):
    """A picture with a width becomes a link to itself, which site.css lets a phone scroll"""
    for picture in doctree.findall(nodes.image):
        if not picture["uri"].endswith("lost.svg"):
            picture["width"] = "1180px"


def setup(app):
    app.connect("doctree-read", link_wide_pictures)
    app.connect("source-read", put_page)
    if not extensions:
        app.add_directive("kernel-doc", NoKernelDoc)
