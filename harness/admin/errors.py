"""The errors of administrative requests.

AdminError
├── BadRequest            the request cannot be done; repeating it changes nothing
│   └── RequestRefused    the cluster refused it: `code` is Kafka's error
├── TransientError        the cluster cannot do it at this moment; `AdminClient` repeats the request
└── Unreachable           no broker answered in time; the request may have been done
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line uses these errors without loading the protocol
    from kio.schema.errors import ErrorCode


class AdminError(Exception):
    """Any failure of an administrative request; the message is for people."""


class BadRequest(AdminError):
    """The request cannot be done as it was made."""


class RequestRefused(BadRequest):
    """The cluster refuses the request."""

    def __init__(self, code: "ErrorCode", text: str) -> None:
        super().__init__(text)
        self.code = code


class TransientError(AdminError):
    """The cluster cannot do it at this moment: a leader is being elected, a broker catches up."""

    def __init__(self, code: "ErrorCode", text: str) -> None:
        super().__init__(text)
        self.code = code


class Unreachable(AdminError):
    """No broker answered within the time limit."""
