from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any

#: Bytes of a request's body at most.
LARGEST_BODY = 1 << 20

#: Seconds in which a kind of refusal is logged once.
_QUIET = 60.0

#: What every answer tells the browser: nothing from elsewhere, no script but ours, in no frame, kept nowhere.
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    r"""Lets in who has the token, from this machine's own page; everybody else gets one line and no more.

    - ``Host`` must be ours, so that no name of somebody else's that leads here (DNS rebinding) is served.
    - ``Origin``, where there is one, must be ours, and ``Sec-Fetch-Site`` must not say that another page asks.
    - The first address carries the token, which becomes a cookie (``HttpOnly``, ``SameSite=Strict``).
    - What changes something also needs the page's own token as a header, which no other page can read or send.
    - A body is no longer than a megabyte.

    Args:
        app (callable): The ASGI application behind it.
        port (int): The port that is listened on.
        log (callable): Takes a line for every kind of refusal, once a minute at most.
    """

    def __init__(self, app: Any, port: int, log: Callable[[str], None]) -> None:
        self._app = app
        self._log = log
        self._logged: dict[str, float] = {}
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.origins = tuple(f"http://{host}" for host in self.hosts)
        self.cookie = f"tg_crepe_{port}"  # a browser's cookies know no ports
        self.token, self.page_token, self._session = (secrets.token_urlsafe(32) for _ in range(3))

    @property
    def address(self) -> str:
        """The address to open first."""
        return f"{self.origins[0]}/?token={self.token}"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers a request, or refuses it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = _headers(scope)
        if scope["method"] == "GET" and scope["path"] == "/" and b"token=" in scope["query_string"]:
            reason = self._foreign(headers)
            if reason is None and self._is_token(scope["query_string"]):
                await self._enter(send)
            else:
                await self._refuse(send, reason or "a wrong token")
            return
        reason = self._why_not(scope, headers)
        if reason is not None:
            await self._refuse(send, reason)
            return
        body = await _read_body(receive) if scope["method"] not in ("GET", "HEAD") else b""
        if body is None:
            await self._refuse(send, "a body that is too long", 413)
            return
        await self._app(scope, _replay(body, receive), _with_headers(send))

    def _why_not(self, scope: Any, headers: dict[str, str]) -> str | None:
        """The reason to refuse a request, or None."""
        if (reason := self._foreign(headers)) is not None:
            return reason
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return "another method than GET and POST"
        if not hmac.compare_digest(self._cookie_of(headers), self._session):
            return "no cookie of this session"
        if scope["method"] == "POST":
            if "origin" not in headers:
                return "a change without Origin"
            if not hmac.compare_digest(headers.get("x-page-token", "").encode(), self.page_token.encode()):
                return "a change without the page's token"
        return None

    def _foreign(self, headers: dict[str, str]) -> str | None:
        if headers.get("host") not in self.hosts:
            return "another Host"
        if "origin" in headers and headers["origin"] not in self.origins:
            return "another Origin"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "a request of another page"
        return None

    def _is_token(self, query: bytes) -> bool:
        found = re.fullmatch(rb"token=([A-Za-z0-9_-]{1,200})", query)
        return found is not None and hmac.compare_digest(found[1], self.token.encode())

    def _cookie_of(self, headers: dict[str, str]) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return morsel.value if morsel is not None and morsel.value.isascii() else ""

    async def _enter(self, send: Any) -> None:
        """Turns the token of the first address into a cookie, and takes it out of the address."""
        cookie = f"{self.cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        await _answer(send, 303, b"", {"location": "/", "set-cookie": cookie})

    async def _refuse(self, send: Any, reason: str, status: int = 403) -> None:
        now = time.monotonic()
        if now - self._logged.get(reason, -_QUIET) >= _QUIET:
            self._logged[reason] = now
            self._log(f"refused: {reason}")
        await _answer(send, status, b"refused: open the address that tg-crepe label has printed\n")


def _headers(scope: Any) -> dict[str, str]:
    """The headers; two of a kind are joined, so that a second Host is none of ours."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        separator = "; " if key == "cookie" else ", "
        found[key] = text if key not in found else f"{found[key]}{separator}{text}"
    return found


async def _read_body(receive: Any) -> bytes | None:
    """The whole body, or None where it is too long."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


def _replay(body: bytes, receive: Any) -> Any:
    """What was read, once more; then what the client does next."""
    sent = False

    async def again() -> Any:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(send: Any) -> Any:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            extra = [
                (name.encode(), value.encode()) for name, value in _HEADERS.items() if name.encode() not in present
            ]
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return sending


async def _answer(send: Any, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    plain = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **(headers or {})}
    pairs = [(name.encode(), value.encode()) for name, value in plain.items()]
    await _with_headers(send)({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
