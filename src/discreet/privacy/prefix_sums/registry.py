"""The mechanisms by name, so that saved streams and configuration files can name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from typing import Any

from discreet.privacy.prefix_sums.base import PrefixMechanism
from discreet.privacy.prefix_sums.doubling import Doubling
from discreet.privacy.prefix_sums.epochs import GeometricEpochs
from discreet.privacy.prefix_sums.independent import Independent
from discreet.privacy.prefix_sums.toeplitz import BufferedToeplitz, SquareRootToeplitz
from discreet.privacy.prefix_sums.tree import BinaryTree, Honaker
from discreet.validation import InvalidInput

MECHANISMS: dict[str, type[PrefixMechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        BufferedToeplitz,
        GeometricEpochs,
        BinaryTree,
        Honaker,
        SquareRootToeplitz,
        Independent,
        Doubling,
    )
}


def mechanism_to_fields(mechanism: PrefixMechanism) -> dict[str, Any]:
    """JSON values that name the mechanism and its settings."""
    settings = [f.name for f in dataclass_fields(mechanism) if f.init]  # type: ignore[arg-type]
    return {"name": mechanism.name, **{name: getattr(mechanism, name) for name in settings}}


def mechanism_from_fields(fields: Mapping[str, Any]) -> PrefixMechanism:
    """The inverse of `mechanism_to_fields`.

    Raises:
        InvalidInput: for a name that is not known, or settings that the mechanism does not allow.
    """
    settings = dict(fields)
    name = settings.pop("name", None)
    if name not in MECHANISMS:
        raise InvalidInput(
            f"the mechanism's name was {name!r:.80}; it must be one of {list(MECHANISMS)}."
        )
    try:
        return MECHANISMS[name](**settings)
    except TypeError as error:
        raise InvalidInput(f"the settings of {name} do not fit: {error}.") from error
