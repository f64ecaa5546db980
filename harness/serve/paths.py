"""An address as a page, a place in the store, and a query. Pure.

    /                       the runs              /nights             the suites' nights
    /runs/<place>           one run               /live/<place>       its present state (JSON)
    /files/<place>          a file or directory   /log/<place>        the end of a text file
    /zip/<place>            a run as a zip file   /compare?run=&run=  two runs
    /static/<name>          styles and script

Percent signs are decoded once, after the address was split at its slashes: an encoded slash is part
of a name, and no file has such a name. A name that no file of the store can have is refused here,
and could not be opened either.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from harness.serve.store_files import Place

LONGEST: Final = 4_096
"""Characters of an address. Linux has no longer paths."""
LONGEST_NAME: Final = 255
DEEPEST: Final = 40
FIELDS: Final = 20
"""Fields of a query."""

PAGES: Final = ("", "nights", "runs", "live", "files", "log", "zip", "compare", "static")

_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class BadAddress(Exception):
    """An address that this server does not have. `status`: the HTTP status."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The page, place and query of a request."""

    page: str
    place: Place = ()
    query: tuple[tuple[str, str], ...] = ()

    def all(self, name: str) -> tuple[str, ...]:
        """Return the values of a field that are not empty."""
        return tuple(value for key, value in self.query if key == name and value)

    def one(self, name: str) -> str:
        """Return the first value of a field; empty without a value."""
        return next(iter(self.all(name)), "")


def read(target: str) -> Address:
    """Read the address of a request. Raises BadAddress."""
    if len(target) > LONGEST:
        raise BadAddress(414, f"the address is longer than {LONGEST:,} characters")
    if not target.startswith("/"):
        raise BadAddress(400, "the address does not begin with a slash")
    path, _, query = target.partition("?")
    names = [_name(part) for part in path[1:].split("/")]
    if len(names) > 1 and names[-1] == "":
        names.pop()  # a slash at the end is allowed
    page, *rest = names
    if page not in PAGES:
        raise BadAddress(404, f"there is no page /{page[:80]}")
    if "" in rest or len(rest) > DEEPEST:
        raise BadAddress(404, "there is no such file in the store")
    return Address(page=page, place=tuple(rest), query=_query(query))


def link(page: str, place: Place = ()) -> str:
    """Return the address of a page."""
    return "/" + "/".join(quote(part, safe="") for part in (page, *place) if part)


def place_of(text: str) -> Place:
    """Read a place: names with slashes between. Raises BadAddress."""
    names = tuple(_checked(name) for name in text.split("/"))
    if len(text) > LONGEST or "" in names or len(names) > DEEPEST:
        raise BadAddress(404, "there is no such run in the store")
    return names


def _name(part: str) -> str:
    if _BAD_PERCENT.search(part):
        raise BadAddress(400, "the address has a percent sign without two hexadecimal digits")
    try:
        return _checked(unquote_to_bytes(part).decode())
    except UnicodeDecodeError as error:
        raise BadAddress(400, "the address is not UTF-8") from error


def _checked(name: str) -> str:
    if name in (".", ".."):
        raise BadAddress(404, "an address may not contain ..")
    if any(c < " " or c in "/\x7f" for c in name):
        raise BadAddress(400, "the address has characters that no file name has")
    if len(name.encode(errors="replace")) > LONGEST_NAME:
        raise BadAddress(404, "no file has such a long name")
    return name


def _query(text: str) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(parse_qsl(text, errors="strict", max_num_fields=FIELDS))
    except (ValueError, UnicodeDecodeError) as error:
        raise BadAddress(400, "the query after the ? cannot be read") from error
