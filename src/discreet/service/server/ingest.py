"""Private reports: checked, deduplicated by public coin, and kept until a release.

A repeated request gets its first answer. Messages that say the same but for the rows of their
people are put together as lists, and become arrays and are checked once: many messages of one
person each cost little more than one of many. Where that is refused, or may not give what each
message gives by itself, each is read by itself, and the refusal is that of the first that is wrong.

**Groups of a shuffler** (docs/shuffling.md) arrive whole, each under an id of its own: one that is
sent again changes nothing, and nothing of it is decrypted. What is kept is in the order of the
public coins that devices drew, so the order of the group is not.

*A ciphertext counts once.* 63 bits of its SHA-256 are kept as a public coin of its policy is, until
the version takes no reports. A changed HPKE ciphertext does not open, so a ciphertext is known in
another group, or twice in one. A report without data replaces it. A hostile shuffler gains a group
with fewer honest people, which it has by forging the others, too.

*A hostile device* may send a ciphertext that does not open, or that holds no report of its policy.
Were the group refused, one device could stop the study; were it passed over, the group would be
short. So its place is taken by a fresh report of the policy for a person without data, drawn here.

- *Privacy.* What is kept is a function of the group as it came and of independent noise, so the
  promise to the others stays (post-processing). The learner knows that this report hides no one:
  its device is one of those who do not follow the protocol, whom `honest` counts, as it counts
  devices that send reports of their choice.
- *Counting.* The group has n reports, each drawn by the policy, so estimates weigh them as they
  should; the one drawn here moves them as a report of one made-up person does, which a hostile
  device could have sent.
- The receipt is the same, so the shuffler does not learn which ciphertexts were opened.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, select, text

from discreet.codec import SCHEMA, class_of, decode, encode, fields_from_json
from discreet.learners.messages import Reports
from discreet.learners.policy import TARGET_NAME, Policy
from discreet.privacy import SecureNoise
from discreet.service.hpke import DAMAGE, decrypted_report, report_without_data
from discreet.service.server.database import Unavailable
from discreet.service.server.deployment import packed
from discreet.service.server.errors import Gone
from discreet.service.server.forgetting import VERSION_DAYS, closed_before
from discreet.service.server.schema import IN_NONE, batches, former, public_coins, studies
from discreet.service.server.store import ServedStudy, Store, check_state
from discreet.validation import InvalidInput, whole_vector

MOST_REPORTS = 10_000
_MOST_PUBLIC_COIN = 2**63 - 1
_LOG = logging.getLogger(__name__)
# Made once: to make them takes longer than SQLite needs.
_STANDING = (
    select(studies.c.state, studies.c.closed, batches.c.stored, batches.c.repeated)
    .outerjoin_from(
        studies,
        batches,
        (batches.c.study == studies.c.name)
        & (batches.c.stream == bindparam("stream"))
        & (batches.c.digest == bindparam("digest")),
    )
    .where(studies.c.name == bindparam("study"))
    # Held until the end, so that a study does not finish in between.
    .with_for_update(read=True, key_share=True, of=studies)
)
_INSERTING = (
    "INSERT INTO public_coins (study, stream, version, public_coin) "
    "SELECT :study, :stream, :version, value FROM {} WHERE true "
    "ON CONFLICT DO NOTHING RETURNING public_coin"
)
_INSERTING_SQLITE = text(_INSERTING.format("json_each(:numbers)"))
_INSERTING_POSTGRESQL = text(_INSERTING.format("unnest(cast(:numbers as bigint[])) as value"))
# What the leaves of a list may be. One kind at a time: NumPy reads [1, true] and [1, 0.5] as what
# neither [1] nor [true] is by itself.
_LEAVES = ({int}, {float}, {bool})


@dataclass(frozen=True)
class Receipt:
    """The receipt of reports that arrived together.

    Attributes:
        stored: how many were new; they are in the database.
        repeated: how many had been stored before.
        again: whether the request is repeated, and this is its first answer.
    """

    stored: int
    repeated: int
    again: bool = field(default=False, compare=False)


class Ingest:
    """Takes reports for the studies of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._keeping = (
            store.database.inserting(batches).on_conflict_do_nothing().returning(batches.c.id)
        )

    def add(
        self,
        name: str,
        texts: Sequence[str],
        ids: Sequence[int] | None,
        stream: str = TARGET_NAME,
        key: str | None = None,
    ) -> Receipt:
        """Keep reports until a release has them.

        Args:
            name: of the study.
            texts: messages, each reports of one or several people, as `encode` made them.
            ids: a random number for each report in turn, the same whenever it is sent; None where
                the target's reports carry public coins.
            stream: the target, or the name of a source.
            key: the id of the key that sent them, by which they can be discarded.

        Raises:
            InvalidInput: for reports that no policy of this study makes. Then none is kept.
            Conflict, Gone: where the study takes none now.
        """
        served = self.store.study(name)
        served.check_stream(stream)
        if served.secret and stream == TARGET_NAME:
            raise InvalidInput(
                f"the study {name!r} has joint privacy, and takes no reports: ask for a decision, "
                "and send the reward by its id."
            )
        if served.private_key is not None:
            raise InvalidInput(
                f"the study {name!r} takes groups of its shuffler alone; send the report to the "
                "address of the shuffler."
            )
        if not texts:
            raise InvalidInput("reports was empty; send at least one.")
        read = read_reports(texts)
        total = sum(len(each.reports) for each in read)
        if total > MOST_REPORTS:
            raise InvalidInput(
                f"there were {total} reports in one request; send at most {MOST_REPORTS}."
            )
        published = len(served.policies(stream))
        if any(each.reports.policy_version >= published for each in read):
            served = self.store.study(name, fresh=True)
        for each in read:
            if each.reports.noise != SecureNoise.name:
                raise InvalidInput(
                    f"the noise source of reports was {each.reports.noise!r}; a service takes "
                    f"{SecureNoise.name!r} alone, because other noise does not protect people."
                )
        numbers = _public_coins(read, ids, stream == TARGET_NAME)
        # By what was sent, so that the same request is known again whatever has become of it.
        digest = hashlib.sha256(json.dumps([list(texts), numbers]).encode()).hexdigest()
        joined, numbers = _joined(read, numbers)
        for reports in joined:
            served.check_reports(stream, reports)
        return self._keep(name, stream, digest, joined, numbers, key)

    def add_group(
        self,
        name: str,
        group: str,
        policy: str,
        ciphertexts: Sequence[bytes],
        key: str | None = None,
    ) -> Receipt:
        """Keep a group of a shuffler until a release has it; what is known is not counted again.

        Args:
            name: of the study.
            group: the id of the group, the same whenever it is sent.
            policy: the digest of the policy under which its reports were made.
            ciphertexts: its reports, encrypted to the key in the terms.
            key: the id of the key that sent them, by which they can be discarded.

        Raises:
            InvalidInput: for anything but a whole group of a policy of this study.
            Conflict, Gone: where the study takes none now.
            Unavailable: where another group with some of these ciphertexts is kept meanwhile.
        """
        served = self.store.study(name)
        if served.private_key is None:
            raise InvalidInput(f"the study {name!r} has no shuffler, and takes no groups.")
        size = served.terms.group_size
        if len(ciphertexts) != size:
            raise InvalidInput(
                f"the group had {len(ciphertexts)} ciphertexts; send whole groups of {size}."
            )
        made = self._policy(name, policy)
        digest = hashlib.sha256(group.encode()).hexdigest()
        place = {"study": name, "stream": TARGET_NAME}
        known = select(public_coins.c.public_coin).filter_by(**place, version=made.version)
        sent = {
            int.from_bytes(hashlib.sha256(each).digest()[:8]) >> 1: each for each in ciphertexts
        }
        with self.store.database.reading() as connection:
            first = connection.execute(_STANDING, {**place, "digest": digest}).one()
            if first.stored is not None:
                return Receipt(first.stored, first.repeated, again=True)
            for coin in connection.scalars(known.where(public_coins.c.public_coin.in_([*sent]))):
                del sent[coin]
        if not sent:
            return Receipt(0, size, again=True)
        # What is known is replaced, as what does not open is.
        reports = _opened(served, made, [*sent.values(), *[b""] * (size - len(sent))])
        numbers = _own_public_coins(reports) or [secrets.randbits(63) for _ in range(size)]
        order = np.argsort(np.array(numbers), kind="stable")
        reports, numbers = reports.of(order), [numbers[row] for row in order]
        return self._keep(name, TARGET_NAME, digest, [reports], [numbers], key, [*sent])

    def _policy(self, name: str, digest: str) -> Policy[Any]:
        """The policy of the target with this digest."""
        for fresh in (False, True):
            policies = self.store.study(name, fresh).policies(TARGET_NAME)
            for policy in reversed(policies):
                if policy.digest == digest:
                    return policy  # type: ignore[no-any-return]
        with self.store.database.reading() as connection:
            wanted = select(former.c.digest).where(
                former.c.study == name, former.c.digest == digest
            )
            if connection.execute(wanted).first() is not None:
                raise Gone("the reports are for a learner from before this server was restored.")
        raise InvalidInput(f"the study {name!r} has no policy with the digest {digest!r:.80}.")

    def _keep(
        self,
        name: str,
        stream: str,
        digest: str,
        made: Sequence[Reports],
        numbers: Sequence[list[int]],
        key: str | None,
        group: list[int] | None = None,
    ) -> Receipt:
        """Keep reports whose numbers are new; those of a group, if all its ciphertexts' are."""
        request = {"study": name, "stream": stream, "digest": digest}
        total = sum(map(len, numbers))
        # Packed before writers wait for this one: repeated reports are rare.
        body = packed(_body(made, numbers))
        with self.store.database.writing() as connection:
            known = connection.execute(_STANDING, request).one()
            if known.stored is not None:
                return Receipt(known.stored, known.repeated, again=True)
            check_state(name, known.state)
            _check_open(made, closed_before(known.closed, stream))
            known_by = numbers if group is None else [group]
            new = self._new_public_coins(connection, name, stream, made, known_by)
            stored = sum(map(len, new.values()))
            if group is not None:
                if stored < len(group):
                    raise Unavailable("another group had some of these reports meanwhile")
                stored = total
            elif stored < total:
                body = packed(_body(*_kept(made, numbers, new)))
            receipt = Receipt(stored, total - stored)
            added = connection.execute(
                self._keeping,
                request
                | {
                    "stored": receipt.stored,
                    "repeated": receipt.repeated,
                    "body": body if stored else None,
                    "received": self.store.clock.now(),
                    "released": None if stored else IN_NONE,
                    "key": key if stored else None,
                },
            )
            if added.first() is None:
                # The same request came at the same time, and was first.
                known = connection.execute(_STANDING, request).one()
                return Receipt(known.stored, known.repeated, again=True)
        return receipt

    def _new_public_coins(
        self,
        connection: Connection,
        name: str,
        stream: str,
        made: Sequence[Reports],
        numbers: Sequence[list[int]],
    ) -> dict[int, set[int]]:
        """Those public coins of each version that were not known yet, which they are now."""
        given: dict[int, set[int]] = {}
        for reports, coins in zip(made, numbers, strict=True):
            given.setdefault(reports.policy_version, set()).update(coins)
        sqlite = self.store.database.sqlite
        inserting = _INSERTING_SQLITE if sqlite else _INSERTING_POSTGRESQL
        new = {}
        # In one order for all writers, so that no two wait for each other.
        for version, some in sorted(given.items()):
            rows = json.dumps(sorted(some)) if sqlite else sorted(some)
            values = {"study": name, "stream": stream, "version": version, "numbers": rows}
            new[version] = set(connection.scalars(inserting, values).all())
        return new


