"""Changes of the voter set: when a leader may begin a change, and which (KIP-853). Pure.

There is one change at a time, and none before the leader has committed a record of its own epoch:
by then the change of an earlier leader is decided. A voter is added only when it has caught up, so
that the majority does not depend on a member that is still copying the log.
"""

from kio.schema.errors import ErrorCode

from nodes.ids import Offset
from nodes.raft.leadership import Leadership
from nodes.raft.messages import LogView
from nodes.raft.voters import ReplicaKey, Voter, VoterSet

CAUGHT_UP_WITHIN_MS = 3_600_000.0
"""As in Kafka: a replica that was caught up within the last hour may become a voter."""

MAX_ENDPOINTS = 16
MAX_NAME_LENGTH = 255
"""The limit for a host name in DNS; also used for listener names."""


class VoterChangeRefused(Exception):
    """The change is not possible (now); `code` is for the client, the text for people."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def begin_change(log: LogView, leadership: Leadership | None, high_watermark: Offset) -> VoterSet:
    """The voter set to change. Raises VoterChangeRefused."""
    if leadership is None:
        raise VoterChangeRefused(
            ErrorCode.not_leader_or_follower, "this node does not lead the quorum"
        )
    if high_watermark <= leadership.start_offset:
        raise VoterChangeRefused(
            ErrorCode.request_timed_out, "the leader has committed nothing yet"
        )
    if log.voters.is_static:
        raise VoterChangeRefused(
            ErrorCode.unsupported_version,
            "the voters' directory ids are not recorded yet: every configured voter must have "
            "fetched from the leader once",
        )
    if log.voters_offset >= high_watermark:
        raise VoterChangeRefused(
            ErrorCode.request_timed_out, "an earlier change of the voters is not done"
        )
    return log.voters


def with_voter(voters: VoterSet, voter: Voter, leadership: Leadership, now_ms: float) -> VoterSet:
    """The set with a new voter. Raises VoterChangeRefused."""
    if voters.get(voter.node_id) is not None:
        raise VoterChangeRefused(ErrorCode.duplicate_voter, f"{voter.node_id} is a voter already")
    _check_form(voter)
    progress = leadership.observers.get(voter.key)
    caught_up_ms = None if progress is None else progress.caught_up_ms
    if caught_up_ms is None or now_ms - caught_up_ms > CAUGHT_UP_WITHIN_MS:
        raise VoterChangeRefused(
            ErrorCode.request_timed_out,
            f"replica {voter.node_id} on that directory has not caught up with the log",
        )
    return voters.with_voter(voter)


def without_voter(voters: VoterSet, key: ReplicaKey) -> VoterSet:
    """The set without one voter. Raises VoterChangeRefused."""
    if key.directory_id is None or not voters.has(key):
        raise VoterChangeRefused(
            ErrorCode.voter_not_found, f"no voter {key.node_id} with directory {key.directory_id}"
        )
    if len(voters.voters) == 1:
        raise VoterChangeRefused(ErrorCode.invalid_request, "the last voter cannot be removed")
    return voters.without(key.node_id)


def with_update(voters: VoterSet, voter: Voter) -> VoterSet:
    """The set with one voter's new endpoints. Raises VoterChangeRefused."""
    if voter.directory_id is None or not voters.has(voter.key):
        raise VoterChangeRefused(
            ErrorCode.voter_not_found, f"{voter.node_id} is no voter on that directory"
        )
    _check_form(voter)
    return voters.with_voter(voter)


def _check_form(voter: Voter) -> None:
    """Refuse an invalid voter, and one that is too large for a voters record."""
    if voter.node_id < 0 or voter.directory_id is None or not voter.endpoints:
        raise VoterChangeRefused(
            ErrorCode.invalid_request, "a voter needs an id, a directory id and an endpoint"
        )
    texts = [text for endpoint in voter.endpoints for text in (endpoint.listener, endpoint.host)]
    if len(voter.endpoints) > MAX_ENDPOINTS or max(map(len, texts)) > MAX_NAME_LENGTH:
        raise VoterChangeRefused(
            ErrorCode.invalid_request,
            f"a voter has at most {MAX_ENDPOINTS} endpoints, whose names and hosts have at most "
            f"{MAX_NAME_LENGTH} characters",
        )


def first_recorded(voters: VoterSet, leadership: Leadership) -> VoterSet | None:
    """The configured voters with the directories from which they fetched; None until all did.

    From then on the log records the voters, and a voter with a new disk is a different replica.
    """
    known = []
    for voter in voters.voters:
        directory = leadership.directory_of(voter.node_id)
        if directory is None:
            return None
        known.append(
            Voter(node_id=voter.node_id, directory_id=directory, endpoints=voter.endpoints)
        )
    return VoterSet.of(known)
