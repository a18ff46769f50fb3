"""The site of the pages of this folder and of docstrings; docs/Makefile builds it."""

import re
from importlib.metadata import version as version_of
from inspect import getdoc
from textwrap import indent

project = "discreet"
author = copyright = "the authors of discreet"
version = release = version_of("discreet")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "measured"]
default_role = "code"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_default_options = {
    "members": True,
    "exclude-members": "reports_type, source_reports_type, statistics_type",
}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_use_ivar = True

html_theme = "furo"
html_theme_options = {"top_of_page_buttons": []}
html_title = "discreet"
toc_object_entries_show_parents = "hide"


def adapt_docstrings(app, what, name, obj, options, lines):
    """Show Markdown tables as they stand, and properties without the type that Napoleon guesses."""
    text = "\n".join([*lines, ""])
    if what == "property":
        text = getdoc(obj) or text
    lines[:] = re.sub(r"(?m)(?:^\|.*\n)+", as_literal_block, text).split("\n")


def as_literal_block(table):
    return "\n::\n\n" + indent(table[0], "    ") + "\n"


def setup(app):
    app.connect("autodoc-process-docstring", adapt_docstrings, priority=600)
