"""In which form each reproduction is shown."""

from __future__ import annotations

from discreet.papers import report
from discreet.papers.kharkovskii2020 import report as searches
from discreet.papers.ma2025 import report as ma2025

FORMS = report.FORMS | ma2025.FORMS | searches.FORMS
"""By `Reproduction.form`."""
