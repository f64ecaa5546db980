"""What can go wrong between an administrator and a cluster.

AdminError
├── BadRequest     what was asked for cannot be done; asking again changes nothing
│   └── Refused    the cluster said so: `code` is Kafka's error
├── Passing        the cluster cannot do it at this moment; `AdminClient` asks again on it
└── Unreachable    nobody answered, or not in time; what was asked for may have happened
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line tells these errors apart without loading the protocol
    from kio.schema.errors import ErrorCode


class AdminError(Exception):
    """Any failure of an administrative request; the message is for people."""


class BadRequest(AdminError):
    """What was asked for cannot be done as it was asked."""


class Refused(BadRequest):
    """The cluster refuses."""

    def __init__(self, code: "ErrorCode", text: str) -> None:
        super().__init__(text)
        self.code = code


class Passing(AdminError):
    """The cluster cannot do it at this moment: a leader is being elected, a broker catches up."""

    def __init__(self, code: "ErrorCode", text: str) -> None:
        super().__init__(text)
        self.code = code


class Unreachable(AdminError):
    """No answer within the bound."""
