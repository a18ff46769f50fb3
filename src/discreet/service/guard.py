"""What stands before every route: it knows the key before anything else is read."""

from __future__ import annotations

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from discreet.service.access import KEY
from discreet.service.answers import answer_to
from discreet.service.errors import Unauthorized
from discreet.service.keys import Keys

_CLOSED = ("/v1/", "/metrics")


class Guard:
    """An application behind keys.

    Args:
        app: what it guards.
        keys: that open it.
    """

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app, self._keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            if scope["path"].startswith(_CLOSED):
                scope[KEY] = await to_thread.run_sync(self._keys.check, _token(scope))
            await self._app(scope, receive, send)
        except Exception as error:
            await answer_to(error)(scope, receive, send)


def _token(scope: Scope) -> str:
    """The token of a request."""
    scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized("no key came with the request; send `Authorization: Bearer TOKEN`.")
    return token.strip()
