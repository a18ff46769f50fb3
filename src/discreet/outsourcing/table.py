"""What a modeler receives: the rows of a release and their certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discreet.outsourcing.beliefs import RowBeliefs
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.files import read_numbers, sha256_of
from discreet.outsourcing.key import CERTIFICATE
from discreet.problems.tables import column_of, numbers_of
from discreet.validation import FloatArray, InvalidInput


@dataclass(frozen=True, eq=False)
class ReleasedTable:
    """A release as it arrived.

    Attributes:
        certificate: what it is and what it promises.
        points: (n, r) the released rows, in units of distance.
    """

    certificate: Certificate
    points: FloatArray

    @classmethod
    def read(cls, folder: str | Path) -> ReleasedTable:
        """The release in a folder.

        Raises:
            InvalidInput: for a folder without a release, a certificate whose figures do not
                follow, or rows that are not those it was made for.
        """
        path = Path(folder)
        try:
            text = (path / CERTIFICATE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"there is no release in {path} ({error}); give the folder that the curator sent."
            ) from error
        certificate = Certificate.from_json(text)
        rows = path / certificate.file
        try:
            content = rows.read_bytes()
        except OSError as error:
            raise InvalidInput(f"the rows of the release cannot be read ({error}).") from error
        if sha256_of(content) != certificate.sha256:
            raise InvalidInput(
                f"{rows} is not the file that the certificate was made for; take both from the "
                "same release."
            )
        frame = read_numbers(rows)
        if len(frame) != certificate.rows:
            raise InvalidInput(f"{rows} has {len(frame)} rows; expected are {certificate.rows}.")
        columns = [
            numbers_of(column_of(frame, name), "error", may_drop=False)
            for name in certificate.names
        ]
        return cls(certificate, np.stack(columns, axis=1))

    @property
    def box(self) -> tuple[FloatArray, FloatArray]:
        """(r,) the least and largest coordinates that a row without noise can have."""
        extent = self.certificate.bounds.extent
        if self.certificate.projection is None:
            return np.zeros(len(extent)), extent
        return self.certificate.projection.box(extent)

    def in_box(self) -> FloatArray:
        """(n, r) the released rows, each number moved to the nearest one that is possible."""
        low, high = self.box
        inside: FloatArray = np.clip(self.points, low, high)
        return inside

    def beliefs(self) -> RowBeliefs:
        """What the release says about where the rows are."""
        low, high = self.box
        return RowBeliefs.within(self.points, self.certificate.mechanism.scale, low, high)
