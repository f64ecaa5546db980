"""A request in, an answer out: which page, with what, and what is said where there is none.

Knows of no socket. Nothing that goes wrong leaves it as an exception: what was asked for is at
fault (400, 404, 405, 414, 421) or we are (500), and either way a page says so in a sentence.
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
from harness.serve.archive import CHUNK_BYTES, zipped
from harness.serve.catalogue import Catalogue
from harness.serve.comparison import compared
from harness.serve.filters import Wish
from harness.serve.live import Live, end_of
from harness.serve.paths import Address, BadAddress
from harness.serve.responses import Answer, of_text
from harness.serve.store_files import Absent, Place, TooLarge, Unreadable, Vault, VaultError
from harness.serve.summaries import State

log = logging.getLogger(__name__)

LOG_BYTES: Final = 256 << 10
"""Of a log, its end."""
SEARCHED_BYTES: Final = 64 << 20
"""Of a log, when it is searched."""
FOUND_LINES: Final = 5_000
METHODS: Final = ("GET", "HEAD")


class Desk:
    """Answers for one store. Safe to use from several threads."""

    def __init__(
        self,
        vault: Vault,
        *,
        names: frozenset[str] = frozenset(),
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`names`: host names, besides localhost and numbers, by which we are asked."""
        self._vault = vault
        self._catalogue = Catalogue(vault)
        self._live = Live(vault)
        self._names = names
        self._now_s = now_s

    def answer(self, method: str, target: str, host: str | None) -> Answer:
        """The answer to a request; to HEAD it is that to GET, whose body is not to be sent."""
        try:
            return self._answer(method, target, host)
        except BadAddress as error:
            return refusal(error.status, str(error))
        except Absent as error:
            return refusal(404, str(error))
        except TooLarge as error:
            return refusal(404, f"{error}; download it instead")
        except Unreadable as error:
            return refusal(403, str(error))
        except VaultError as error:
            return refusal(404, str(error))
        except Exception as error:
            # As Python writes texts: an address may hold what a terminal obeys.
            log.error("%r %r: %s: %r", method, target[:200], type(error).__name__, str(error))
            return refusal(500, f"this page could not be made: {type(error).__name__}")

    def _answer(self, method: str, target: str, host: str | None) -> Answer:
        if not responses.is_ours(host, self._names):
            raise BadAddress(
                421, "this server is not called by that name; --allow-host NAME makes it so"
            )
        if method not in METHODS:
            return refusal(405, "this server only shows: GET and HEAD", Allow="GET, HEAD")
        address = paths.read(target)
        match address.page:
            case "":
                return of_text(self._runs(address))
            case "nights":
                return of_text(pages.nights(nights.suites(self._vault)))
            case "runs":
                return of_text(self._run(address.place))
            case "live":
                return of_text(self._look(address.place), kind=responses.JSON)
            case "compare":
                return of_text(self._compare(address))
            case "files":
                return self._file(address)
            case "log":
                return of_text(self._log(address))
            case "zip":
                return self._zip(address.place)
            case _:
                return _static(address.place)

    def _runs(self, address: Address) -> str:
        wish = Wish(
            text=address.one("q"),
            state=address.one("state"),
            plan=address.one("plan"),
            fault=address.one("fault"),
            order=address.one("order") or "newest",
            page=_whole(address.one("page")),
        )
        runs, whole = self._catalogue.runs()
        choice = filters.chosen(runs, wish)
        trends = filters.trends(runs)
        return pages.runs(choice, wish, trends, filters.kept(runs), whole=whole)

    def _run(self, place: Place) -> str:
        run = self._catalogue.run(place)
        replay = repeat.command(self._vault.path(place))
        entries = self._vault.entries(place)
        return pages.run(run, replay, entries, paths.link("live", place))

    def _look(self, place: Place) -> str:
        run = self._catalogue.run(place)
        if run.state is not State.RUNNING:
            return json.dumps({"state": run.state})
        return json.dumps(self._live.look(run, self._catalogue.files(place), self._now_s()))

    def _compare(self, address: Address) -> str:
        asked = address.all("run")
        if len(asked) != 2:
            raise BadAddress(400, f"two runs are compared; mark two of them, not {len(asked)}")
        first, second = (paths.place_of(text) for text in asked)
        plans = self._catalogue.files(first).plan, self._catalogue.files(second).plan
        one, other = self._catalogue.run(first), self._catalogue.run(second)
        return pages.compare(one, other, compared(one, other, plans))

    def _file(self, address: Address) -> Answer:
        place = address.place
        if self._vault.about(place).kind == "directory":
            return of_text(pages.files(place, self._vault.entries(place)))
        kind, policy, download = responses.shown_as(place)
        with ExitStack() as opened:
            file = opened.enter_context(self._vault.file(place))
            size = file.seek(0, 2)
            file.seek(0)
            body = _sent(file, size, opened.pop_all())
        name = "".join(c if c.isalnum() or c in "._-" else "_" for c in place[-1])
        how = {"Content-Disposition": f'attachment; filename="{name}"'} if download else {}
        return Answer(kind=kind, policy=policy, body=body, length=size, headers=how)

    def _log(self, address: Address) -> str:
        sought = address.one("q")
        most = SEARCHED_BYTES if sought else LOG_BYTES
        text, whole = end_of(self._vault, address.place, most)
        lines = text.splitlines()
        if sought:
            lines = [line for line in lines if sought.casefold() in line.casefold()]
        shown = redacted("\n".join(lines[-FOUND_LINES:]))
        return pages.log(address.place, shown, sought, whole=whole, lines=len(lines))

    def _zip(self, place: Place) -> Answer:
        self._catalogue.run(place)
        name = "-".join("".join(c for c in part if c.isalnum() or c in "._") for part in place[-2:])
        return Answer(
            kind="application/zip",
            policy=responses.NOTHING,
            body=zipped(self._vault, place),
            headers={"Content-Disposition": f'attachment; filename="{name}.zip"'},
        )


def refusal(status: int, said: str, **headers: str) -> Answer:
    """A page that says why there is nothing to show."""
    text = pages.refusal(status, said).encode(errors="replace")
    return Answer(status=status, body=(text,), length=len(text), headers=headers)


def opened(store: Path) -> Vault:
    """The store as a vault. Raises StoreError where it is no directory that can be read."""
    from harness.recording.store import StoreError

    try:
        return Vault(store)
    except OSError as error:
        raise StoreError(
            f"store {store} cannot be read ({error.strerror}); name a directory of runs"
        ) from error


def _sent(file: BinaryIO, size: int, opened: ExitStack) -> Iterator[bytes]:
    """As many bytes as were announced; a file that was cut meanwhile ends the connection."""
    with opened:
        left = size
        while left > 0 and (part := file.read(min(left, CHUNK_BYTES))):
            left -= len(part)
            yield part


def _static(place: Place) -> Answer:
    name = place[0] if len(place) == 1 else ""
    text = pages.static(name)
    if text is None:
        raise BadAddress(404, "there is no such file of this server's own")
    return of_text(text, kind=pages.STATIC[name])


def _whole(text: str) -> int:
    """A page's number; the first for whatever is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