def _opened(served: ServedStudy, policy: Policy[Any], ciphertexts: Sequence[bytes]) -> Reports:
    """The reports of a group, with fresh ones in place of those that cannot be read."""
    assert served.private_key is not None
    terms, noise = served.learner.terms(), SecureNoise()
    spare = report_without_data(policy, noise, terms)
    kind: Any = type(spare)
    found = [decrypted_report(each, policy, served.private_key) for each in ciphertexts]

    def readable(report: Any) -> bool:
        """Whether the policy can have made a report."""
        try:
            kind.joined([spare, report])  # of the same policy, with rows of the same shapes
            served.check_reports(TARGET_NAME, report)
            return type(report) is kind
        except DAMAGE:
            return False

    made = [each if readable(each) else report_without_data(policy, noise, terms) for each in found]
    replaced = sum(each is not was for each, was in zip(made, found, strict=True))
    if replaced:
        what = replaced, len(made), served.deployment.name
        _LOG.warning("replaced %d of %d reports to %s that could not be counted", *what)
    reports: Reports = kind.joined(made)
    served.check_reports(TARGET_NAME, reports)
    return reports


def _public_coins(
    read: Sequence[ReadReports], ids: Sequence[int] | None, random: bool
) -> list[list[int]]:
    """For each message the numbers by which its reports are known again: their public coins, where
    these are `random`, and else ids. The public coins of a source are questions, which people
    share."""
    given = None if ids is None else whole_vector(ids, "ids", 0, _MOST_PUBLIC_COIN).tolist()
    messages = sorted(
        (place, size, which, start)
        for which, each in enumerate(read)
        for place, size, start in zip(
            each.places, each.sizes, accumulate(each.sizes, initial=0), strict=False
        )
    )
    own = [_own_public_coins(each.reports) if random else None for each in read]
    numbers, used = [], 0
    for _, size, which, start in messages:
        public_coins = own[which]
        if public_coins is not None:
            numbers.append(public_coins[start : start + size])
            continue
        if given is None or len(given) < used + size:
            raise InvalidInput(
                f"reports of {read[which].reports.kind} carry no public coins of their own here; "
                f"send ids with them, a random whole number from 0 to {_MOST_PUBLIC_COIN} each, "
                "the same ones whenever they are sent."
            )
        numbers.append(given[used : used + size])
        used += size
    if given is not None and len(given) > used:
        raise InvalidInput(
            f"there were {len(given) - used} more ids than reports without public coins; send one "
            "for each."
        )
    for place, some in enumerate(numbers):
        if len(set(some)) < len(some):
            raise InvalidInput(
                f"message {place} of reports (the first is 0) had a public coin twice; send each "
                "report once."
            )
    return numbers


