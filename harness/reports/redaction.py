"""Secrets taken out of what a report shows: a page is passed on, its run is not.

What a key's name says is secret is not shown, whatever it holds; in texts, what is assigned to such
a name, users' passwords in a JAAS line, passwords in addresses, tokens of requests, private keys.
"""

import re
from typing import Any, TypeVar

from harness.plans.properties import is_secret

HIDDEN = "[redacted]"

_NAMES = r"pass(?:word|wd|phrase)|secret|token|credential|api[._-]?key|private[._-]?key|jaas"
_SECRET_KEY = re.compile(rf"(?:{_NAMES})", re.IGNORECASE)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
                   re.DOTALL),
        HIDDEN,
    ),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[a-z0-9+/._~-]{8,}=*"), rf"\1{HIDDEN}"),
    (re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:@]+:)[^\s/@]+@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (
        re.compile(rf"(?i)([\w.-]*(?:{_NAMES}|\buser_\w+)[\w.-]*[\"']?\s*[=:]\s*)"
                   r"(\"[^\"]*\"|'[^']*'|[^\s,;\"']+)"),
        rf"\1{HIDDEN}",
    ),
)  # fmt: skip

Json = TypeVar("Json")


def redacted(found: Json) -> Json:
    """The same JSON value or text without what is secret in it."""
    made: Any = _redacted(found)
    return made  # type: ignore[no-any-return]


def _redacted(found: Any) -> Any:
    if isinstance(found, str):
        for pattern, instead in _RULES:
            found = pattern.sub(instead, found)
        return found
    if isinstance(found, dict):
        return {
            key: HIDDEN
            if (_SECRET_KEY.search(str(key)) or is_secret(str(key)))
            and value not in (None, "", [], {})
            else _redacted(value)
            for key, value in found.items()
        }
    if isinstance(found, list):
        return [_redacted(each) for each in found]
    return found
