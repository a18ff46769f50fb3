"""Probabilities of the coins that privacy rests on: whole numbers of 64-bit words.

A mechanism that says whether the truth is in the set that it reports tosses one coin: with
probability h it hides, and draws a set without the truth. Let the truth be in a share `s` of all
sets, which are equally likely otherwise. A set is then likelier with the truth in it by the factor

    R = (1 - h) (1 - s) / (h s),   and   1 <= R <= e^epsilon   is what makes the report private.

Signed subset selection, unary encoding and PrivUnit are all of this form. A secure source tosses
coins of probability T / 2^64 for whole T, so the least T that keeps R <= e^epsilon is found here in
exact arithmetic: what is promised holds for the coin that is tossed, not for a formula near it. An
h that is rounded up in floating point may overshoot 1 - s, where sets without the truth become the
likelier ones by more than e^epsilon.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from discreet.validation import InvalidInput

_WORDS = 2**64
# R is below 2^64 / s for every coin, so that no larger exponent matters as long as s > 2^-120.
_MOST = 128.0
# Python's decimals round e^x correctly to these digits; ten of them are given up all the same.
_DIGITS, _SLACK = 50, Fraction(1, 10**40)


def hiding_probability(share: Fraction, epsilon: float) -> Fraction:
    """h, the least multiple of 2^-64 for which R is at most e^epsilon; 0 for an infinite epsilon.

    Args:
        share: s, above 2^-120 and below 1.
        epsilon: above 0.

    Raises:
        InvalidInput: if epsilon is so small that no such coin makes R larger than 1, so that
            reports would say nothing.
    """
    return Fraction(0) if math.isinf(epsilon) else _least(share, epsilon)


@lru_cache(maxsize=4096)
def _least(share: Fraction, epsilon: float) -> Fraction:
    rest = 1 - share
    hidden = Fraction(math.ceil(_WORDS * rest / (rest + share * _exponential(epsilon))), _WORDS)
    if hidden >= rest:
        largest = Fraction(math.ceil(rest * _WORDS) - 1, _WORDS)
        excess = (1 - largest) * rest / (largest * share) - 1 if largest else Fraction(1)
        raise InvalidInput(
            f"epsilon was {epsilon!r}, for which reports would say nothing: coins are tossed with "
            f"64 bits, so epsilon must be at least {1.01 * float(excess):.2g} here."
        )
    return hidden


def _exponential(exponent: float) -> Fraction:
    """A little less than e^exponent, for exponents from 0 up to _MOST; e^_MOST beyond."""
    with localcontext() as context:
        context.prec = _DIGITS
        return Fraction(Decimal(min(exponent, _MOST)).exp()) * (1 - _SLACK)
