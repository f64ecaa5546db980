"""The quorum-state file."""

import json
from uuid import UUID

import pytest

from nodes.ids import Epoch, NodeId
from nodes.raft.election_state import ElectionState, decode, encode
from nodes.raft.errors import QuorumStateCorrupt
from nodes.raft.voters import Voter, VoterSet

VOTERS = VoterSet.static([NodeId(3), NodeId(1), NodeId(2)])


@pytest.mark.parametrize("leader", [None, 0, 2])
@pytest.mark.parametrize("voted", [None, 0, 3])
def test_round_trip(leader: int | None, voted: int | None) -> None:
    """What is written is read; node 0 is not nobody."""
    state = ElectionState(
        epoch=Epoch(7),
        voted_for=None if voted is None else NodeId(voted),
        leader_id=None if leader is None else NodeId(leader),
    )
    assert decode(encode(state, VOTERS)) == state


def test_a_vote_for_a_directory_of_node_0_is_kept() -> None:
    """Node 0 is a node like any other, also where votes name directories."""
    voters = VoterSet(
        tuple(Voter(node_id=NodeId(n), directory_id=UUID(int=n + 1)) for n in range(3))
    )
    state = ElectionState(
        epoch=Epoch(7), voted_for=NodeId(0), voted_directory_id=UUID(int=1), leader_id=None
    )
    assert decode(encode(state, voters)) == state


def test_the_file_has_kafkas_format() -> None:
    """The fields are those of Kafka's QuorumStateData, version 0."""
    state = ElectionState(epoch=Epoch(7), leader_id=NodeId(2))
    assert json.loads(encode(state, VOTERS)) == {
        "clusterId": "",
        "leaderId": 2,
        "leaderEpoch": 7,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}],
        "data_version": 0,
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"data_version":0}',
        b'{"data_version":0,"leaderEpoch":1,"leaderId":1,"~otedId":2}',
        b'{"data_version":9,"leaderEpoch":1,"leaderId":1,"votedId":2}',
        b'{"data_version":0,"leaderEpoch":-1,"leaderId":1,"votedId":2}',
        b'{"data_version":0,"leaderEpoch":"x","leaderId":1}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_is_refused(data: bytes) -> None:
    """A forgotten vote is worse than a node that does not start."""
    with pytest.raises(QuorumStateCorrupt):
        decode(data)
