"""A person's side under local privacy: acts without the service, and makes one report that is
private when it leaves.

    device = Device("https://trial.example.org", "earnings", key=TOKEN, store="device.db")
    terms = device.terms()                      # what the study asks people to agree to
    device.agree(terms.digest)                  # the person does
    choice = device.act({"age": 40, "region": "north"})
    device.report(choice.id, reward=1.0)        # drawn once, kept, sent as often as it takes
    device.send()                               # now and then, until nothing waits
    device.ledger()                             # what left, when, at what epsilon, to whom

**What the service learns beside the reports.** Whether a person reports is decided when they act,
before their context is looked at, by what they reported before and what they allow. An action whose
reward does not come in time is reported too, with the reward `missing`, because silence would say
that none came. A context that the policy does not allow counts as the nearest one that it does. The
bytes of a report are a function of the report. Its time remains: unless `hold_seconds` is as
long as `reward_seconds`, a report says that its reward was known by the time it was sent. Under
hold reports are drawn and sent in `send` alone, in the order of their actions. Policies are fetched
by `refresh`, which belongs on a schedule that has nothing to do with the person; `act` fetches one
only where there is none.

**With a shuffler** (`Terms.group_size` above 1) `url` is the address of the shuffler, and no
request goes to the learner. The report is encrypted to the learner's key in the terms, which the
SHA-256 that the person agreed to covers; the ciphertext is what is kept and sent. It leaves
`reward_seconds` after its action at the earliest, whatever `hold_seconds` is, because its time
decides its group. That time is kept with the action, so no later version of an app changes it.

**A report is drawn once.** Its action is marked, on the disk, before anything is drawn, and a
marked action is never drawn. The report is kept in one transaction with its row of the ledger
before it is seen; from then on the same bytes are sent.

**Auxiliary sources.** `Device(.., source="clinic")` is of a person elsewhere, whose action was
chosen there. Their policy chooses nothing, and costs what the source's terms say:

    identity = device.observe({"age": 40, "region": "north"}, "call")
    device.report(identity, reward=1.0)

**Clocks.** Times decide when a reward no longer comes and when a report is due, never what is
drawn or counted. A clock that is set back by less than a hold makes things wait; by more, held
reports leave at the next `send`. By more than `reward_seconds`, awaited rewards count as missing.
"""

from __future__ import annotations

import base64
import json
import math
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.codec import canonical, decode, encode
from discreet.learners.contributions import ContributionCounter
from discreet.learners.messages import Reports
from discreet.learners.policy import TARGET_NAME, Actions, ArmPolicy, Policy, Terms
from discreet.people.domain import arm_count, arm_numbers, with_names
from discreet.privacy import SecureNoise
from discreet.service.client.person import (
    Agreement,
    LedgerRow,
    PersonFile,
    Spending,
    State,
    affordable,
    agreement_of,
    event_fields,
    event_of,
    keep_agreement,
    keep_policy,
)
from discreet.service.client.transport import (
    AT_ONCE,
    AsyncClient,
    ChosenAction,
    Client,
    Patience,
    Refused,
    Unreachable,
    body_of,
    fields_of,
    plain_value,
    study_path,
)
from discreet.validation import InvalidInput, nearest_whole, number_from, positive_number

if TYPE_CHECKING:
    import httpx2

_DAY = 86_400.0
_ID_BITS = 62


