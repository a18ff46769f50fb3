"""The pages of the dashboard: operators see and act, auditors see.

Forms carry a token of their session, and pages load nothing from elsewhere. Sessions are encrypted,
authenticated cookies that no other site can send and any server process can read: a cookie holds
the token of the key that signed in, encrypted (Fernet) under a key derived from the hash of that
token in the database. So all processes on a database know the same sessions, a cookie opens nothing
elsewhere and nothing after it has expired, and the database alone is not enough to make one. The
key is checked at every request: when it is revoked or expires, its sessions end.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, quote

from cryptography.fernet import Fernet, InvalidToken
from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles

from discreet.service.server.access import Named, answer_to
from discreet.service.server.dashboard.views import Views, Watch, render
from discreet.service.server.database import Unavailable
from discreet.service.server.errors import Forbidden, NotFound, TooLarge, Unauthorized
from discreet.service.server.keys import ApiKey, Keys
from discreet.service.server.middleware import Buckets, Limits
from discreet.service.server.routes import exported
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
_PAGES = ("discreet.lab.reporting", "static")  # the style of all pages

Column = Annotated[str, Query(max_length=100)]
COOKIE = "discreet_session"
SESSION_SECONDS = 8 * 3600
LINK_SECONDS = 600
_Use = Literal["session", "link"]


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
    static = StaticFiles(directory=File(__file__).parent / "static", packages=[_PAGES])
    app.mount(_STATIC, static, "static")


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
    def study_page(study: Named, who: Signed, column: Column = "") -> str:
        who.check_study(study)
        return render("study.html.j2", who=who, **views.study(study, column))

    @routes.get("/studies/{study}/live")
    def live(study: Named, who: Signed, column: Column = "") -> str:
        who.check_study(study)
        return render("live.html.j2", who=who, **views.study(study, column))

    @routes.get("/studies/{study}/ledger")
    def ledger(study: Named, who: Signed) -> str:
        who.check_study(study)
        row = service.store.row(study)
        return render("ledger.html.j2", who=who, study=row, lines=views.releases(study))

    @routes.get("/studies/{study}/certificate")
    def certificate(study: Named, who: Signed) -> str:
        who.check_study(study)
        return render("certificate.html.j2", who=who, **views.certificate(study))

    @routes.get("/studies/{study}/export")
    def export(study: Named, who: Signed) -> Response:
        who.check_study(study)
        _check_operator(who)
        name = quote(f"{study}.json", safe="")
        return Response(
            json.dumps(exported(service, study), indent=1),
            media_type="application/json",
            headers={"Content-Disposition": f"attachment; filename*=UTF-8''{name}"},
        )

    @routes.get("/studies/{study}/state")
    def confirm(study: Named, who: Signed, to: Annotated[str, Query(max_length=20)]) -> str:
        who.check_study(study)
        _check_operator(who)
        one_of(to, "to", _STATES)
        return render("confirm.html.j2", who=who, study=service.store.row(study), to=to)

    @routes.post("/studies/{study}/state")
    def change(study: Named, who: Signed, form: Form) -> Response:
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


@dataclass(frozen=True, repr=False)
class Session:
    """One browser that signed in.

    Attributes:
        token: of the key that it signed in with.
        opened: when, in seconds since 1970.
        csrf: a secret of its forms, so that no other site can make one.
    """

    token: str
    opened: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def check(self, given: str) -> bool:
        """Whether a form was one of this session."""
        return same(self.csrf, given)


class Sessions:
    """Cookies and links for the keys of a database."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def open(self, token: str) -> str:
        """The cookie of a new session of a key that was checked."""
        return self._sealed(Session(token, self._keys.now()), "session")

    def link(self, token: str) -> str:
        """A code that signs in with a key for ten minutes."""
        return self._sealed(Session(token, self._keys.now()), "link")

    def follow(self, code: str) -> str | None:
        """The token of a link's code; None for one that is none, or is too old."""
        found = self._opened(code, "link", LINK_SECONDS)
        return None if found is None else found.token

    def find(self, cookie: str) -> tuple[Session, ApiKey] | None:
        """The session of a cookie, with its key; None where it has ended, or never was one."""
        session = self._opened(cookie, "session", SESSION_SECONDS)
        if session is None:
            return None
        try:
            key = self._keys.check(session.token)
        except Unauthorized:
            return None
        return None if session.opened <= key.signed_out else (session, key)

    def _sealed(self, session: Session, use: _Use) -> str:
        identity = session.token.split("_")[1]
        content = json.dumps([session.token, session.opened, session.csrf]).encode()
        return f"{identity}.{self._cipher(identity, use).encrypt(content).decode()}"

    def _opened(self, text: str, use: _Use, seconds: int) -> Session | None:
        identity, _, sealed = text.partition(".")
        try:
            content = self._cipher(identity, use).decrypt(sealed, ttl=seconds)
        except (InvalidToken, LookupError):
            return None
        return Session(*json.loads(content))

    def _cipher(self, identity: str, use: _Use) -> Fernet:
        known = self._keys.hash_of(identity)
        if known is None:
            raise LookupError(identity)
        derived = hmac.new(known, f"discreet {use}".encode(), hashlib.sha256).digest()
        return Fernet(base64.urlsafe_b64encode(derived))


def same(wanted: str, given: str) -> bool:
    """Whether two secrets are equal, in a time that does not depend on where they differ."""
    return hmac.compare_digest(wanted.encode(), given.encode())
