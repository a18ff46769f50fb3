"""The pages of the dashboard: operators see and act, auditors see.

Forms carry a token of their session, sessions are cookies that no other site can send, and pages
load nothing from elsewhere.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path as File
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles

from discreet.service.server.answers import answer_to
from discreet.service.server.control import exported
from discreet.service.server.dashboard.sessions import (
    COOKIE,
    SESSION_SECONDS,
    Session,
    Sessions,
    same,
)
from discreet.service.server.dashboard.views import Views, render
from discreet.service.server.dashboard.watch import Watch
from discreet.service.server.database import Unavailable
from discreet.service.server.errors import Forbidden, NotFound, TooLarge, Unauthorized
from discreet.service.server.keys import ApiKey
from discreet.service.server.middleware import Buckets, Limits
from discreet.service.server.service import Service
from discreet.validation import InvalidInput, one_of

_FORM_BYTES = 4096
_LOGIN_COOKIE = "discreet_login"
_ROLES = ("operator", "auditor")
_STATES = ("paused", "running", "finished")
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_STATIC = "/static"

Study = Annotated[str, Path(min_length=1, max_length=100)]
Column = Annotated[str, Query(max_length=100)]


class Visitor:
    """A signed-in operator or auditor."""

    def __init__(self, session: Session, key: ApiKey) -> None:
        self.session, self.key = session, key

    @property
    def operates(self) -> bool:
        """Whether they may act."""
        return self.key.role == "operator"

    def check_study(self, study: str) -> None:
        """`NotFound` where their key is for another study."""
        if not self.key.covers(study):
            raise NotFound(f"there is no study {study!r:.80} here for your key.")


class Page(APIRoute):
    """A route that answers with a page, whatever happens."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                response = await inner(request)
            except Unauthorized:
                response = RedirectResponse("/login", 303)
                if request.url.path.endswith("/live"):
                    response = HTMLResponse("", 401)
            except RequestValidationError:
                response = _refused(400, "The address of the page is wrong.")
            except (InvalidInput, Unavailable) as error:
                response = _refused(answer_to(error).status_code, str(error))
            response.headers.update(_HEADERS)
            return response

        return handler


def add_dashboard(app: FastAPI, service: Service) -> None:
    """Let an application have the dashboard of its service; its sessions are `app.state.sessions`,
    and what it watches `app.state.watch`."""
    app.state.sessions, app.state.watch = Sessions(service.keys), Watch(service.store)
    app.include_router(dashboard_routes(service, app.state.sessions, app.state.watch))
    app.mount(_STATIC, StaticFiles(directory=File(__file__).parent / "static"), "static")


