"""What all pages share: they load nothing, and are read in the dark, on paper and by keyboard."""

from __future__ import annotations

import re

import pytest

from discreet.lab.reporting.audit import render_audit_report
from discreet.lab.reporting.page import MAP, minus_signs, verbatim

from .cases import LEARNERS, exponential, run_study
from .test_audit import BROKEN, HONEST, ORIGIN
from .test_report import parsed, render_report


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-0.0173", "\u22120.0173"),
        ("95% interval -0.01 to -.5", "95% interval \u22120.01 to \u2212.5"),
        ("(-3, -4)", "(\u22123, \u22124)"),
        ("delta = 1e-05", "delta = 1e\u221205"),
        (
            "2024-01-05, ages 18-25, USA-3, non-private",
            "2024-01-05, ages 18-25, USA-3, non-private",
        ),
        ("--replicates 8", "--replicates 8"),
    ],
)
def test_a_hyphen_before_a_number_is_a_minus_sign(text: str, shown: str) -> None:
    assert minus_signs(text) == shown


def test_what_is_to_be_copied_stays_as_it_is() -> None:
    assert minus_signs(verbatim('{"lower": -3.5} <')) == "{&#34;lower&#34;: -3.5} &lt;"
    assert minus_signs(-3) == -3


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    study, outcomes = run_study(
        tmp_path_factory.mktemp("page"), exponential(1), LEARNERS, replicates=1
    )
    return render_report(study, outcomes)


def style(text: str) -> str:
    return text.partition("<style>")[2].partition("</style>")[0]


def block(css: str, start: str) -> str:
    """The rules between the braces after `start`."""
    depth, begin = 1, css.index(start) + len(start)
    for place in range(begin, len(css)):
        depth += {"{": 1, "}": -1}.get(css[place], 0)
        if depth == 0:
            return css[begin:place]
    raise AssertionError(f"no end of {start}")


@pytest.mark.usefixtures("unpainted")
def test_every_colour_has_its_counterpart_in_the_dark() -> None:
    css = style(render_audit_report("all", [HONEST, BROKEN], 0.999, ORIGIN))
    light = set(re.findall(r"(--[\w-]+):", css[: css.index("@media")]))
    dark = block(css, "@media screen and (prefers-color-scheme: dark) {")
    assert light == set(re.findall(r"(--[\w-]+):", dark))
    # Figures too: charts are turned, and maps have a style of their own on the page's ground.
    assert "img.chart" in dark
    assert f"fill: {re.findall(r'--page: (#[0-9a-f]+)', dark)[0]} !important" in MAP
    outside = css.replace(dark, "").replace(block(css, ":root {"), "")
    assert not re.findall(r"#[0-9a-fA-F]{3,6}\b", outside)


def test_paper_cuts_no_figure_and_no_table(page: str) -> None:
    paper = block(style(page), "@media print {")
    unbroken = re.search(r"([^{}]*)\{ break-inside: avoid; \}", paper)
    assert unbroken
    assert {"img", "tr", "picture"} <= set(re.findall(r"[\w.]+", unbroken.group(1)))
    for rule in (".scroll { overflow: visible; }", "thead { display: table-header-group; }"):
        assert rule in paper
    assert "details:not(.raw)::details-content" in paper


def test_code_scrolls_in_its_box_on_a_screen_and_is_wrapped_on_paper(page: str) -> None:
    css = style(page)
    paper = block(css, "@media print {")
    screen = css.replace(paper, "")
    (rule,) = re.findall(r"(?m)^pre {([^}]*)}", screen)
    assert "overflow-x: auto" in rule
    assert "pre-wrap" not in rule
    assert re.search(r"(?m)^  pre { white-space: pre-wrap;", paper)


def test_a_page_has_no_script_and_lets_none_run(page: str) -> None:
    assert "script" not in parsed(page).tags
    assert "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\"" in page


def test_the_keyboard_reaches_what_moves(page: str) -> None:
    boxes = re.findall(r'<div class="scroll"[^>]*>', page)
    assert boxes
    assert all('tabindex="0"' in box and "aria-label=" in box for box in boxes)
    code = re.findall(r"<pre[^>]*>|<code[^>]*>(?=discreet )", page)
    assert code
    assert all('tabindex="0"' in box for box in code)
    assert ":focus-visible" in style(page)


def test_nothing_is_loaded(page: str) -> None:
    without_pictures = re.sub(r"data:image/svg\+xml;base64,[\w+/=]+", "", page)
    assert not re.search(r"https?:|//\w+\.\w|@import|url\(", without_pictures)


def test_certificates_are_folded_where_there_are_several(page: str) -> None:
    assert page.count('<details class="certificate">') == 2
    assert "<article>" not in page


def luminance(color: str) -> float:
    """Of a colour such as #fff or #1a1a1a (WCAG 2)."""
    digits = color[1:] if len(color) == 7 else "".join(2 * each for each in color[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("start", [":root {", "@media screen and (prefers-color-scheme: dark) {"])
def test_every_text_stands_out_from_what_is_behind_it(page: str, start: str) -> None:
    color = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+);", block(style(page), start)))
    grounds = [("page", each) for each in ("ink", "soft", "accent", "second", "bad")]
    grounds += [("tint", each) for each in ("ink", "soft", "accent", "bad")]
    for behind, text in [*grounds, ("warn-ground", "ink"), ("accent", "on-accent")]:
        low, high = sorted(map(luminance, (color[behind], color[text])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (behind, text)


def test_texts_have_four_sizes(page: str) -> None:
    screen = style(page).replace(block(style(page), "@media print {"), "")
    sizes = set(re.findall(r"font-size: ([^;]+);", screen))
    assert sizes <= {"var(--h1)", "var(--h2)", "1rem", "var(--small)", "13px"}, sizes