def _check_open(made: Sequence[Reports], before: int) -> None:
    """Refuse reports of versions that take none any more: their public coins are forgotten."""
    for reports in made:
        if reports.policy_version < before:
            raise Gone(
                f"the reports are for version {reports.policy_version} of a policy that was "
                f"replaced more than {VERSION_DAYS:.0f} days ago; fetch the policy again."
            )


def _own_public_coins(reports: Reports) -> list[int] | None:
    """The public coins of reports that have one each."""
    own = getattr(reports, "public_coins", None)
    return None if own is None or len(own) != len(reports) else own.tolist()


def _joined(
    read: Sequence[ReadReports], numbers: Sequence[list[int]]
) -> tuple[list[Reports], list[list[int]]]:
    """Messages that can be read together as one, because to read each by itself takes long."""
    groups: dict[Any, list[ReadReports]] = {}
    for each in read:
        reports = each.reports
        apart = (type(reports), reports.policy_version, reports.source, reports.noise)
        groups.setdefault(apart, []).append(each)
    joined, their = [], []
    for some in groups.values():
        made = [each.reports for each in some]
        try:
            joined.append(type(made[0]).joined(made) if len(made) > 1 else made[0])
        except ValueError as error:
            raise InvalidInput(
                "messages of reports under one policy had arrays of different shapes; send what "
                "policy.report() made."
            ) from error
        places = [place for each in some for place in each.places]
        their.append([number for place in places for number in numbers[place]])
    return joined, their


