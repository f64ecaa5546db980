"""The persistent part of a node's quorum state, in Kafka's `quorum-state` file format.

A vote counts only when it is on disk: the caller writes this file (fsync, atomic rename) before any
request or response that depends on it. Version 0 is for configured voters (the file lists them for
Kafka's tools only). Version 1 is for voters recorded in the log; they also have a directory id
(KIP-853).
"""

import base64
import json
from dataclasses import dataclass
from uuid import UUID

from nodes.ids import NO_NODE, Epoch, NodeId
from nodes.raft.errors import QuorumStateCorrupt
from nodes.raft.voters import VoterSet

FILE_NAME = "quorum-state"
FIRST_EPOCH = Epoch(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """The latest epoch that this node knows, its vote in it, and its leader."""

    epoch: Epoch = FIRST_EPOCH
    voted_for: NodeId | None = None
    voted_directory_id: UUID | None = None
    leader_id: NodeId | None = None


def directory_text(directory_id: UUID | None) -> str:
    """A directory id as Kafka writes it: URL-safe base64 of its 16 bytes, unpadded."""
    raw = (directory_id or UUID(int=0)).bytes
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def directory_of(text: str) -> UUID | None:
    """Parse a directory id in Kafka's form; None for the zero id. Raises ValueError."""
    directory_id = UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    return directory_id if directory_id.int else None


def encode(state: ElectionState, voters: VoterSet) -> bytes:
    """The file's bytes."""
    voted = NO_NODE if state.voted_for is None else state.voted_for
    document: dict[str, object] = {
        "leaderId": NO_NODE if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": voted,
    }
    if voters.is_static:
        document = {"clusterId": ""} | document  # empty, as in Kafka: meta.properties has it
        document["appliedOffset"] = 0
        document["currentVoters"] = [{"voterId": voter} for voter in voters.ids]
        document["data_version"] = 0
    else:
        document["votedDirectoryId"] = directory_text(state.voted_directory_id)
        document["data_version"] = 1
    return json.dumps(document, separators=(",", ":")).encode()


def decode(data: bytes) -> ElectionState:
    """The state in a file's bytes. Raises QuorumStateCorrupt."""
    try:
        document = json.loads(data)
        version = document["data_version"]
        epoch, leader = int(document["leaderEpoch"]), int(document["leaderId"])
        voted = int(document["votedId"])
        directory = directory_of(document["votedDirectoryId"]) if version == 1 else None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise QuorumStateCorrupt(f"{FILE_NAME} cannot be read: {error!r}") from error
    if version not in (0, 1) or epoch < 0:
        raise QuorumStateCorrupt(f"{FILE_NAME} has version {version} and epoch {epoch}")
    return ElectionState(
        epoch=Epoch(epoch),
        voted_for=None if voted < 0 else NodeId(voted),
        voted_directory_id=directory if voted >= 0 else None,
        leader_id=None if leader < 0 else NodeId(leader),
    )
