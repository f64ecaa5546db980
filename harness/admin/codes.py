"""Kafka's error codes in answers to an administrator: which pass, and what the rest say."""

from kio.schema.errors import ErrorCode

from harness.admin.errors import Passing, Refused

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
