"""What can go wrong between an administrator and a cluster.

AdminError
├── BadRequest     what was asked for cannot be done; asking again changes nothing
│   └── Refused    the cluster said so: `code` is Kafka's error
├── Passing        the cluster cannot do it at this moment; `AdminClient` asks again on it
└── Unreachable    nobody answered, or not in time; what was asked for may have happened
"""

from kio.schema.errors import ErrorCode


class AdminError(Exception):
    """Any failure of an administrative request; the message is for people."""


class BadRequest(AdminError):
    """What was asked for cannot be done as it was asked."""


class Refused(BadRequest):
    """The cluster refuses."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Passing(AdminError):
    """The cluster cannot do it at this moment: a leader is being elected, a broker catches up."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Unreachable(AdminError):
    """No answer within the bound."""


PASSING = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.throttling_quota_exceeded,
        ErrorCode.replica_not_available,
    }
)
"""Errors after which the same request may succeed. Kafka calls more errors retriable; those name
states that do not pass by themselves (an unknown topic, an election that is not needed)."""


def check(code: ErrorCode, subject: str, message: str | None = None) -> None:
    """Return when `code` is none. Raises Passing or Refused about `subject`, in Kafka's words."""
    if code is ErrorCode.none:
        return
    said = f"{code.name.upper()}: {message}" if message else code.name.upper()
    kind = Passing if code in PASSING else Refused
    raise kind(code, f"{subject}: {said}" if subject else said)