class Device(Client):
    """One person's side of one study.

    Args:
        url: of the service; of the shuffler, where the study has one.
        study: its name.
        key: a token for devices of this study.
        store: the file of this person, the same one for every study that they take part in.
        agreed: the SHA-256 of the terms that the person agreed to, where the app knows it; else
            `agree` says so.
        default_arm: what is given while there is no policy; None for what the study says.
        reward_seconds: the time after an action within which its reward counts.
        missing: the reward that counts where none came in time; NaN for the middle of the bounds.
        hold_seconds: the least time between an action and its report, rounded up. Above 0 reports
            are drawn and leave in `send` alone.
        source: of which auxiliary source the person is; None where the study chooses for them.
        options: as of `Client`: `patience`, `transport`, `allow_http`.
    """

    def __init__(
        self,
        url: str,
        study: str,
        *,
        key: str,
        store: str | Path,
        agreed: str | None = None,
        default_arm: str | int | None = None,
        reward_seconds: float = 30 * _DAY,
        missing: float = math.nan,
        hold_seconds: float = 0.0,
        source: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(url, key=key, **options)
        self.study, self.source = study, source
        self._where = () if source is None else ("sources", source)
        # By which the person's file knows it; no study has a stroke in its name.
        self._stream = "/".join((study, *self._where))
        self.default_arm = default_arm
        self._file = PersonFile(store)
        self._pending = Pending(
            self._file,
            self.url,
            self._stream,
            positive_number(reward_seconds, "reward_seconds"),
            _reward(missing),
        )
        self._agreed = agreed
        self._hold_seconds = number_from(hold_seconds, "hold_seconds", 0.0)

    # What the person says and sees.

    def terms(self) -> Terms:
        """The study's current terms, for the person to read.

        Raises:
            Unreachable, Refused: as every request.
        """
        return self._offered_terms(self.patience)

    def agree(self, sha256: str) -> Terms:
        """Record that the person agrees to the terms with this SHA-256, and to no others.

        Earlier agreements end; what was paid under them still counts.

        Raises:
            InvalidInput: where the study asks for other terms.
        """
        return self._agree(sha256, self.patience).terms

    def ledger(self) -> list[LedgerRow]:
        """Every report of this person, to whatever study; it needs no service."""
        return self._file.ledger()

    def spending(self) -> Spending:
        """What this person has paid, and may pay, over all studies."""
        return self._file.spending()

    def allow(self, epsilon: float, delta: float = 0.0) -> None:
        """The person's word: what all studies together may cost them. Until it is given, it is what
        the first study asked for."""
        self._file.allow(epsilon, delta)

    # What the app does.

    def refresh(self) -> bool:
        """Fetch the current policy, if it is another one.

        Returns:
            Whether it is.

        Raises:
            InvalidInput: for a policy on other terms than the person agreed to; it is not kept.
            Unreachable, Refused: as every request.
        """
        return self._refresh(self._agreement(self.patience), self.patience)

    def act(self, context: Any = None) -> ChosenAction:
        """Choose for this person, with the policy at hand.

        Its reward is given to `report`, with the id of the choice. It has none where a report
        would be beyond what the person agreed to or allows, and for the default arm.

        Args:
            context: values by column, or in order; it stays in the person's file. A value outside
                its bounds counts as the nearest one within, and one that is missing as the middle.

        Raises:
            InvalidInput: before anything is agreed to, for a context of another shape, and for the
                first policy on other terms.
            Unreachable: with no policy, no service, and no default arm.
        """
        self._check_source(False)
        try:
            agreement, policy = self._policy(AT_ONCE)
        except Unreachable:
            return self._default()
        return self._pending.act(agreement, policy, context, self._hold)

    def observe(self, context: Any, arm: int | str) -> str | None:
        """Keep an action chosen elsewhere for this person of an auxiliary source.

        Its reward is given to `report`. As in all reports to sources, a value outside
        its bounds counts as the nearest one within, and an arm that there is not as missing.

        Args:
            context: values by column, or in order; it stays in the person's file.
            arm: by number or name.

        Returns:
            Its id, for `report`; None where a report would be beyond what the person agreed
            to or allows.

        Raises:
            InvalidInput: before anything is agreed to, for a context of another shape, and the
                first policy on other terms.
            Unreachable, Refused: where there is no policy here and none can be fetched.
        """
        self._check_source(True)
        agreement, policy = self._policy(self.patience)
        return self._pending.observe(agreement, policy, context, arm, self._hold)

    def report(self, identity: str | None, reward: float) -> bool:
        """Report what followed from a choice.

        The report is drawn and kept, and sent if the service can be reached; else `send` sends it.
        With `hold_seconds` the reward is kept, and `send` draws and sends the report.

        Args:
            identity: of the choice; None for one that nothing is reported of.
            reward: NaN where it is not known. One outside its bounds counts as the nearest within,
                and one that comes after `reward_seconds` as `missing`.

        Returns:
            Whether there will be a report; the same for the same choice, whatever the reward.

        Raises:
            InvalidInput: for an id that this file does not know.
        """
        number = _reward(reward)
        if identity is None or not self._pending.draw(identity, number):
            return False
        # Under hold the time of a report must not follow from that of its reward.
        if self._hold == 0.0:
            with suppress(Unreachable):
                self._send(AT_ONCE, False, time.time())
        return True

    def send(self, again: bool = False) -> list[LedgerRow]:
        """Send what waits and is due, after whatever waited too long for its reward was reported.

        Args:
            again: also what the service refused before, such as with a key that was revoked.

        Returns:
            The reports that the service accepted now, as rows of the ledger in the order of
            sending: what left, and what it cost.

        Raises:
            Unreachable: where something that is due waits still.
        """
        now = time.time()
        # One time for both: else what comes due in between leaves only where its reward is known.
        self._pending.draw_due(now)
        accepted = self._send(self.patience, again, now)
        rows = {row.number: row for row in self.ledger()} if accepted else {}
        return [rows[number] for number in accepted]

    @property
    def _hold(self) -> float:
        """The least time between an action and its report. With a shuffler the time decides the
        group of a report, so it must not follow from that of a reward."""
        with suppress(LookupError):
            if self._known_agreement().terms.group_size > 1:
                return max(self._hold_seconds, self._pending.reward_seconds)
        return self._hold_seconds

    # Terms and policies.

    def _check_source(self, wanted: bool) -> None:
        if wanted != (self.source is not None):
            asked, instead = ("observe()", "act()") if wanted else ("act()", "observe()")
            raise InvalidInput(
                f"{asked} was called with source = {self.source!r:.80}; the study chooses for its "
                f"own people and for none of a source, so call {instead}."
            )

    def _policy(self, patience: Patience) -> tuple[Agreement, Policy[Any]]:
        """What the person agreed to, and the policy at hand; it is fetched where there is none."""
        agreement = self._agreement(patience)
        policy = self._pending.policy(agreement.policy)
        if policy is None:
            self._refresh(replace(agreement, policy=None), patience)
            policy = self._pending.policy(self._known_agreement().policy)
        if policy is None:
            raise InvalidInput("the service sent no policy, or it was removed; call refresh().")
        return agreement, policy

    def _known_agreement(self) -> Agreement:
        with self._file.reading() as state:
            if state is None:
                raise LookupError(self.study)
            return agreement_of(state, self.url, self._stream, None)

    def _agreement(self, patience: Patience) -> Agreement:
        """What the person agreed to; `InvalidInput` where there is no agreement."""
        try:
            known = self._known_agreement()
        except LookupError:
            if self._agreed is None:
                raise InvalidInput(
                    f"this person has agreed to no terms of the study {self.study!r}: show "
                    "them device.terms(), and call device.agree(terms.digest), or give the SHA-256 "
                    "of the terms as agreed=."
                ) from None
            return self._agree(self._agreed, patience)
        if self._agreed not in (None, known.sha256):
            raise InvalidInput(
                f"agreed was {self._agreed!r:.80}, but this person agreed to {known.sha256} in the "
                f"study {self.study!r}; show them the new terms, and call device.agree() with "
                "their SHA-256 if they agree to these."
            )
        return known

    def _agree(self, sha256: str, patience: Patience) -> Agreement:
        with suppress(LookupError):
            known = self._known_agreement()
            if known.sha256 == sha256:
                return known
        terms = self._offered_terms(patience)
        if terms.digest != sha256:
            raise InvalidInput(
                f"this person agreed to the terms {sha256!r:.80}, but the study {self.study!r} "
                f"asks for {terms.digest}; nothing was agreed to. Show them device.terms()."
            )
        space, names = with_names(terms.arms)
        numbers, given = range(arm_count(space) or 0), self.default_arm
        if numbers and given is not None and given not in numbers and given not in names:
            arms = ", ".join(map(repr, names)) or f"0 to {numbers[-1]}"
            raise InvalidInput(f"default_arm was {given!r:.80}; the arms of the study are {arms}.")
        if terms.group_size > 1:
            from discreet.service.hpke import check_learner_key

            check_learner_key(terms)
        facts = fields_of(self._ask("GET", study_path(self.study), patience=patience))
        arm = _known_arm(facts.get("default_arm") if isinstance(facts, dict) else None, terms)
        with self._file.changing() as state:
            keep_agreement(state, self.url, self._stream, terms, arm, time.time())
        return self._known_agreement()

    def _offered_terms(self, patience: Patience) -> Terms:
        path = study_path(self.study, *self._where, "terms")
        return Terms.from_fields(fields_of(self._ask("GET", path, patience=patience)))

    def _refresh(self, agreement: Agreement, patience: Patience) -> bool:
        path = study_path(self.study, *self._where, "policy")
        answer = self._ask("GET", path, etag=agreement.policy, patience=patience)
        if answer.status_code == 304:
            return False
        policy = read_policy(answer)
        if policy.stream != (self.source or TARGET_NAME):
            raise InvalidInput(
                f"the service sent a {policy.kind} for source = {self.source!r:.80}; it is not "
                "kept. Fetch it again."
            )
        agreement.terms.check(policy, SecureNoise.name)
        if policy.digest == agreement.policy:
            return False
        with self._file.changing() as state:
            body = answer.content.decode()
            keep_policy(state, self.url, self._stream, agreement, policy.digest, body)
        return True

    # Actions and reports.

    def _default(self) -> ChosenAction:
        arm: str | int | None = self.default_arm
        names: tuple[str, ...] = ()
        with suppress(LookupError):
            known = self._known_agreement()
            arm = known.default_arm if arm is None else arm
            names = with_names(known.terms.arms)[1]
        if arm is None:
            raise Unreachable(
                f"the study {self.study!r} cannot be reached, no policy of it is here, and it has "
                "no default arm; state one as default_arm=, or try again later."
            )
        return ChosenAction.default(arm, names)

    def _send(self, patience: Patience, again: bool, now: float) -> list[int]:
        """The numbers of the reports that were accepted, of those that are due at a time."""
        accepted = list[int]()
        for row in self._pending.reports(("waiting", "refused") if again else ("waiting",)):
            if _is_held(row, now):
                continue
            path = study_path(self.study, *self._where, "reports")
            try:
                answer = self._ask("POST", path, row["body"], patience=patience)
                if not is_receipt(answer):
                    raise Unreachable(
                        f"something answered {answer.status_code} in place of the service; the "
                        "report is kept, and sent again later.",
                        answer.status_code,
                    )
            except Refused as refusal:
                if refusal.status == 409 and self._paused(self.study, patience):
                    raise Unreachable(str(refusal), 409) from refusal
                self._pending.mark(row["number"], "refused", str(refusal))
                continue
            self._pending.mark(row["number"], "accepted")
            accepted.append(row["number"])
        return accepted


class AsyncDevice(AsyncClient):
    """A `Device` whose methods are awaited."""

    blocking = Device


def _known_arm(given: Any, terms: Terms) -> str | int | None:
    """The default arm of the study, by name or number; None for one that the terms do not have."""
    space, names = with_names(terms.arms)
    number = names.index(given) if given in names else given
    return given if type(number) is int and 0 <= number < (arm_count(space) or 0) else None


def _reward(value: Any) -> float:
    """A reward as a number; what it is worth is never a reason to refuse it."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"reward was {type(value).__name__}; give one number, or NaN where it is not known."
        ) from error


def read_policy(answer: httpx2.Response) -> Policy[Any]:
    """The policy in an answer, verified by its ETag."""
    try:
        policy: Policy[Any] = decode(answer.content.decode(), Policy)
    except UnicodeDecodeError as error:
        raise InvalidInput("the policy was no text; fetch it again.") from error
    named = answer.headers.get("etag", "").removeprefix("W/").strip('"')
    if named != policy.digest:
        raise InvalidInput(
            f"the service named the policy {named!r:.80}, but its SHA-256 is {policy.digest}; it "
            "was changed on the way. It is not used; fetch it again."
        )
    return policy


def is_receipt(answer: httpx2.Response, count: int = 1) -> bool:
    """Whether the service has the reports: it says 202, and that they were stored now or before."""
    if answer.status_code != 202:
        return False
    try:
        fields = fields_of(answer)
        return int(fields["stored"]) + int(fields["repeated"]) == count
    except (Unreachable, LookupError, TypeError, ValueError, OverflowError):
        return False


class Pending:
    """What one person did in one study, until the service has its report.

    Args:
        file: of the person.
        service, study: to whom it goes.
        reward_seconds: the time after its action within which a reward counts.
        missing: the reward that counts where none came by then.
    """

    def __init__(
        self, file: PersonFile, service: str, study: str, reward_seconds: float, missing: float
    ) -> None:
        self._file = file
        self._place = service, study
        self.reward_seconds, self._missing = reward_seconds, missing

    def policy(self, digest: str | None) -> Policy[Any] | None:
        """A policy that is kept; None where it is not."""
        with self._file.reading() as state:
            body = None if state is None else self._policy_text(state, digest)
        return None if body is None else decode(body, Policy)

    def act(
        self, agreement: Agreement, policy: Policy[Any], context: Any, hold_seconds: float
    ) -> ChosenAction:
        """Put by what a report will cost, choose, and keep the action until its reward comes."""
        people = 1 if context is None else [context]
        facts = self._facts(agreement, policy)
        with self._file.changing() as state:
            # Before the context is read: whether there is a report must not depend on it.
            identity = secrets.token_hex(16) if affordable(state, agreement, facts) else None
            # A refusal would be silence, which tells something about the context.
            people = _numbers(policy, people)
            actions, propensities = policy.act(
                people, np.random.default_rng(), agreement.terms, nearest=True
            )
            if identity is not None:
                _keep(state, identity, facts, people, encode(actions), hold_seconds)
        return ChosenAction.made(identity, policy, actions, float(propensities[0]))

    def observe(
        self, agreement: Agreement, policy: Any, context: Any, arm: Any, hold_seconds: float
    ) -> str | None:
        """As `act`, for an action chosen elsewhere, of a source; the action's id."""
        facts = self._facts(agreement, policy)
        with self._file.changing() as state:
            identity = secrets.token_hex(16) if affordable(state, agreement, facts) else None
            people = _numbers(policy, [context])
            given = arm_numbers(np.array([arm], dtype=object), policy.arm_names)
            arms = nearest_whole(given, "arm", 0, policy.arms - 1, 1)
            if identity is not None:
                _keep(state, identity, facts, people, json.dumps(arms.tolist()), hold_seconds)
        return identity

    def draw(self, identity: str, reward: float | None = None) -> bool:
        """Draw the report of an action, unless that was ever begun; a late reward counts as none.

        Under hold a reward is kept, and `draw_due`, which gives none, draws: the work of `send`
        before its requests must not tell whether the reward came.

        Returns:
            Whether there is a report now, or will be.

        Raises:
            InvalidInput: for an action that the file does not know.
        """
        with self._file.drawing() as alone:
            with self._file.changing() as state:
                row = self._row(state, identity)
                if row is None:
                    return _was_made(state, identity)
                if row["drawing"] is not None:
                    if alone:
                        self._settle(state, row)
                    return not alone
                terms = agreement_of(state, *self._place, row["sha256"]).terms
                keeps = reward is not None and row["due"] > row["made"]
                if reward is None or self._late(row, terms, time.time()):
                    reward = self._missing
                reward = float(row["reward"] or reward)
                if keeps:
                    kept = repr(reward), identity
                    state.execute("UPDATE pending SET reward = ? WHERE id = ?", kept)
                    return True
                mark = secrets.token_hex(16)
                state.execute("UPDATE pending SET drawing = ? WHERE id = ?", (mark, identity))
                others = self._others(state, row)
            policy = self.policy(row["policy"])
            assert policy is not None
            report = _drawn(policy, terms, others, row, reward)
            with self._file.changing() as state:
                marked = self._row(state, identity)
                if marked is None or marked["drawing"] != mark:
                    return _was_made(state, identity)
                body = _body(report, policy, terms)
                self._settle(state, row, report.policy_version, body)
        return True

    def draw_due(self, now: float) -> None:
        """Report held actions that are due, and those whose reward had not come in time."""
        wanted = "SELECT * FROM pending JOIN agreements USING (service, study, sha256)"
        for row in self._rows(f"{wanted} WHERE service = ? AND study = ?"):
            late = self._late(row, Terms.from_fields(json.loads(row["terms"])), now)
            if late or (row["reward"] is not None and not _is_held(row, now)):
                self.draw(row["id"])

    def _late(self, row: Any, terms: Terms, now: float) -> bool:
        """Whether rewards of an action no longer count at a time."""
        hold = row["due"] - row["made"] if terms.group_size > 1 else self.reward_seconds
        # Either way, so that a clock that was far ahead keeps no context forever.
        return bool(abs(now - row["made"]) >= min(hold, self.reward_seconds))

    def reports(self, states: Sequence[State]) -> list[Any]:
        """Reports in one of these states, in the order in which they are due: `number`, `body`,
        `made`, `due`. Their numbers are in the order of rewards, which must not show under hold."""
        wanted = (
            "SELECT number, body, made, due, state FROM ledger WHERE service = ? AND study = ? "
            "ORDER BY due, id"
        )
        return [row for row in self._rows(wanted) if row["state"] in states]

    def mark(self, number: int, to: State, reason: str | None = None) -> None:
        """What became of a report that was sent."""
        sent = time.time() if to == "accepted" else None
        with self._file.changing() as state:
            state.execute(
                "UPDATE ledger SET state = ?, sent = ?, reason = ? WHERE number = ? "
                "AND state <> 'accepted'",
                (to, sent, reason, number),
            )

    def _facts(self, agreement: Agreement, policy: Policy[Any]) -> dict[str, Any]:
        """To whom a report would go, under what, and what it would cost."""
        return {
            "service": self._place[0],
            "study": self._place[1],
            "sha256": agreement.sha256,
            "policy": policy.digest,
            "text": canonical(policy),
            **event_fields(event_of(policy)),
        }

    def _rows(self, wanted: str) -> list[Any]:
        with self._file.reading() as state:
            return [] if state is None else state.execute(wanted, self._place).fetchall()

    def _row(self, state: Connection, identity: str) -> Any:
        return state.execute(
            "SELECT * FROM pending WHERE id = ? AND service = ? AND study = ?",
            (identity, *self._place),
        ).fetchone()

    def _others(self, state: Connection, row: Any) -> int:
        """How many other reports of this agreement were made, or put by."""
        wanted = "SELECT id FROM {} WHERE service = ? AND study = ? AND sha256 = ?"
        both = f"{wanted.format('ledger')} UNION ALL {wanted.format('pending')}"
        return len(state.execute(both, (*self._place, row["sha256"]) * 2).fetchall()) - 1

    def _policy_text(self, state: Connection, digest: str | None) -> str | None:
        row = state.execute(
            "SELECT body FROM policies WHERE service = ? AND study = ? AND digest = ?",
            (*self._place, digest),
        ).fetchone()
        return None if row is None else str(row["body"])

    def _settle(
        self, state: Connection, row: Any, version: int | None = None, body: bytes | None = None
    ) -> None:
        """The action becomes a row of the ledger with its report; None where that was lost."""
        if version is None:
            version = decode(self._policy_text(state, row["policy"]) or "", Policy).version
        state.execute(
            "INSERT INTO ledger (id, service, study, sha256, version, epsilon, multiplier, made, "
            "due, state, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(row[name] for name in ("id", "service", "study", "sha256")),
                version,
                *(row[name] for name in ("epsilon", "multiplier", "made", "due")),
                "lost" if body is None else "waiting",
                body,
            ),
        )
        state.execute("DELETE FROM pending WHERE id = ?", (row["id"],))


