"""The application: routes behind a guard, answers in JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from discreet.service.answers import add_answers
from discreet.service.control import control_routes
from discreet.service.guard import Guard
from discreet.service.routes import study_routes
from discreet.service.service import Service


def create_app(service: Service) -> FastAPI:
    """The application of a service; it starts and stops with it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            service.stop()

    app = FastAPI(
        title="discreet",
        version=version("discreet"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
    )
    app.state.service = service

    @app.get("/health")
    def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @app.get("/ready")
    def ready() -> JSONResponse:
        """Whether it can serve."""
        missing = service.missing()
        return JSONResponse({"status": missing or "ok"}, 503 if missing else 200)

    app.include_router(study_routes(service))
    app.include_router(control_routes(service))
    add_answers(app)
    app.add_middleware(Guard, keys=service.keys)
    return app
