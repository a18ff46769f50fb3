"""What pages show, and why each of it is public.

| shown                        | public because                                                    |
|------------------------------|-------------------------------------------------------------------|
| verdict, reward, gain        | post-processing of releases (findings.py)                         |
| who is given what            | a policy is published, and gives the same to all who have the     |
|                              | same context; averaged over the domain or what releases say of it |
| releases, ledger             | published themselves                                              |
| certificate                  | derived from the ledger                                           |
| counts of reports, decisions | how many people took part, and when, is the same for any two data |
|                              | sets that a promise compares (replace-one)                        |
| title, state, terms          | declared before anybody came                                      |
| rows that cannot be read     | not public, and shown to operators alone                          |

What is drawn is kept by the release that it follows from, and drawn once. A thread reads the
summaries of releases, and counts; a page shows what is known by then. A summary is written in the
transaction of its release (findings.py), so every process shows the same, whenever it began. No
learner is asked here, and nothing sealed is opened.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from sqlalchemy import Row, func, literal, select

from discreet.codec import decode
from discreet.lab.reporting.numbers import (
    counted,
    decimals,
    listed,
    number_text,
    share_text,
    upward,
)
from discreet.lab.reporting.provenance import provenance_of_service
from discreet.learners.policy import TARGET_NAME, ArmPolicy
from discreet.learners.values import Value
from discreet.privacy import Guarantee
from discreet.service.server.dashboard.charts import (
    MINUS,
    Mark,
    line_chart,
    share_bar,
)
from discreet.service.server.findings import (
    LevelShares,
    ReleaseSummary,
    arm_names,
    finding_of_policy,
    parts_of,
    read,
)
from discreet.service.server.forgetting import deleted_rows
from discreet.service.server.ledger import MILLION
from discreet.service.server.routes import certificate_of
from discreet.service.server.schema import decisions, ledger, policies, public_coins, studies
from discreet.service.server.service import Service
from discreet.service.server.store import Store
from discreet.validation import InvalidInput

_MOST_MARKS = 120
_MOST_ARMS = 6  # that have a column of their own
_SHOWN_RELEASES = 12
_TRUST = {
    "local": "local: privacy is added on each person's side, no one else need be trusted",
    "shuffled": "shuffled: as local, and another operator's shuffler hides whose report is whose",
    "joint": "joint: this service is trusted with the data, what others see is private",
}
_WAITING = "The figures of this release are being computed."
_LOG = logging.getLogger(__name__)
_SECONDS = 1.0
# Seconds without a visitor after which at most a tenth of the time is spent here.
_LOOKED_SECONDS, _REST = 30.0, 9.0
# Counting may take a twentieth of the time.
_COUNTING = 20.0


@dataclass(frozen=True)
class ReleaseRow:
    """A line of the table of releases.

    Attributes:
        version, stream, published, reports, digest: as in the database.
        asked, held: epsilons.
        delta: that is held.
    """

    version: int
    stream: str
    published: float
    reports: int
    asked: float
    held: float
    delta: float
    digest: str


@dataclass(frozen=True)
class Given:
    """Who is given what: a row for all, then one for each part of a column.

    Attributes:
        names: of the arms.
        rows: labels, shares in words, and as a bar.
        spread: by how much the share of an arm differs at most between two parts.
    """

    names: tuple[str, ...]
    spread: float
    rows: tuple[tuple[str, tuple[str, ...], Markup], ...]


class Views:
    """Pages of a service.

    Args:
        service: whose studies.
        watch: what its learners say.
    """

    def __init__(self, service: Service, watch: Watch) -> None:
        self._service, self._watch = service, watch
        self._drawn: dict[tuple[str, str], tuple[Any, Any]] = {}

    def studies(self, only: str | None) -> list[dict[str, Any]]:
        """The studies that a key may see."""
        latest = (
            select(policies.c.study, func.max(policies.c.people).label("people"))
            .where(policies.c.stream == TARGET_NAME)
            .group_by(policies.c.study)
            .subquery()
        )
        wanted = (
            select(studies.c.name, studies.c.title, studies.c.trust_model, studies.c.state)
            .add_columns(latest.c.people)
            .outerjoin(latest, latest.c.study == studies.c.name)
            .order_by(studies.c.name)
        )
        if only is not None:
            wanted = wanted.where(studies.c.name == only)
        with self._service.database.reading() as connection:
            return [dict(row._mapping) for row in connection.execute(wanted)]

    def study(self, name: str, column: str = "") -> dict[str, Any]:
        """Everything that the page of a study shows, with shares along one of its columns.

        Raises:
            NotFound: where there is no such study.
            InvalidInput: where it has no such column.
        """
        row = self._service.store.row(name)
        served = self._service.store.study(name)
        columns = list(served.learner.domain.names)
        if column and column not in columns:
            raise InvalidInput(
                f"column was {column!r:.80}; the study has the columns {', '.join(columns)}."
            )
        seen, lines = self._watch.seen(name), self.releases(name)
        set_aside = self._service.store.set_aside(name)
        own = _of_target(lines)
        shown: dict[str, Any] = {
            "study": row,
            "facts": _facts(row, served),
            "set_aside": set_aside,
            "released": own[0].reports,
            "newest": own[0].version,
            "lines": lines[:_SHOWN_RELEASES],
            "more": max(len(lines) - _SHOWN_RELEASES, 0),
            "arms": isinstance(served.policies(TARGET_NAME)[-1], ArmPolicy),
            "columns": columns,
            "column": column or columns[0],
            "verdict": _WAITING,
            "reward": None,
            "gain": None,
            "given": None,
            "unreleased": None,
            "unrewarded": None,
        }
        if seen is None:
            return shown
        last = seen.findings[-1]
        bounds = served.learner.reward_bounds
        shown["verdict"] = verdict(last)
        shown["point"] = last.point
        shown["bounds"] = f"{number_text(bounds.lower)} to {number_text(bounds.upper)}"
        shown["reward"] = self._kept(name, "reward", last.version, lambda: reward_chart(seen))
        shown["rewards"] = [each for each in seen.findings if each.reward is not None][-6:]
        shown["last"] = last
        shown["gain"] = self._kept(name, "gain", last.version, lambda: gain_chart(seen))
        if isinstance(seen.policy, ArmPolicy):
            tables = self._kept(name, "given", last.version, lambda: given(seen))
            shown["column"] = column or max(tables, key=lambda each: tables[each].spread)
            shown["given"] = tables[shown["column"]]
        joint = row.trust_model == "joint"
        # Under joint privacy rows that cannot be read are among the people of a release.
        aside = 0 if joint else set_aside
        shown["unreleased"] = max(seen.arrived - own[0].reports - aside, 0)
        shown["unrewarded"] = seen.waiting if joint else None
        return shown

    def releases(self, name: str) -> list[ReleaseRow]:
        """The releases of a study with their rows of the ledger, the last one first."""
        with self._service.database.reading() as connection:
            latest = connection.scalar(
                select(func.count()).select_from(ledger).where(ledger.c.study == name)
            )
        lines: list[ReleaseRow] = self._kept(name, "lines", latest, lambda: self._releases(name))
        return lines

    def certificate(self, name: str) -> dict[str, Any]:
        """What the certificate says."""
        row, content = self._service.store.row(name), certificate_of(self._service, name)
        served = self._service.store.study(name)
        lines = sorted(self.releases(name), key=lambda line: line.version)
        last = _of_target(lines)[0]
        return {
            "study": row,
            "guarantee": decode(json.dumps(content["guarantee"]), Guarantee),
            "trust": _TRUST.get(row.trust_model, row.trust_model),
            "content": content,
            "last": last,
            "sources": [
                each
                for each in {line.stream: line for line in lines}.values()
                if each.stream != TARGET_NAME
            ],
            "terms": served.terms.digest,
            "origin": provenance_of_service(name, served.deployment.text, served.learner.name),
        }

    def _releases(self, name: str) -> list[ReleaseRow]:
        both = (policies.c.study == ledger.c.study) & (policies.c.stream == ledger.c.stream)
        wanted = (
            select(ledger, policies.c.published)
            .join(policies, both & (policies.c.version == ledger.c.version))
            .where(ledger.c.study == name)
            .order_by(ledger.c.drawn.desc(), ledger.c.stream.desc(), ledger.c.version.desc())
        )
        with self._service.database.reading() as connection:
            return [
                ReleaseRow(
                    row.version,
                    row.stream,
                    row.published,
                    row.reports,
                    row.asked / MILLION,
                    row.held / MILLION,
                    row.delta,
                    row.digest,
                )
                for row in connection.execute(wanted)
            ]

    def _kept(self, name: str, what: str, known_by: Any, draw: Any) -> Any:
        """What was drawn for that state, drawn once."""
        kept = self._drawn.get((name, what))
        if kept is None or kept[0] != known_by:
            kept = self._drawn[name, what] = known_by, draw()
        return kept[1]


def _of_target(lines: Sequence[ReleaseRow]) -> list[ReleaseRow]:
    """The releases of the target, by descending version."""
    own = [line for line in lines if line.stream == TARGET_NAME]
    return sorted(own, key=lambda line: -line.version)


def verdict(last: ReleaseSummary) -> str:
    """How a study stands, in a sentence."""
    reward, gain = last.reward, last.gain
    if last.people == 0:
        return "No report has entered a release yet, so nothing is known."
    if last.point and reward is not None:
        place = listed([f"{name} = {value}" for name, value in last.point])
        return f"The best point so far is {place}; it earns {interval(reward)} per person."
    if reward is None:
        return (
            "The policy's value is unknown: this learner has no posterior with a known error, or "
            "only people themselves know their points."
        )
    if gain is None:
        return f"What the learner recommends earns {interval(reward)} per person."
    rival = f"“{last.choice}” for everyone"
    if gain.lower == gain.upper == 0.0:
        return f"So far the learner recommends {rival}; choosing for each person gains nothing yet."
    if gain.lower > 0.0:
        return f"Choosing for each person earns {interval(gain)} more per person than {rival}."
    return f"No significant gain over {rival} yet: {interval(gain, signed=True)} per person."


def interval(value: Value, signed: bool = False) -> str:
    """0.49 (95%: 0.38 to 0.60), with no more digits than the interval has."""
    digits = decimals(value.half_width, 2)
    sign = "+" if signed else ""
    mean = f"{value.mean:{sign},.{digits}f}"
    low, high = (f"{x:,.{digits}f}" for x in (value.lower, value.upper))
    text = f"{mean} ({100.0 * value.confidence:g}%: {low} to {high})"
    return text.replace("-", MINUS)


def reward_chart(seen: Seen) -> Markup | None:
    """What the recommendation earns after each release, with its band, and the policy as played."""
    shown = _thinned([each for each in seen.findings if each.reward is not None])
    if not shown:
        return None
    marks = [
        Mark(
            each.people,
            each.reward.mean,
            each.reward.lower,
            each.reward.upper,
            each.played.mean if each.played is not None else float("nan"),
        )
        for each in shown
        if each.reward is not None
    ]
    last = shown[-1].reward
    assert last is not None
    words = f"After {counted(shown[-1].people, 'report')} it is {interval(last)}."
    return line_chart(marks, "Reward per person, as released", words, "reports in releases")


def gain_chart(seen: Seen) -> Markup | None:
    """By how much it earns more than the best one choice for everyone, after each release."""
    shown = _thinned([each for each in seen.findings if each.gain is not None])
    if not seen.findings[-1].people:
        return None
    if not shown:
        return None
    marks = [
        Mark(each.people, each.gain.mean, each.gain.lower, each.gain.upper)
        for each in shown
        if each.gain is not None
    ]
    last = shown[-1].gain
    assert last is not None
    words = f"After {counted(shown[-1].people, 'report')} it is {interval(last, True)}."
    return line_chart(marks, "Gain over one choice for everyone", words, "reports in releases")


def given(seen: Seen) -> dict[str, Given]:
    """Who is given what, along each column; the arms that few are given together."""
    names, last = arm_names(seen.policy), seen.findings[-1]
    order = sorted(range(len(names)), key=lambda arm: -last.shares[arm])
    own = sorted(order[:_MOST_ARMS]) if len(names) > _MOST_ARMS + 1 else list(range(len(names)))
    rest = [arm for arm in range(len(names)) if arm not in own]
    heads = [names[arm] for arm in own] + ([f"{len(rest)} others"] if rest else [])
    tables = {}
    for name, parts in seen.parts.items():
        rows = []
        for part in (LevelShares("everyone", last.shares), *parts):
            shares = [part.shares[arm] for arm in own]
            shares += [sum(part.shares[arm] for arm in rest)] if rest else []
            rows.append((part.label, tuple(map(_percent, shares)), share_bar(shares)))
        spread = float(np.ptp([part.shares for part in parts], axis=0).max())
        tables[name] = Given(tuple(heads), spread, tuple(rows))
    return tables


def _facts(row: Row[Any], served: Any) -> list[tuple[str, str]]:
    """What was declared before anybody came."""
    learner = served.learner
    facts = [
        ("trust model", _TRUST.get(row.trust_model, row.trust_model)),
        ("learner", learner.name),
        ("promise", f"epsilon = {upward(learner.budget.epsilon)}"),
    ]
    if learner.budget.delta:
        facts[-1] = ("promise", f"{facts[-1][1]}, delta = {upward(learner.budget.delta)}")
    if learner.horizon is not None:
        facts.append(("expected", counted(learner.horizon, "report")))
    if served.deployment.default_arm is not None:
        facts.append(("while it cannot be reached", served.deployment.default_arm))
    if served.former and learner.secret:
        facts.append(("restored", "the ledger adds what its former servers promised"))
    return facts


def _percent(share: float) -> str:
    return "0%" if share < 5e-4 else "<1%" if share < 0.01 else f"{100.0 * share:.0f}%"


def _thinned(findings: list[ReleaseSummary]) -> list[ReleaseSummary]:
    """At most this number of them, the last one included."""
    step = -(-len(findings) // _MOST_MARKS) or 1
    return findings[::-1][::step][::-1]


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def render(template: str, **values: Any) -> str:
    """A page."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("discreet.service.server.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for written in (upward, interval, share_text):
        environment.filters[written.__name__] = written
    environment.filters["clock"] = _clock
    environment.globals["counted"] = counted
    return environment


