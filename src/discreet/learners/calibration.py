"""What an algorithm leaves open, as one small object: `Usca(..., calibration=PublishedUsca())`.

A calibration says how much noise a release has, what people add, which widths decide. It knows
nobody's data. Ours stand beside their algorithms; those of the papers live with the reproductions
and subclass the same base, so that "as published" is an argument like any other, and is saved and
loaded with its learner.

    Calibration                       base: names, options, registry
      Elimination                     what CAPRI leaves open: a family
        PosteriorElimination          a calibration of that family, `calibration = "posterior"`
      UscaCalibration, KernelCalibration, ...

In study files and saved learners a calibration is its name and its fields, beside the options of
the learner: `calibration = "bernstein"`, `norm = 2.0`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self

from discreet.codec import Serializable
from discreet.learners.base import Learner
from discreet.validation import InvalidInput, check_options


class Calibration(Serializable, ABC):
    """A frozen dataclass; its fields are its options, and say what they may be (codec).

    A direct subclass is the family of one algorithm and says what that leaves open. Each subclass
    with a `name` is known to its family from then on.

    Attributes:
        name: by which study files and saved learners call it; one for each of a family.
        kinds: the calibrations of the family by their names, the default first.
    """

    name: ClassVar[str]
    kinds: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if Calibration in cls.__bases__:
            cls.kinds = {}
        if "name" in vars(cls):
            cls.kinds[cls.name] = cls

    @classmethod
    def checked(cls, given: object) -> Self:
        """`given`, or the family's default for None; `InvalidInput` for anything else."""
        if given is None:
            default: Self = next(iter(cls.kinds.values()))()
            return default
        if not isinstance(given, cls):
            known = ", ".join(f"{kind.__name__}(..)" for kind in cls.kinds.values())
            raise InvalidInput(f"calibration was {given!r:.80}; pass one such as {known}.")
        return given

    def to_options(self) -> dict[str, Any]:
        """The inverse of `taken_from`."""
        names = self.option_names()
        return {"calibration": self.name, **{name: getattr(self, name) for name in names}}

    @classmethod
    def option_names(cls) -> list[str]:
        """The fields of a calibration, as study files name them."""
        return [field.name for field in fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Self:
        """The calibration that options name, by default the first; takes its own out of them.

        Raises:
            InvalidInput: for a calibration that the family does not have, or refuses its options.
        """
        name = options.pop("calibration", next(iter(cls.kinds)))
        if name not in cls.kinds:
            raise InvalidInput(
                f"calibration was {name!r:.80}; it must be one of {', '.join(cls.kinds)}. Those of "
                "your own, or of a paper, are known once the module that defines them is imported."
            )
        kind = cls.kinds[name]
        own = {option: options.pop(option) for option in kind.option_names() if option in options}
        calibration: Self = kind(**own)
        return calibration


def read_options(
    learner: type[Learner[Any, Any, Any]], options: Mapping[str, Any], family: type[Calibration]
) -> dict[str, Any]:
    """The options of a study file as keyword arguments of a learner that takes a calibration.

    Raises:
        InvalidInput: for an option that neither of them has.
    """
    rest = dict(options)
    calibration = family.taken_from(rest)
    known = [*learner.option_names(), *calibration.option_names()]
    check_options(learner.name, rest, list(dict.fromkeys(known)))
    return {**rest, "calibration": calibration}
