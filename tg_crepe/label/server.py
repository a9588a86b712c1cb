from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tg_crepe._optional import require
from tg_crepe.label import view
from tg_crepe.label.exports import DOWNLOADS, export, export_folder
from tg_crepe.label.guard import Guard
from tg_crepe.label.items import SIDES
from tg_crepe.label.session import MOST_ITEMS, Session

#: The files of the page, and their kinds.
_STATIC = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

#: Pages that listen at the same time at most, seconds between two signs of life, items of a page of the same guess.
_LISTENERS, _ALIVE, _GRID = 24, 15.0, 24


class LabelServer:
    r"""The page of a session: HTTP for what it asks and answers, server-sent events for what is new.

    Args:
        session (Session): The open project.
        port (int): The port that will be listened on, which requests must name.
        log (callable): Takes a line when a request was refused.
    """

    def __init__(self, session: Session, port: int, log: Callable[[str], None]) -> None:
        require("starlette", extra="label")
        from starlette.applications import Starlette
        from starlette.routing import Route

        self.session = session
        self._queues: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        session.listeners.add(self._on_news)
        routes = [
            Route("/", self._page),
            Route("/static/{name}", self._static),
            Route("/api/state", self._get(lambda query: view.state(session))),
            Route("/api/next", self._get(self._next)),
            Route("/api/item/{number:int}", self._get(self._item)),
            Route("/api/grid", self._get(self._grid)),
            Route("/api/map", self._get(lambda query: view.node_map(session))),
            Route("/api/classes", self._get(lambda query: view.classes(session))),
            Route("/api/image/{number:int}/{size}", self._image),
            Route("/api/export/{name}", self._export),
            Route("/api/events", self._events),
            Route("/api/answer", self._post(self._answer), methods=["POST"]),
            Route("/api/undo", self._post(self._undo), methods=["POST"]),
            Route("/api/change", self._post(self._change), methods=["POST"]),
            Route("/api/lasso", self._post(self._lasso), methods=["POST"]),
            Route("/api/sort", self._post(self._sort), methods=["POST"]),
        ]
        self.guard = Guard(Starlette(routes=routes), port, log)

    # What is shown

    def _page(self, request: Any) -> Any:
        from starlette.responses import HTMLResponse

        page = _static_text("label.html")
        return HTMLResponse(page.replace("{{page_token}}", self.guard.page_token))

    def _static(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        name = request.path_params["name"]
        kind = _STATIC.get(Path(name).suffix)
        if kind is None or name not in _static_names():
            return PlainTextResponse("no such file\n", 404)
        return Response(_static_text(name), media_type=f"{kind}; charset=utf-8")

    def _image(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        number, size = request.path_params["number"], request.path_params["size"]
        if not 0 <= number < len(self.session) or size not in SIDES:
            return PlainTextResponse("no such image\n", 404)
        try:
            content = self.session.items.image(number, size)
        except (ValueError, OSError) as error:
            return PlainTextResponse(f"{error}\n", 422)
        kind = "image/png" if content.startswith(b"\x89PNG") else "image/jpeg"
        return Response(content, media_type=kind, headers={"cache-control": "private, max-age=3600"})

    def _next(self, query: dict[str, str]) -> Any:
        avoid = [_number(word, len(self.session)) for word in query.get("avoid", "").split(",") if word]
        found = self.session.next_items(
            query.get("tab", "")[:64], min(_number(query.get("count", "6"), 100), 20), avoid
        )
        return {"items": [view.item(self.session, number) for number in found]}

    def _item(self, query: dict[str, str]) -> Any:
        return view.item(self.session, _number(query["number"], len(self.session)))

    def _grid(self, query: dict[str, str]) -> Any:
        number = self.session.book.check_class(_number(query.get("class", ""), 1 << 31))
        order = query.get("order", "certain")
        if order not in ("certain", "doubt"):
            raise ValueError(f"'order' must be certain or doubt, got {order!r}")
        found = self.session.same_guess(number, order, _GRID)
        return {"class": number, "items": [view.tile(self.session, item) for item in found]}

    # What is done

    def _answer(self, body: dict[str, Any]) -> Any:
        kind, answers = body.get("kind"), body.get("answers")
        if kind not in ("one", "page", "lasso", "review"):
            raise ValueError(f"'kind' must be one, page, lasso or review, got {kind!r}")
        if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
            raise ValueError("'answers' must be a list of answers")
        return {"act": self.session.answer(_request(body), kind, answers)}

    def _undo(self, body: dict[str, Any]) -> Any:
        return {"items": self.session.undo(_request(body))}

    def _change(self, body: dict[str, Any]) -> Any:
        session, request, what = self.session, _request(body), body.get("do")
        if what == "add":
            return {"numbers": session.add_classes(request, [body.get("name", "")])}
        number = session.book.check_class(body.get("class"), none=False)
        if what == "rename":
            session.rename_class(request, number, body.get("name", ""))
        elif what == "merge":
            session.merge_classes(request, number, session.book.check_class(body.get("into")))
        elif what == "delete":
            session.delete_class(request, number)
        else:
            raise ValueError(f"'do' must be add, rename, merge or delete, got {what!r}")
        return {}

    def _lasso(self, body: dict[str, Any]) -> Any:
        polygon = body.get("polygon")
        fits = isinstance(polygon, list) and 3 <= len(polygon) <= 2000
        if not fits or not all(
            isinstance(corner, list) and len(corner) == 2 and all(type(v) in (int, float) for v in corner)
            for corner in polygon  # type: ignore[union-attr]
        ):
            raise ValueError("'polygon' must be a list of 3 to 2,000 corners [x, y]")
        assert isinstance(polygon, list)
        found = view.inside(self.session, [(float(x), float(y)) for x, y in polygon])
        free = [item for item in found if item not in self.session.book.answers]
        return {
            "inside": len(found),
            "free": free[:MOST_ITEMS],
            "tooMany": len(free) > MOST_ITEMS,
            "tiles": [view.tile(self.session, item) for item in found[:: max(1, -(-len(found) // 48))]],
        }

    def _sort(self, body: dict[str, Any]) -> Any:
        folder = self.session.project.folder / "sorted"
        return {"folder": str(folder), "links": export_folder(self.session, folder)}

    def _export(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse, Response

        name = request.path_params["name"]
        if name not in DOWNLOADS:
            return PlainTextResponse("no such export\n", 404)
        with TemporaryDirectory(prefix="tg-crepe-") as place:
            path = Path(place, name)
            try:
                export(self.session, path, only_given=name == "labels.csv")
            except (ValueError, ImportError) as error:
                return PlainTextResponse(f"{error}\n", 422)
            headers = {"content-disposition": f'attachment; filename="{name}"'}
            return Response(path.read_bytes(), media_type="application/octet-stream", headers=headers)

    # Events

    def _on_news(self, message: dict[str, Any]) -> None:
        """Called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._spread, message)

    def _spread(self, message: dict[str, Any] | None) -> None:
        for queue in self._queues:
            queue.put_nowait(message)

    async def _events(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse, StreamingResponse

        if len(self._queues) >= _LISTENERS:
            return PlainTextResponse("too many pages are open\n", 503)
        self._loop = asyncio.get_running_loop()
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield 'data: {"type": "hello"}\n\n'
            while True:
                try:
                    message = await asyncio.wait_for(queue.get(), _ALIVE)
                except asyncio.TimeoutError:
                    yield ": still here\n\n"
                    continue
                if message is None:
                    return
                yield f"data: {json.dumps(message)}\n\n"
        finally:
            self._queues.discard(queue)

    def end_streams(self) -> None:
        """Lets go of all pages that listen, so that the server can end."""
        self._spread(None)

    # Plain values in, plain values out

    def _get(self, answer: Callable[[dict[str, str]], Any]) -> Any:
        def handle(request: Any) -> Any:
            return _json(answer, {**request.query_params, **{k: str(v) for k, v in request.path_params.items()}})

        return handle

    def _post(self, answer: Callable[[dict[str, Any]], Any]) -> Any:
        from starlette.concurrency import run_in_threadpool

        async def handle(request: Any) -> Any:
            try:
                body = json.loads(await request.body())
            except (ValueError, RecursionError):
                body = None
            if not isinstance(body, dict):
                return _json(_no_body, {})
            return await run_in_threadpool(_json, answer, body)

        return handle


def _no_body(body: Any) -> Any:
    raise ValueError("the body must be a JSON object")


def _json(answer: Callable[[Any], Any], asked: Any) -> Any:
    """The answer as JSON; what was wrong with the question is one line."""
    from starlette.responses import JSONResponse

    try:
        return JSONResponse(answer(asked))
    except ValueError as error:
        return JSONResponse({"error": str(error)}, 422)


def _request(body: dict[str, Any]) -> str:
    """The name that the page gave to what it does."""
    name = body.get("request")
    if not isinstance(name, str) or not 8 <= len(name) <= 64 or not name.isascii():
        raise ValueError("'request' must be a name of 8 to 64 characters")
    return name


def _number(word: str, below: int) -> int:
    if not word.isascii() or not word.isdecimal() or len(word) > 12 or int(word) >= below:
        raise ValueError(f"a number below {below} is needed, got {word[:20]!r}")
    return int(word)


def _static_names() -> set[str]:
    return {entry.name for entry in (files("tg_crepe.label") / "static").iterdir()}


def _static_text(name: str) -> str:
    return (files("tg_crepe.label") / "static" / name).read_text(encoding="utf-8")