def dashboard_routes(service: Service, sessions: Sessions, watch: Watch) -> APIRouter:
    """The routes of the pages."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        watch.start()
        try:
            yield
        finally:
            watch.stop()

    routes = APIRouter(
        route_class=Page,
        include_in_schema=False,
        default_response_class=HTMLResponse,
        lifespan=lifespan,
    )
    views, guesses = Views(service, watch), Buckets(Limits().failures)

    def opened(request: Request, token: str) -> Response:
        """Begin a session of a key, and go to its studies, or to the only one."""
        key = service.keys.check(token)
        if key.role not in _ROLES:
            raise Forbidden(
                f"the key is one for the role {key.role}; the dashboard is for operators and "
                "auditors."
            )
        own = [each["name"] for each in views.studies(key.study)]
        response = RedirectResponse(_page_of(own[0]) if len(own) == 1 else "/", 303)
        response.set_cookie(
            COOKIE,
            sessions.open(token),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        response.delete_cookie(_LOGIN_COOKIE)
        return response

    def sign_in(request: Request, message: str = "", code: int = 200) -> Response:
        """The form for a key."""
        number = secrets.token_urlsafe(32)
        response = HTMLResponse(render("login.html.j2", csrf=number, message=message), code)
        response.set_cookie(
            _LOGIN_COOKIE,
            number,
            max_age=3600,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    @routes.get("/login")
    def login(request: Request, code: Annotated[str, Query(max_length=900)] = "") -> Response:
        token = sessions.follow(code) if code else None
        if token is not None:
            return opened(request, token)
        if code:
            return sign_in(request, "This link is too old; sign in with a key.", 401)
        return sign_in(request)

    @routes.post("/login")
    def log_in(request: Request, form: Form) -> Response:
        wanted = request.cookies.get(_LOGIN_COOKIE, "")
        if not wanted or not same(wanted, form.get("csrf", "")):
            return sign_in(request, "The form was too old, or not from here; try again.", 403)
        address = request.client.host if request.client else ""
        if guesses.wait(address):
            return sign_in(request, "Too many keys that open nothing; wait a minute.", 429)
        try:
            return opened(request, form.get("key", "").strip())
        except Unauthorized:
            guesses.take(address)
            return sign_in(request, "This key opens nothing: it was revoked, or never made.", 401)
        except Forbidden as error:
            return sign_in(request, str(error), 403)

    @routes.post("/logout")
    def log_out(request: Request, form: Form, who: Signed) -> Response:
        _check_form(who, form)
        service.keys.sign_out(who.key.id)
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE)
        return response

    @routes.get("/")
    def studies(who: Signed) -> str:
        return render("studies.html.j2", who=who, studies=views.studies(who.key.study))

    @routes.get("/studies/{study}")
    def study_page(study: Study, who: Signed, column: Column = "") -> str:
        who.check_study(study)
        return render("study.html.j2", who=who, **views.study(study, column))

    @routes.get("/studies/{study}/live")
    def live(study: Study, who: Signed, column: Column = "") -> str:
        who.check_study(study)
        return render("live.html.j2", who=who, **views.study(study, column))

    @routes.get("/studies/{study}/ledger")
    def ledger(study: Study, who: Signed) -> str:
        who.check_study(study)
        row = service.store.row(study)
        return render("ledger.html.j2", who=who, study=row, lines=views.releases(study))

    @routes.get("/studies/{study}/certificate")
    def certificate(study: Study, who: Signed) -> str:
        who.check_study(study)
        return render("certificate.html.j2", who=who, **views.certificate(study))

    @routes.get("/studies/{study}/export")
    def export(study: Study, who: Signed) -> Response:
        who.check_study(study)
        _check_operator(who)
        name = quote(f"{study}.json", safe="")
        return Response(
            json.dumps(exported(service, study), indent=1),
            media_type="application/json",
            headers={"Content-Disposition": f"attachment; filename*=UTF-8''{name}"},
        )

    @routes.get("/studies/{study}/state")
    def confirm(study: Study, who: Signed, to: Annotated[str, Query(max_length=20)]) -> str:
        who.check_study(study)
        _check_operator(who)
        one_of(to, "to", _STATES)
        return render("confirm.html.j2", who=who, study=service.store.row(study), to=to)

    @routes.post("/studies/{study}/state")
    def change(study: Study, who: Signed, form: Form) -> Response:
        who.check_study(study)
        _check_operator(who)
        _check_form(who, form)
        state: Any = one_of(form.get("state", ""), "state", _STATES)
        service.store.set_state(study, state, who.key.id)
        return RedirectResponse(_page_of(study), 303)

    return routes


def _page_of(study: str) -> str:
    """Where the page of a study is."""
    return f"/studies/{quote(study, safe='')}"


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _FORM_BYTES:
            raise TooLarge(f"the form had more than {_FORM_BYTES} bytes; send it from its page.")
    try:
        return dict(parse_qsl(body.decode("ascii"), max_num_fields=10))
    except ValueError:
        raise InvalidInput("the form could not be read; send it from its page.") from None


def _visitor(request: Request) -> Visitor:
    """Who asks, by a key that still opens something."""
    found = request.app.state.sessions.find(request.cookies.get(COOKIE, ""))
    if found is None:
        raise Unauthorized("sign in first.")
    return Visitor(*found)


Form = Annotated[dict[str, str], Depends(_form)]
Signed = Annotated[Visitor, Depends(_visitor)]


def _check_form(who: Visitor, form: dict[str, str]) -> None:
    if not who.session.check(form.get("csrf", "")):
        raise Forbidden("the form was not one of this session; go back, reload, and try again.")


def _check_operator(who: Visitor) -> None:
    if not who.operates:
        raise Forbidden("your key is one for an auditor, who reads; this is for operators.")


def _refused(code: int, message: str) -> Response:
    return HTMLResponse(render("refused.html.j2", message=message), code)
