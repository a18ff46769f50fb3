"""What a server counts, for Prometheus; nothing that depends on what a person did or had.

| name                              | labels              | meaning                             |
|-----------------------------------|---------------------|-------------------------------------|
| discreet_requests_total           | method, route, code | requests of this process            |
| discreet_request_seconds          | route               | how long they took                  |
| discreet_reports_stored_total     | study, stream       | reports that this process stored    |
| discreet_reports_repeated_total   | study, stream       | reports that had come before        |
| discreet_releases                 | study, stream       | the version of the current policy   |
| discreet_waiting                  | study, stream       | reports, rewards that wait to enter |
| discreet_decisions_without_reward | study               | decisions whose reward has not come |
| discreet_set_aside                | study               | stored rows that cannot be read     |
| discreet_clock_ahead_seconds      |                     | by how much the clock has jumped    |
| discreet_ready                    |                     | 1 where it can serve, else 0        |

Those without `_total` and `_seconds` are read from the database on request. `discreet_set_aside`
is for operators' keys alone: whether a row can be read may depend on a person's data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from discreet.service.server.database import Unavailable
from discreet.service.server.ingest import Receipt
from discreet.service.server.schema import decisions, policies
from discreet.service.server.service import Service

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_STREAM = ("study", "stream")


class Metrics:
    """The counts of one process."""

    def __init__(self, service: Service) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "discreet_requests", "Requests.", ("method", "route", "code"), registry=registry
        )
        self._seconds = Histogram(
            "discreet_request_seconds",
            "How long they took.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._stored = Counter(
            "discreet_reports_stored", "Reports stored.", _STREAM, registry=registry
        )
        self._repeated = Counter(
            "discreet_reports_repeated", "Reports that had come before.", _STREAM, registry=registry
        )
        self._registry.register(_Standing(service))
        self._private = CollectorRegistry()
        self._private.register(_SetAside(service))

    def request(self, method: str, route: str, code: int, seconds: float) -> None:
        """One more request; `method` is one of `METHODS`, or "other"."""
        self._requests.labels(method, route, str(code)).inc()
        self._seconds.labels(route).observe(seconds)

    def reports(self, study: str, stream: str, receipt: Receipt) -> None:
        """Reports that arrived together."""
        new = 0 if receipt.again else receipt.stored
        self._stored.labels(study, stream).inc(new)
        self._repeated.labels(study, stream).inc(receipt.stored + receipt.repeated - new)

    def text(self, operates: bool) -> bytes:
        """What Prometheus reads, with an operator's key or with an auditor's."""
        private = generate_latest(self._private) if operates else b""
        return generate_latest(self._registry) + private


class _Standing(Collector):
    """The state of studies, read from the database."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[GaugeMetricFamily]:
        service = self._service
        releases = _gauge("discreet_releases", "Version of the policy.", _STREAM)
        waiting = _gauge("discreet_waiting", "Reports that no release has.", _STREAM)
        pending = _gauge(
            "discreet_decisions_without_reward", "Decisions whose reward has not come.", ("study",)
        )
        clock = _gauge(
            "discreet_clock_ahead_seconds",
            "Seconds by which the machine's clock has jumped; expiry ignores them.",
        )
        ready = _gauge("discreet_ready", "Whether it can serve.")
        service.database.clock.now()
        clock.add_metric((), service.database.clock.ahead)
        ready.add_metric((), 0.0 if service.missing() else 1.0)
        with suppress(Unavailable):  # discreet_ready shows it
            with service.database.reading() as connection:
                for row in connection.execute(
                    select(
                        policies.c.study, policies.c.stream, func.max(policies.c.version)
                    ).group_by(policies.c.study, policies.c.stream)
                ):
                    releases.add_metric((row[0], row[1]), row[2])
                for row in connection.execute(
                    select(decisions.c.study, func.count())
                    .where(
                        decisions.c.state == "waiting",
                        decisions.c.payload.is_not(None),
                        decisions.c.released.is_(None),
                    )
                    .group_by(decisions.c.study)
                ):
                    pending.add_metric((row[0],), row[1])
            for name in service.store.names():
                for stream in service.store.study(name).streams:
                    waiting.add_metric((name, stream), service.aggregator.waiting(name, stream))
        yield from (releases, waiting, pending, clock, ready)


class _SetAside(Collector):
    """The number of quarantined rows."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[GaugeMetricFamily]:
        store = self._service.store
        family = _gauge("discreet_set_aside", "Stored rows that cannot be read.", ("study",))
        with suppress(Unavailable):
            for name in store.names():
                family.add_metric((name,), store.set_aside(name))
        yield family


def _gauge(name: str, meaning: str, labels: tuple[str, ...] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, labels=labels)
