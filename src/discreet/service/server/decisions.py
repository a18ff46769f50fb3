"""Decisions under joint privacy: an action now, its reward later, by the decision's id.

What a person brought is sealed in the database until a release has it or it expires; only the id
stays, by which a reward that comes again is refused.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, insert, select, update

from discreet.codec import decode, encode
from discreet.learners.contributions import read_ids
from discreet.learners.policy import TARGET_NAME, Actions, Policy
from discreet.privacy import Unprotected
from discreet.service.server.bodies import DecisionFields
from discreet.service.server.deployment import (
    LONGEST_ID,
    brought,
    decrypted,
    encrypted,
    longest_decision,
)
from discreet.service.server.encryption import needed
from discreet.service.server.errors import Conflict, Gone, NotFound
from discreet.service.server.schema import RECORD_DAYS, decisions
from discreet.service.server.store import Store
from discreet.validation import InvalidInput

# Made once: every decision writes it.
_DECIDED = insert(decisions).values(state="waiting")


class DecisionStore:
    """Makes decisions for the studies of a store, and takes their rewards."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def decide(
        self, name: str, context: Any, person: str | None = None, key: str | None = None
    ) -> DecisionFields:
        """Choose for one person; the reward follows by the decision's id.

        Args:
            name: of the study.
            context: what the person brings: values by column, or in order; the points of a
                decision set; None where everyone can be given the same points.
            person: who it is, where a promise covers several contributions of a person.
            key: the id of the key that asked, by which the decision can be discarded.

        Raises:
            InvalidInput: a context of another shape, an id that is none, or a study that makes no
                decisions. Values outside the domain are moved to the nearest within, because a
                network sees whether a decision is refused.
            Conflict, Gone: where the study makes none now.
        """
        served = self.store.study(name)
        if not served.secret:
            raise InvalidInput(
                f"the study {name!r} has local privacy: its policy chooses on the device; fetch "
                "the policy, and send the report."
            )
        counted = (
            served.learner.budget.max_contributions > 1
            and served.learner.budget.protects == "person"
        )
        if counted != (person is not None):
            raise InvalidInput(
                f"person was {'missing' if counted else 'given'}, and the study {name!r} promises "
                f"{served.learner.budget!r}: send an id for each person if, and only if, a promise "
                "covers several contributions."
            )
        if person is not None:
            (person,) = read_ids([person], 1)
            if len(person) > LONGEST_ID:
                raise InvalidInput(
                    f"person had {len(person)} characters; send an id of at most {LONGEST_ID}."
                )
        policy: Policy[Any] = served.policies(TARGET_NAME)[-1]
        numbers, warning = brought(policy, context)
        people = 1 if numbers is None else [numbers]
        actions, propensities = policy.act(people, np.random.default_rng())
        identity, now = secrets.token_hex(16), self.store.clock.now()
        payload = {"context": numbers, "actions": encode(actions), "person": person}
        sealed = encrypted(
            self.store.database.cipher,
            json.dumps(payload).encode(),
            True,
            name,
            f"decision {identity}",
            longest_decision(policy.domain, policy.space),
        )
        with self.store.database.writing() as connection:
            self.store.check_running(connection, name)
            connection.execute(
                _DECIDED,
                {
                    "id": identity,
                    "study": name,
                    "version": policy.version,
                    "payload": sealed,
                    "decided": now,
                    "expires": now + served.deployment.expires_seconds,
                    "key": key,
                },
            )
        arm = int(actions.arms[0])
        # Made here, so there is nothing to check.
        return DecisionFields.model_construct(
            id=identity,
            version=policy.version,
            arm=arm,
            name=policy.arm_names[arm] if policy.arm_names and arm >= 0 else None,
            point=None if actions.points is None else list(map(float, actions.points[0])),
            propensity=float(propensities[0]),
            warning=warning,
        )

    def reward(self, name: str, identity: str, reward: float) -> bool:
        """What followed from a decision; once.

        Returns:
            Whether it is new; False where the same reward had come before, or any, once what it
            was has been erased.

        Raises:
            NotFound: for a decision that this study did not make.
            Gone: for one that expired.
            Conflict: where another reward came before.
            InvalidInput: a reward outside its bounds.
        """
        with self.store.database.reading() as connection:
            row = self._row(connection, name, identity)
        cipher = needed(self.store.database.cipher, name)
        # 1 and 1.0 are the same reward.
        mark = cipher.mark(f"{name} {identity} {float(reward)!r}".encode())
        values: dict[str, Any] = {}
        if row.state == "waiting" and row.payload is not None:
            place = f"decision {identity}"
            kept = json.loads(decrypted(cipher, row.payload, True, name, place))
            report = self._observed(name, row.version, kept, reward)
            content = json.dumps({"report": report, "person": kept["person"]}).encode()
            learner = self.store.study(name).learner
            longest = longest_decision(learner.domain, learner.space)
            values = {
                "mark": mark,
                "payload": encrypted(cipher, content, True, name, place, longest),
            }
        with self.store.database.writing() as connection:
            if not values:
                return self._again(self._row(connection, name, identity), mark)
            self.store.check_running(connection, name)
            changed = connection.execute(
                update(decisions)
                .where(decisions.c.id == identity, decisions.c.state == "waiting")
                .values(state="rewarded", **values)
            )
            if changed.rowcount == 1:
                return True
            return self._again(self._row(connection, name, identity), mark)

    @staticmethod
    def _row(connection: Connection, name: str, identity: str) -> Row[Any]:
        row = connection.execute(
            select(decisions).where(decisions.c.id == identity, decisions.c.study == name)
        ).one_or_none()
        if row is None:
            raise NotFound(
                f"the study {name!r} has made no decision {identity!r:.80}, or it ended more than "
                f"{RECORD_DAYS:.0f} days ago."
            )
        return row

    @staticmethod
    def _again(row: Row[Any], mark: bytes) -> bool:
        """The answer to a repeated reward; `False` if it is the same, or the first was erased."""
        if row.state == "expired":
            raise Gone(f"the decision {row.id} expired without a reward, and is not learnt from.")
        if row.state == "waiting":
            raise Gone(f"the study {row.study!r} is finished; it takes nothing more.")
        if row.mark not in (None, mark):
            raise Conflict(
                f"the decision {row.id} has another reward already; a reward is sent once, and "
                "cannot be changed."
            )
        return False

    def _observed(self, name: str, version: int, kept: dict[str, Any], reward: float) -> str:
        """The report of a decision and its reward for the learner."""
        served = self.store.study(name)
        if version >= len(served.policies(TARGET_NAME)):
            served = self.store.study(name, fresh=True)  # another server made the decision
        policy: Policy[Any] = served.policies(TARGET_NAME)[version]
        people = 1 if kept["context"] is None else [kept["context"]]
        actions = decode(kept["actions"], Actions)
        report = policy.report(people, actions, [reward], Unprotected())
        served.check_reports(TARGET_NAME, report)
        return encode(report)
