"""A page: one HTML file that needs no network and no other file.

Its sentences stand in `templates`, its style in `static/page.css`, which the dashboard of a service
has too. Figures are drawn as SVG with text as paths and stand in the page as data; every one is
there twice, wide and narrow, and the reader's screen picks. Everything that a template is given is
escaped, and a hyphen before a number becomes a minus sign unless the text is `verbatim`, to be
copied. A page has no script, and its security policy lets none run.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jinja2
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from discreet.atomic_files import write_bytes
from discreet.lab.reporting.layout import NARROW, WIDE, figure_bytes
from discreet.lab.reporting.numbers import counted, listed, number_text, upward
from discreet.records import check_path

# A hyphen that is a sign: not within a word, a date or a range.
_SIGN = re.compile(r"(?<![\w.)\]])-(?=\.?\d)|(?<=\de)-(?=\d)")
_MINUS = "\u2212"
_STYLE = Path(__file__).parent / "static" / "page.css"
MAP = _STYLE.with_name("map.css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Image:
    """A figure as the page holds it: data URIs for large and for small screens."""

    wide: str
    narrow: str


def image(draw: Callable[[float], Figure], wide: float = WIDE, style: str = "") -> Image:
    """A figure, drawn for large screens, where it is `wide` inches, and for small ones."""
    return Image(_data_uri(draw(wide), style), _data_uri(draw(NARROW), style))


def render(template: str, **values: object) -> str:
    """A template of this package as HTML.

    Args:
        template: its name.
        values: what the template is given.
    """
    page = _environment().get_template(template)
    return page.render(version=version("discreet"), **values)


def write_page(rendered: Callable[[], str], path: Path) -> None:
    """Render a page and write it; the file appears whole or not at all.

    Raises:
        InvalidInput: a folder that does not exist, before anything is drawn.
    """
    check_path(path)
    write_bytes(path, rendered().encode("utf-8"))


def unbroken(text: str) -> str:
    """Keeps "epsilon = 1" on one line."""
    return text.replace(" = ", "\u00a0=\u00a0")


def minus_signs(value: object) -> object:
    """Texts with a minus sign before each number below 0; anything else, and markup, as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _SIGN.sub(_MINUS, value)


def verbatim(text: str) -> Markup:
    """A text to be copied, character for character."""
    return escape(text)


def capital(text: str) -> str:
    """The first letter in upper case, all others as they are."""
    return text[:1].upper() + text[1:]


def indented(text: str, **more: object) -> str:
    """JSON that people can read, of an object with more keys."""
    return json.dumps({**json.loads(text), **more}, indent=2)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("discreet.lab.reporting"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=minus_signs,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for written in (unbroken, upward, capital, indented, listed, verbatim):
        environment.filters[written.__name__] = written
    style = Markup(_STYLE.read_text(encoding="utf-8"))
    environment.globals |= {"counted": counted, "number": number_text, "style": style}
    return environment


def _data_uri(figure: Figure, style: str) -> str:
    """A figure with more style as an SVG data URI, the same bytes for the same figure."""
    svg = figure_bytes(figure, "svg").replace(b"</style>", f"{style}</style>".encode(), 1)
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")
