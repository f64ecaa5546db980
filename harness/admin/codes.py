"""Kafka's error codes in answers to an administrator: which are transient, and their messages."""

from kio.schema.errors import ErrorCode

from harness.admin.errors import RequestRefused, TransientError

TRANSIENT = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.unstable_offset_commit,
        ErrorCode.throttling_quota_exceeded,
        ErrorCode.replica_not_available,
    }
)
"""Errors after which the same request may succeed. Kafka calls more errors retriable, but the
others are of states that do not end by themselves (an unknown topic, an election that is not
needed)."""


def check(code: ErrorCode, subject: str, message: str | None = None) -> None:
    """Raise TransientError or RequestRefused about `subject`, unless `code` is none."""
    if code is ErrorCode.none:
        return
    text = f"{code.name.upper()}: {message}" if message else code.name.upper()
    kind = TransientError if code in TRANSIENT else RequestRefused
    raise kind(code, f"{subject}: {text}" if subject else text)
