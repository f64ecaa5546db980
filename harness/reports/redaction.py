"""Removes secrets from what a report shows: people pass on a page, but not its run.

Removed are: values of keys whose name says that they are secret; in texts, values assigned to such
names, passwords in JAAS lines and in addresses, tokens of requests, and private keys.
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

_SUSPECT = re.compile(rf"PRIVATE KEY|bearer|basic|://|user_|{_NAMES}", re.IGNORECASE)
"""What any of the rules needs. Most texts have nothing of it, and the rules take much longer."""

Json = TypeVar("Json")


def redacted(found: Json) -> Json:
    """Return the JSON value or text without its secrets."""
    made: Any = _redacted(found)
    return made  # type: ignore[no-any-return]


def _redacted(found: Any) -> Any:
    if isinstance(found, str):
        if _SUSPECT.search(found) is None:
            return found
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