def _keep(
    state: Connection, identity: str, facts: dict[str, Any], people: Any, actions: str, hold: float
) -> None:
    """An action waits for its reward, with its policy, which another process may have removed."""
    now = time.time()
    state.execute("INSERT OR IGNORE INTO policies VALUES (:service, :study, :policy, :text)", facts)
    state.execute(
        "INSERT INTO pending VALUES (:id, :service, :study, :sha256, :policy, "
        ":context, :actions, :epsilon, :multiplier, :made, :due, NULL, NULL)",
        {
            **facts,
            "id": identity,
            "context": json.dumps(people, default=plain_value),
            "actions": actions,
            "made": now,
            # Whole, so that `made + hold - made` is not less.
            "due": now + math.ceil(hold),
        },
    )


def _numbers(policy: Any, people: Any) -> Any:
    """Contexts as numbers within their bounds, which a file keeps whatever they were given as."""
    return policy.domain.nearest(people).tolist() if isinstance(policy, ArmPolicy) else people


def _is_held(row: Any, now: float) -> bool:
    """Whether a report is nearer to its action, either way, than its hold: a clock that was set
    back must neither keep it forever nor send it because its reward is known."""
    return bool(abs(now - row["made"]) < row["due"] - row["made"])


def _drawn(policy: Any, terms: Terms, others: int, row: Any, reward: float) -> Reports:
    """The report of an action, beside `others` that were made or put by under its terms."""
    context, noise, report = json.loads(row["context"]), SecureNoise(), None
    if policy.chooses:
        counter = ContributionCounter(terms, others, row["multiplier"] is not None)
        actions = decode(row["actions"], Actions)
        report = counter.report(policy, context, actions, [reward], noise)
    elif others < terms.max_contributions:
        arms = json.loads(row["actions"])
        report = policy.report(context, arms, [reward], noise, terms)
    assert report is not None
    return report


def _body(report: Reports, policy: Policy[Any], terms: Terms) -> bytes:
    """What is sent for one report, now and whenever it is sent again.

    The service knows it again by its public coin, where that is random, or else by an id: the
    public coins of a source are questions, which people share. With a shuffler it is encrypted.
    """
    if terms.group_size > 1:
        from discreet.service.hpke import encrypted_report

        ciphertext = base64.b64encode(encrypted_report(report, policy, terms)).decode()
        return body_of({"policy": policy.digest, "ciphertext": ciphertext})
    fields: dict[str, Any] = {"reports": [encode(report)]}
    if not policy.chooses or len(getattr(report, "public_coins", ())) != len(report):
        fields["ids"] = [secrets.randbits(_ID_BITS)]
    return body_of(fields)


def _was_made(state: Connection, identity: str) -> bool:
    row = state.execute("SELECT state FROM ledger WHERE id = ?", (identity,)).fetchone()
    if row is None:
        raise InvalidInput(
            f"this file has no choice {identity!r:.80} that waits for its reward, and no report of "
            "it; give the id of a choice that act() made with this store."
        )
    return bool(row["state"] != "lost")
