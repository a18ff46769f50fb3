"""The site of the pages of this folder and of docstrings; docs/Makefile builds it."""

import logging
import os
import re
import sys
from importlib.metadata import version as version_of
from inspect import getdoc
from pathlib import Path
from textwrap import indent

sys.path.insert(0, str(Path(__file__).parent))  # gallery_style, http_api, notebooks

for each in ("discreet", "alembic"):  # a package of the theme prints every log
    logging.getLogger(each).setLevel(logging.WARNING)

project = "discreet"
author = copyright = "the authors of discreet"
version = release = version_of("discreet")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
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

# sphinx-gallery warns of a space anywhere in a path, of the clone's folder too; no example has one.
suppress_warnings = ["sphinx_gallery.space_in_filename"]
# Scripts are run where their source changed since the last build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": os.environ.get("GALLERY", ""),
    "reset_modules": ("gallery_style.look",),
    "image_scrapers": ("gallery_style",),
    "capture_repr": (),
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "write_computation_times": False,
    "copyfile_regex": "",
    "min_reported_time": 3600,
}

html_static_path = ["_static"]
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


def fill_in(app, page, source):
    """What is made when a page is read: tables of HTTP, and a link to a quick-start's notebook."""
    if page == "http":
        from http_api import http_tables

        source[0] = source[0].replace("<!-- http tables -->", http_tables())
    if page.startswith("start/"):
        link = f" [As a notebook]({page.removeprefix('start/')}.ipynb).\n\n**1. "
        source[0] = source[0].replace("\n\n**1. ", link, 1)


def make_notebooks(app):
    """One beside the page of each quick-start."""
    from notebooks import write_notebooks

    write_notebooks()


def sort_tables(app, page, template, context, doctree):
    """Tables of results sort on their pages."""
    if page in ("results", "papers"):
        app.add_js_file("sort_tables.js", loading_method="defer")
        app.add_css_file("sort_tables.css")


def setup(app):
    app.connect("html-page-context", sort_tables)
    app.connect("builder-inited", make_notebooks)
    app.connect("source-read", fill_in)
    app.connect("autodoc-process-docstring", adapt_docstrings, priority=600)