@dataclass(frozen=True)
class Seen:
    """What is known of a study.

    Attributes:
        policy: that was published last.
        parts: who it gives what, by column; of arms.
        findings: of all versions.
        arrived: how many reports, or rewarded decisions, there were.
        waiting: how many decisions still wait for their reward.
        counted: when they were counted, and how long that took.
    """

    policy: Any
    parts: dict[str, list[LevelShares]]
    findings: tuple[ReleaseSummary, ...]
    arrived: int
    waiting: int
    counted: tuple[float, float]


class Watch:
    """Looks at the releases of the studies of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._seen: dict[str, Seen] = {}
        self._looked = -math.inf
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="dashboard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def seen(self, name: str) -> Seen | None:
        """What is known of a study by now; None where nothing is yet."""
        now = time.monotonic()
        known, before, self._looked = self._seen.get(name), self._looked, now
        if known is None or now - before > _LOOKED_SECONDS:
            self._wake.set()
        return known

    def step(self, counting: bool = True) -> None:
        """Look once at every study, and count its people, which reads a row of each."""
        for name in self.store.names():
            if self._stop.is_set():
                return
            self._look(name, counting)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self.step(began - self._looked < _LOOKED_SECONDS)
            except Exception as error:
                # Pages show less then; what was wrong may quote people.
                _LOG.warning("the dashboard could not look: %s", type(error).__name__)
            worked = time.monotonic() - began
            looked = began - self._looked < _LOOKED_SECONDS
            self._wake.wait(max(_SECONDS, worked * (1.0 if looked else _REST)))
            self._wake.clear()

    def _look(self, name: str, counting: bool) -> None:
        known = self._learnt(name, self._seen.get(name))
        at, took = known.counted
        if counting and time.monotonic() - at > max(_SECONDS, _COUNTING * took):
            known = self._counted(name, known)
        self._seen[name] = known

    def _learnt(self, name: str, known: Seen | None) -> Seen:
        before = () if known is None else known.findings
        with self.store.database.reading() as connection:
            rows = connection.execute(
                select(policies.c.version, policies.c.people, policies.c.finding)
                .where(policies.c.study == name, policies.c.stream == TARGET_NAME)
                .where(policies.c.version >= len(before))
                .order_by(policies.c.version)
            ).all()
        if known is not None and not rows:
            return known
        last = rows[-1]
        policy = self.store.study(name, fresh=True).policies(TARGET_NAME)[last.version]
        findings = [
            ReleaseSummary(row.version, row.people) if row.finding is None else read(row.finding)
            for row in rows
        ]
        if last.finding is None:
            findings[-1] = finding_of_policy(policy, last.people)
        parts = {}
        if isinstance(policy, ArmPolicy):
            names = enumerate(policy.domain.names)
            parts = {column: parts_of(policy, place) for place, column in names}
        seen = known or Seen(policy, parts, (), 0, 0, (0.0, 0.0))
        return replace(seen, policy=policy, parts=parts, findings=(*before, *findings))

    def _counted(self, name: str, known: Seen) -> Seen:
        """How many people reported. Counts are of people, which neighbours do not differ in
        (replace-one), and say nothing of what they brought."""
        began = time.monotonic()
        counts: Counter[str] = Counter()
        with self.store.database.reading() as connection:
            for (stream, _, state), number in deleted_rows(connection, name).items():
                if stream == TARGET_NAME:
                    counts[state] += number
            if self.store.study(name).secret:
                wanted = (
                    select(decisions.c.state, func.count())
                    .where(decisions.c.study == name)
                    .group_by(decisions.c.state)
                )
            else:
                wanted = select(literal("reported"), func.count()).where(
                    public_coins.c.study == name, public_coins.c.stream == TARGET_NAME
                )
            for state, number in connection.execute(wanted):
                counts[state] += number
        # Those that cannot be read are among the people of a release.
        arrived = sum(counts[state] for state in ("rewarded", "unreadable", "reported"))
        now = time.monotonic()
        timed = now, now - began
        return replace(known, arrived=arrived, waiting=counts["waiting"], counted=timed)
