"""The curator: holds a table of people, releases it once, and answers questions about rows.

    curator = Curator("key")
    proposal = curator.propose(frame, bounds, Outsourced(3.0, 1e-5, radius=1.0), noise)
    certificate = curator.draw(proposal)       # proposal.certificate says what it will promise
    curator.publish(certificate.release, "release")
    answers = curator.answer(certificate.release, questions)

A release is drawn once for a table and a key. Asking again for the same gives what was drawn;
asking for another one is refused unless `Allowed(again=True)` says so, and then its certificate
covers both. A table is known by its people and their values, in whatever order a file has them.
What a key cannot know is another key: people who are released with two keys pay for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from discreet.outsourcing.answer_noise import AnswerRules
from discreet.outsourcing.answering import (
    Unmeasured,
    answered,
    known_outcomes,
    new_questions,
    outcome_columns,
)
from discreet.outsourcing.bounds import ROW, PublicBounds
from discreet.outsourcing.certificate import Certificate
from discreet.outsourcing.files import Format, sha256_of, table_bytes
from discreet.outsourcing.key import Drawn, Key, check_folder, open_folder, read_key
from discreet.outsourcing.proposal import Allowed, People, Proposal, propose
from discreet.outsourcing.publishing import check_out, publish
from discreet.outsourcing.questions import Answer, Question
from discreet.outsourcing.release import draw_rows
from discreet.privacy import NoiseSource, Outsourced
from discreet.validation import InvalidInput


class Curator:
    """One table and its key (see the module).

    Args:
        key: the folder of the key; made by the first release.
    """

    def __init__(self, key: str | Path) -> None:
        self.folder = Path(key)

    def propose(
        self,
        frame: pd.DataFrame,
        bounds: PublicBounds,
        budget: Outsourced,
        noise: NoiseSource,
        *,
        projected: int | None = None,
        answers: AnswerRules | None = None,
        form: Format = "csv",
        seed: int | None = None,
        allowed: Allowed | None = None,
    ) -> Proposal:
        """What a release would be: nothing is drawn, and no file or folder changes.

        Args:
            frame: the table, one row for each person.
            bounds: public bounds and units, with the columns of ids and outcomes.
            budget: epsilon, delta and the radius of neighbours.
            noise: the source of the noise.
            projected: to how many columns rows are projected; None to release all.
            answers: how questions will be answered; None for answers as they are, each row once.
            form: of the file with the rows, `csv` or `parquet`.
            seed: of `SimulatedNoise`, so that answers can be simulated too; None with
                `SecureNoise`.
            allowed: what is only done if it is asked for by name.

        Raises:
            InvalidInput: for a table that does not fit the bounds, a key of another table, and
                whatever `allowed` does not name.
        """
        proposal = propose(
            People.of(frame, bounds),
            bounds,
            budget,
            noise,
            projected,
            AnswerRules() if answers is None else answers,
            form,
            seed,
            Allowed() if allowed is None else allowed,
        )
        check_folder(self.folder)
        return proposal.against(read_key(self.folder))

    def draw(
        self, proposal: Proposal, progress: Callable[[int], None] | None = None
    ) -> Certificate:
        """Draw what was proposed, or give the release that was drawn for the same wish.

        Args:
            proposal: from `propose`; what the key says meanwhile is looked up once more.
            progress: is told how many rows are done.
        """
        with open_folder(self.folder):
            key = read_key(self.folder)
            current = proposal.against(key)
            if current.drawn:
                return current.certificate
            people = current.people
            if key is None:
                bounds = current.plan.bounds
                key = Key(self.folder, people.fingerprint, bounds, people.ids, people.outcomes)
            plan = current.named()
            rows = draw_rows(
                people.coordinates, plan.mechanism, plan.projection, current.noise, progress
            )
            frame = pd.DataFrame(rows.points, columns=list(plan.names))
            frame.insert(0, ROW, np.arange(plan.rows))
            content = table_bytes(frame, "csv" if plan.file.endswith("csv") else "parquet")
            certificate = replace(plan, sha256=sha256_of(content))
            drawn = Drawn(plan.release, current.asked, current.seed)
            key.with_release(drawn, certificate, content, rows.order)
            return certificate

    def check_out(self, proposal: Proposal, out: str | Path) -> None:
        """Refuse, before anything is drawn, a folder that the release could not be written to."""
        check_out(Path(out), self.folder, proposal.certificate)

    def publish(self, release: str, out: str | Path) -> bool:
        """Write a release to the folder `out`, for the modeler; False if it was there already.

        What may be there is this release, even damaged, or a simulated one, which is replaced.
        """
        with self._opened() as key:
            key.find(release)
            return publish(key, release, Path(out))

    def answer(
        self, release: str, questions: Sequence[Question], outcomes: pd.DataFrame | None = None
    ) -> list[Answer]:
        """Answers to these questions, and before them all that were given for the release.

        An answer is drawn once. The same question again gets the same answer; so does a person who
        is asked for in another release of the table as often as is allowed.

        Args:
            release: which release the rows are of.
            questions: what is asked.
            outcomes: a table with the columns of ids and outcomes, for people measured meanwhile;
                an empty outcome says that a person cannot be measured.

        Raises:
            Unmeasured: when an outcome is not known.
            InvalidInput: for questions that cannot be; nothing was answered then.
        """
        with self._opened() as key:
            drawn, certificate = key.find(release), key.certificate(release)
            log = key.answers()
            new = new_questions(certificate, release, questions, log)
            order = key.order(release)
            known, measured = known_outcomes(key, outcomes)
            people = order[[one.row for one in new]]
            missing = [int(p) for p in people if math.isnan(known[p]) and not measured[p]]
            if missing:
                raise Unmeasured(tuple(key.ids[p] for p in dict.fromkeys(missing)))
            fresh = answered(key, drawn, certificate, new, people, known, log)
            key.log(fresh)
            return [
                Answer(Question(one.question, one.row), one.value)
                for one in sorted([*log, *fresh], key=lambda one: one.question)
                if one.release == release
            ]

    def outcome_columns(self) -> tuple[str, str]:
        """What the columns of ids and outcomes are called in a table of outcomes."""
        return outcome_columns(self._key())

    @contextmanager
    def _opened(self) -> Iterator[Key]:
        """The key, for this process alone."""
        if not self.folder.is_dir():
            self._key()
        with open_folder(self.folder):
            yield self._key()

    def _key(self) -> Key:
        key = read_key(self.folder)
        if key is None:
            raise InvalidInput(
                f"there is no key in {self.folder}; give the folder that `discreet curate` made."
            )
        return key
