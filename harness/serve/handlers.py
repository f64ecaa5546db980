"""From a request to its response: the page and its data, or a page that says why there is none.

It knows no sockets. It raises nothing: an error of the request (400, 404, 405, 414, 421) or of the
server (500) is a page with a sentence.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

from harness.plans import repeat
from harness.reports.redaction import redacted
from harness.serve import filters, nights, pages, paths, responses
from harness.serve.archive import CHUNK_BYTES, zip_chunks
from harness.serve.catalogue import Catalogue
from harness.serve.comparison import compare_runs
from harness.serve.filters import RunQuery
from harness.serve.live import LiveView, end_of
from harness.serve.paths import Address, BadAddress
from harness.serve.responses import Response, text_response
from harness.serve.store_files import (
    FileAbsent,
    FileTooLarge,
    FileUnreadable,
    Place,
    StoreFileError,
    StoreFiles,
)
from harness.serve.summaries import State

log = logging.getLogger(__name__)

LOG_BYTES: Final = 256 << 10
"""The end of a log that is shown."""
SEARCHED_BYTES: Final = 64 << 20
"""The end of a log that is searched."""
FOUND_LINES: Final = 5_000
METHODS: Final = ("GET", "HEAD")


class RequestHandler:
    """Answers requests for one store. Safe to use from several threads."""

    def __init__(
        self,
        store_files: StoreFiles,
        *,
        names: frozenset[str] = frozenset(),
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`names`: host names of this server besides localhost and IP addresses."""
        self._store = store_files
        self._catalogue = Catalogue(store_files)
        self._live = LiveView(store_files)
        self._names = names
        self._now_s = now_s

    def respond(self, method: str, target: str, host: str | None) -> Response:
        """Return the response. For HEAD it is that of GET; its body must not be sent."""
        try:
            return self._respond(method, target, host)
        except BadAddress as error:
            return error_page(error.status, str(error))
        except FileAbsent as error:
            return error_page(404, str(error))
        except FileTooLarge as error:
            return error_page(404, f"{error}; download it instead")
        except FileUnreadable as error:
            return error_page(403, str(error))
        except StoreFileError as error:
            return error_page(404, str(error))
        except Exception as error:
            # repr: an address may contain control characters of a terminal.
            log.error("%r %r: %s: %r", method, target[:200], type(error).__name__, str(error))
            return error_page(500, f"this page failed: {type(error).__name__}")

    def _respond(self, method: str, target: str, host: str | None) -> Response:
        if not responses.is_own_host(host, self._names):
            raise BadAddress(
                421, "this server does not have that name; start it with --allow-host NAME"
            )
        if method not in METHODS:
            return error_page(405, "this server is read-only: GET and HEAD", Allow="GET, HEAD")
        address = paths.read(target)
        match address.page:
            case "":
                return text_response(self._runs(address))
            case "nights":
                return text_response(pages.nights(nights.suites(self._store)))
            case "runs":
                return text_response(self._run(address.place))
            case "live":
                return text_response(self._snapshot(address.place), kind=responses.JSON)
            case "compare":
                return text_response(self._compare(address))
            case "files":
                return self._file(address)
            case "log":
                return text_response(self._log(address))
            case "zip":
                return self._zip(address.place)
            case _:
                return _static(address.place)

    def _runs(self, address: Address) -> str:
        query = RunQuery(
            text=address.one("q"),
            state=address.one("state"),
            plan=address.one("plan"),
            fault=address.one("fault"),
            system=address.one("system"),
            target=address.one("target"),
            order=address.one("order") or "newest",
            page=_whole(address.one("page")),
        )
        found, whole = self._catalogue.runs()
        runs, clusters = filters.split(found)
        return pages.runs(
            filters.select_runs(runs, query),
            query,
            filters.trends(runs),
            filters.choices(runs),
            clusters,
            whole=whole,
        )

    def _run(self, place: Place) -> str:
        run = self._catalogue.run(place)
        replay = repeat.command(self._store.path(place))
        entries = self._store.entries(place)
        return pages.run(run, replay, entries, paths.link("live", place))

    def _snapshot(self, place: Place) -> str:
        run = self._catalogue.run(place)
        if run.state is not State.RUNNING:
            return json.dumps({"state": run.state})
        return json.dumps(self._live.snapshot(run, self._catalogue.files(place), self._now_s()))

    def _compare(self, address: Address) -> str:
        asked = address.all("run")
        if len(asked) != 2:
            raise BadAddress(
                400, f"a comparison needs two runs; mark two of them, not {len(asked)}"
            )
        first, second = (paths.place_of(text) for text in asked)
        plans = self._catalogue.files(first).plan, self._catalogue.files(second).plan
        one, other = self._catalogue.run(first), self._catalogue.run(second)
        return pages.compare(one, other, compare_runs(one, other, plans))

    def _file(self, address: Address) -> Response:
        place = address.place
        if self._store.about(place).kind == "directory":
            return text_response(pages.files(place, self._store.entries(place)))
        kind, policy, download = responses.presentation(place)
        with ExitStack() as opened:
            file = opened.enter_context(self._store.file(place))
            size = file.seek(0, 2)
            file.seek(0)
            body = _sent(file, size, opened.pop_all())
        name = "".join(c if c.isalnum() or c in "._-" else "_" for c in place[-1])
        how = {"Content-Disposition": f'attachment; filename="{name}"'} if download else {}
        return Response(kind=kind, policy=policy, body=body, length=size, headers=how)

    def _log(self, address: Address) -> str:
        sought = address.one("q")
        most = SEARCHED_BYTES if sought else LOG_BYTES
        text, whole = end_of(self._store, address.place, most)
        lines = text.splitlines()
        if sought:
            lines = [line for line in lines if sought.casefold() in line.casefold()]
        shown = redacted("\n".join(lines[-FOUND_LINES:]))
        return pages.log(address.place, shown, sought, whole=whole, lines=len(lines))

    def _zip(self, place: Place) -> Response:
        self._catalogue.run(place)
        name = "-".join("".join(c for c in part if c.isalnum() or c in "._") for part in place[-2:])
        return Response(
            kind="application/zip",
            policy=responses.NOTHING,
            body=zip_chunks(self._store, place),
            headers={"Content-Disposition": f'attachment; filename="{name}.zip"'},
        )


def error_page(status: int, sentence: str, **headers: str) -> Response:
    """Return a page that says why there is nothing to show."""
    text = pages.error_page(status, sentence).encode(errors="replace")
    return Response(status=status, body=(text,), length=len(text), headers=headers)


def opened(store: Path) -> StoreFiles:
    """Open a store. Raises StoreError when it is no readable directory."""
    from harness.recording.store import StoreError

    try:
        return StoreFiles(store)
    except OSError as error:
        raise StoreError(
            f"store {store} cannot be read ({error.strerror}); name a directory of runs"
        ) from error


def _sent(file: BinaryIO, size: int, opened: ExitStack) -> Iterator[bytes]:
    """Yield as many bytes as announced. A file that became shorter ends the connection."""
    with opened:
        left = size
        while left > 0 and (part := file.read(min(left, CHUNK_BYTES))):
            left -= len(part)
            yield part


def _static(place: Place) -> Response:
    name = place[0] if len(place) == 1 else ""
    text = pages.static(name)
    if text is None:
        raise BadAddress(404, "this server has no such file of its own")
    return text_response(text, kind=pages.STATIC[name])


def _whole(text: str) -> int:
    """Return a page number; 1 for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
