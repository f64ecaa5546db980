"""No broker calls a valid request wrong.

The clients of a simulated run send what the protocol allows: batches that are well-formed and
within `max.message.bytes`, requests in versions that the broker named. No fault changes their bytes
on the way. So an answer that calls such a request wrong is false, whatever else is broken. Whether
the request was carried out does not matter: a send that is refused surely did not happen, and so no
checker minds it.

Codes that say what the cluster, a group or a transaction is like at the moment are not judged here.
What a code means is from Kafka's list of errors (https://kafka.apache.org/protocol#protocol_error_codes).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from checkers.history.recorded_faults import DISK_FAULTS, POWER_LOSSES, seconds
from harness.simulation.invariants.broken import InvariantBroken
from harness.workloads.clients.own.answer_codes import failures

NAME = "valid-requests-are-accepted"

_FORM: Final = "the request's form or content is wrong"
_SIZE: Final = "something is too large"
_VERSION: Final = "the broker does not know what it said it knows"
_ACCESS: Final = "the client may not do this, though no access is restricted"
_CONTENT: Final = "a checksum or a size in the data is wrong"
_UNEXPECTED: Final = "the broker met an error that it did not expect"

NEVER: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.invalid_record: _FORM,
    ErrorCode.invalid_request: _FORM,
    ErrorCode.invalid_timestamp: _FORM,
    ErrorCode.invalid_required_acks: _FORM,
    ErrorCode.invalid_topic_exception: _FORM,
    ErrorCode.invalid_group_id: _FORM,
    ErrorCode.invalid_session_timeout: _FORM,
    ErrorCode.invalid_transaction_timeout: _FORM,
    ErrorCode.invalid_fetch_size: _FORM,
    ErrorCode.policy_violation: _FORM,
    ErrorCode.message_too_large: _SIZE,
    ErrorCode.record_list_too_large: _SIZE,
    ErrorCode.offset_metadata_too_large: _SIZE,
    ErrorCode.invalid_commit_offset_size: _SIZE,
    ErrorCode.unsupported_version: _VERSION,
    ErrorCode.unsupported_compression_type: _VERSION,
    ErrorCode.unsupported_for_message_format: _VERSION,
    ErrorCode.topic_authorization_failed: _ACCESS,
    ErrorCode.group_authorization_failed: _ACCESS,
    ErrorCode.cluster_authorization_failed: _ACCESS,
    ErrorCode.transactional_id_authorization_failed: _ACCESS,
}
"""Codes that no valid request gets, and what they say of it."""
UNLESS_DISKS_FAIL: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.corrupt_message: _CONTENT,
    ErrorCode.unknown_server_error: _UNEXPECTED,
}
"""Codes that a valid request gets only from a broker whose disk failed or was damaged: damaged
records are not served, and a real broker answers an error of its disk in this way, too."""
DISKS_FAIL: Final = frozenset(
    {*DISK_FAULTS, *POWER_LOSSES, "disk.error", "disk.full", "disk.read-only", "failed-fsync"}
)
KEPT: Final = 100
"""How many refusals are kept: some may be excused, and more say nothing new."""


class Refusal(NamedTuple):
    """An answer that calls a request wrong."""

    at_ns: int
    broker: str
    api: str
    code: ErrorCode


class Refusals:
    """The refusals of one run. `now_ns` is its time."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._found: list[Refusal] = []

    def answered(self, broker: str, api: str, answer: Any) -> None:
        """Take note of an answer to a valid request."""
        for code in failures(answer):
            if (code in NEVER or code in UNLESS_DISKS_FAIL) and len(self._found) < KEPT:
                self._found.append(Refusal(self._now_ns(), broker, api, code))

    def check(self, faults: Iterable[Mapping[str, Any]]) -> None:
        """Judge the answers. `faults`: rows of the run's faults. Raises InvariantBroken."""
        failing = (row["started_ns"] for row in faults if row["fault"] in DISKS_FAIL)
        failed_ns = min((at for at in failing if at is not None), default=None)
        for each in self._found:
            if each.code in NEVER or failed_ns is None or each.at_ns < failed_ns:
                why = NEVER.get(each.code) or UNLESS_DISKS_FAIL[each.code]
                raise InvariantBroken(
                    NAME,
                    f"{each.broker} answered a valid {each.api} request with "
                    f"{each.code.name.upper()} at {seconds(each.at_ns)}: it says that {why}",
                )