def _kept(
    made: Sequence[Reports], numbers: Sequence[list[int]], new: dict[int, set[int]]
) -> tuple[list[Reports], list[list[int]]]:
    """The first report under each public coin that is new to its version; `new` is used up."""
    kept, their = [], []
    for reports, coins in zip(made, numbers, strict=True):
        mine = new[reports.policy_version]
        rows = []
        for row, coin in enumerate(coins):
            if coin in mine:
                mine.remove(coin)  # another message may have it again
                rows.append(row)
        if rows:
            kept.append(reports.of(np.array(rows)))
            their.append([coins[row] for row in rows])
    return kept, their


def _body(made: Sequence[Reports], numbers: Sequence[list[int]]) -> str:
    """Reports and their numbers as they are kept."""
    return json.dumps({"reports": [encode(each) for each in made], "ids": list(numbers)})


@dataclass(frozen=True)
class ReadReports:
    """The content of several messages.

    Attributes:
        reports: of all of them, one after another.
        places: of the messages among those that were read, increasing.
        sizes: how many reports each of them had.
    """

    reports: Reports
    places: list[int]
    sizes: list[int]


@dataclass
class _Alike:
    """Messages with the same header, and their rows one after another."""

    header: dict[str, Any]
    names: list[str]
    rows: list[list[Any]]
    places: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


