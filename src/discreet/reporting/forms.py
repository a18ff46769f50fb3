"""In which form each reproduction is shown."""

from __future__ import annotations

from discreet.reporting import ma2025, reproduction, searches

FORMS = reproduction.FORMS | ma2025.FORMS | searches.FORMS
"""By `Reproduction.form`."""
