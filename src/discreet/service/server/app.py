"""The application: routes behind the middleware, answers in JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from importlib.metadata import version

from anyio import to_thread
from fastapi import FastAPI, Response

from discreet.service.server.access import REFUSALS
from discreet.service.server.answers import add_answers
from discreet.service.server.bodies import Health
from discreet.service.server.control import control_routes
from discreet.service.server.dashboard.routes import add_dashboard
from discreet.service.server.metrics import Metrics
from discreet.service.server.middleware import LOOPBACK, Limits, Middleware
from discreet.service.server.openapi import describe
from discreet.service.server.routes import study_routes
from discreet.service.server.service import Service
from discreet.service.server.tables import table_routes


def create_app(
    service: Service, hosts: Collection[str] = (), limits: Limits | None = None
) -> FastAPI:
    """The application of a service; it starts and stops with it.

    Args:
        service: what it serves.
        hosts: names of this server beside those of the loopback, as they are in requests.
        limits: what it takes.
    """
    metrics, limits = Metrics(service), limits or Limits()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await to_thread.run_sync(service.stop)

    app = FastAPI(
        title="discreet",
        version=version("discreet"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
        # Generated clients name their functions after the routes.
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service

    @app.get("/health", responses=REFUSALS)
    def health() -> Health:
        """Whether the process answers."""
        return Health(status="ok")

    @app.get("/ready", responses={**REFUSALS, "503": {"model": Health}})
    def ready(response: Response) -> Health:
        """Whether it can serve."""
        missing = service.missing()
        response.status_code = 503 if missing else 200
        return Health(status=missing or "ok")

    app.include_router(study_routes(service, metrics, limits))
    app.include_router(control_routes(service, metrics))
    app.include_router(table_routes(service))
    describe(app)
    add_dashboard(app, service)
    add_answers(app)
    app.add_middleware(
        Middleware,
        keys=service.keys,
        hosts=(*LOOPBACK, *hosts),
        limits=limits,
        metrics=metrics,
    )
    return app