def read_reports(texts: Sequence[str]) -> list[ReadReports]:
    """The reports of messages, together where they can be.

    Args:
        texts: messages as `encode` made them.

    Raises:
        InvalidInput: as `decode`, for the first message that is wrong.
    """
    try:
        return [_together(each) for each in _alike(texts)]
    except (InvalidInput, ValueError, TypeError, RecursionError):
        made = [decode(text, Reports) for text in texts]
        return [ReadReports(each, [place], [len(each)]) for place, each in enumerate(made)]


def _alike(texts: Sequence[str]) -> list[_Alike]:
    """Messages by their headers, in the order in which these came first."""
    groups: dict[Any, _Alike] = {}
    for place, message in enumerate(texts):
        header, end = _READER.raw_decode(message)
        if end != len(message) or type(header) is not dict:
            raise ValueError("not one object")
        names = [name for name, value in header.items() if type(value) is list and value]
        rows = [header.pop(name) for name in names]
        (size,) = set(map(len, rows))
        # Values as text, because 1, 1.0 and true are equal numbers and different values.
        key = (*names, None, *header, repr([*header.values()]))
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Alike(header, names, [[] for _ in names])
        for their, row in zip(group.rows, rows, strict=True):
            their += row
        group.places.append(place)
        group.sizes.append(size)
    return list(groups.values())


def _together(alike: _Alike) -> ReadReports:
    header = dict(alike.header)
    schema = header.pop("schema", None)
    message: Any = class_of(header.pop("kind", None), Reports, "the message")
    if type(schema) is not int or schema != SCHEMA:
        raise ValueError("another schema")
    arrays = dict(zip(alike.names, map(_array, alike.rows), strict=True))
    reports = fields_from_json({**header, **arrays}, message)
    if len(reports) != sum(alike.sizes):
        raise ValueError("messages with other rows than those of people")
    return ReadReports(reports, alike.places, alike.sizes)


def _array(values: list[Any]) -> NDArray[Any]:
    """Nested lists as an array; `ValueError` unless their leaves are of one kind of numbers."""
    leaves = values
    while (kinds := set(map(type, leaves))) == {list}:
        leaves = list(chain.from_iterable(leaves))
    if kinds not in _LEAVES:
        raise ValueError("lists of several kinds")
    return np.asarray(values)


def _no_constant(name: str) -> None:
    raise ValueError(f"it held {name}")


_READER = json.JSONDecoder(parse_constant=_no_constant)
