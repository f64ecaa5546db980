"""The part of a node's quorum state that must outlive it, in Kafka's `quorum-state` file format.

A vote counts once it is on disk: the caller writes this file (fsync, atomic rename) before any
answer or request that rests on it. The voters stand in it for Kafka's tools; the configuration is
what decides.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from nodes.ids import NO_NODE, Epoch, NodeId
from nodes.raft.errors import QuorumStateCorrupt

FILE_NAME = "quorum-state"
FIRST_EPOCH = Epoch(0)
DATA_VERSION = 0  # the version that Kafka writes for static voters (kraft.version 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """What this node knows of the latest epoch it has heard of."""

    epoch: Epoch = FIRST_EPOCH
    voted_for: NodeId | None = None
    leader_id: NodeId | None = None


def encode(state: ElectionState, voters: Iterable[NodeId]) -> bytes:
    """The file's bytes."""
    document = {
        "clusterId": "",  # Kafka leaves it empty as well: meta.properties holds it
        "leaderId": NO_NODE if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": NO_NODE if state.voted_for is None else state.voted_for,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in sorted(voters)],
        "data_version": DATA_VERSION,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode(data: bytes) -> ElectionState:
    """The state in a file's bytes. Raises QuorumStateCorrupt."""
    try:
        document = json.loads(data)
        version = document["data_version"]
        epoch, leader = int(document["leaderEpoch"]), int(document["leaderId"])
        voted = int(document.get("votedId", NO_NODE))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise QuorumStateCorrupt(f"{FILE_NAME} cannot be read: {error!r}") from error
    if version not in (0, 1) or epoch < 0:
        raise QuorumStateCorrupt(f"{FILE_NAME} has version {version} and epoch {epoch}")
    return ElectionState(
        epoch=Epoch(epoch),
        voted_for=None if voted < 0 else NodeId(voted),
        leader_id=None if leader < 0 else NodeId(leader),
    )
