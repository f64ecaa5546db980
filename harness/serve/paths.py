"""An address as a page, a place in the store, and a query. Pure.

    /                       the runs              /nights             the suites' nights
    /runs/<place>           one run               /live/<place>       what it shows by now (JSON)
    /files/<place>          a file or directory   /log/<place>        the end of a text file
    /zip/<place>            a run as a zip file   /compare?run=&run=  two runs
    /static/<name>          styles and script

Percent signs are decoded once, after the address was cut at its slashes: an encoded slash is part
of a name, and no file has such a name. Whatever cannot be a name of the store is refused here, and
could not be opened either.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from harness.serve.store_files import Place

LONGEST: Final = 4_096
"""Characters of an address; Linux knows no longer paths."""
LONGEST_NAME: Final = 255
DEEPEST: Final = 40
FIELDS: Final = 20
"""Of a query."""

PAGES: Final = ("", "nights", "runs", "live", "files", "log", "zip", "compare", "static")

_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class BadAddress(Exception):
    """No address of ours; `status` says how HTTP calls it."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What is asked for."""

    page: str
    place: Place = ()
    query: tuple[tuple[str, str], ...] = ()

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of a field that is not empty."""
        return tuple(value for key, value in self.query if key == name and value)

    def one(self, name: str) -> str:
        """The first value of a field; empty where there is none."""
        return next(iter(self.all(name)), "")


def read(target: str) -> Address:
    """The address of a request's line. Raises BadAddress."""
    if len(target) > LONGEST:
        raise BadAddress(414, f"the address is longer than {LONGEST:,} characters")
    if not target.startswith("/"):
        raise BadAddress(400, "the address does not begin with a slash")
    path, _, query = target.partition("?")
    names = [_name(part) for part in path[1:].split("/")]
    if len(names) > 1 and names[-1] == "":
        names.pop()  # a slash at the end is no matter
    page, *rest = names
    if page not in PAGES:
        raise BadAddress(404, f"there is no page /{page[:80]}")
    if "" in rest or len(rest) > DEEPEST:
        raise BadAddress(404, "there is no such file in the store")
    return Address(page=page, place=tuple(rest), query=_query(query))


def link(page: str, place: Place = ()) -> str:
    """The address of a page."""
    return "/" + "/".join(quote(part, safe="") for part in (page, *place) if part)


def place_of(text: str) -> Place:
    """A place as pages name it, names with slashes between. Raises BadAddress."""
    names = tuple(_checked(name) for name in text.split("/"))
    if len(text) > LONGEST or "" in names or len(names) > DEEPEST:
        raise BadAddress(404, "there is no such run in the store")
    return names


def _name(part: str) -> str:
    if _BAD_PERCENT.search(part):
        raise BadAddress(400, "the address has a percent sign that encodes nothing")
    try:
        return _checked(unquote_to_bytes(part).decode())
    except UnicodeDecodeError as error:
        raise BadAddress(400, "the address is no UTF-8") from error


def _checked(name: str) -> str:
    if name in (".", ".."):
        raise BadAddress(404, "an address may not go up")
    if any(c < " " or c in "/\x7f" for c in name):
        raise BadAddress(400, "the address has characters that no name has")
    if len(name.encode(errors="replace")) > LONGEST_NAME:
        raise BadAddress(404, "there is no file with a name as long as that")
    return name


def _query(text: str) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(parse_qsl(text, errors="strict", max_num_fields=FIELDS))
    except (ValueError, UnicodeDecodeError) as error:
        raise BadAddress(400, "the question behind the ? cannot be read") from error
