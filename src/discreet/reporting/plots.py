"""What older figures take from layout.py."""

from discreet.reporting.layout import NARROW, WIDE, plain, thousands

__all__ = ["NARROW", "WIDE", "plain", "thousands"]
