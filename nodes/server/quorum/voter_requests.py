"""Handlers of the requests that change the voters: Add-, Remove- and UpdateRaftVoter (KIP-853)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.ids import NO_NODE, NodeId
from nodes.raft.errors import NotLeader
from nodes.raft.membership import VoterChangeRefused
from nodes.raft.messages import Action
from nodes.raft.voters import ReplicaKey, Voter, VoterEndpoint
from nodes.server.quorum.member import QuorumMember
from nodes.wire.server import Api, RequestContext
from nodes.wire.versions import respond

MAX_WAIT_S: Final = 30.0

Begin = Callable[[float], list[Action]]


class VoterRequestHandler:
    """The handlers of one member; `change` starts a change and waits for its commit."""

    def __init__(self, member: QuorumMember, change: Callable[[Begin], Awaitable[None]]) -> None:
        self._member = member
        self._change = change

    def apis(self) -> dict[int, Api]:
        """The requests served, by api key."""
        return {
            80: Api(0, 1, self.add_raft_voter),
            81: Api(0, 0, self.remove_raft_voter),
            82: Api(0, 0, self.update_raft_voter),
        }

    async def add_raft_voter(self, request: Any, context: RequestContext) -> Any:
        """AddRaftVoter: responds once the new set is committed.

        A request of version 1 may ask for a response without waiting for the commit.
        """
        voter = _voter(request)
        wait_s = min(request.timeout.total_seconds(), MAX_WAIT_S)
        code, message = await self._run(
            request, lambda now: self._member.quorum.add_voter(now, voter), wait_s
        )
        return respond(request, error_code=code, error_message=message)

    async def remove_raft_voter(self, request: Any, context: RequestContext) -> Any:
        """RemoveRaftVoter: responds once the new set is committed."""
        key = ReplicaKey(NodeId(request.voter_id), request.voter_directory_id)
        code, message = await self._run(
            request, lambda now: self._member.quorum.remove_voter(key), MAX_WAIT_S
        )
        return respond(request, error_code=code, error_message=message)

    async def update_raft_voter(self, request: Any, context: RequestContext) -> Any:
        """UpdateRaftVoter: records a voter's new endpoints."""
        quorum, voter = self._member.quorum, _voter(request)
        if request.current_leader_epoch > quorum.epoch:
            code: ErrorCode = ErrorCode.unknown_leader_epoch
        elif 0 <= request.current_leader_epoch < quorum.epoch:
            code = ErrorCode.fenced_leader_epoch
        else:
            code, _ = await self._run(
                request, lambda now: self._member.quorum.update_voter(voter), MAX_WAIT_S
            )
        leader = NO_NODE if quorum.leader_id is None else quorum.leader_id
        host, port = self._member.peers.addresses.get(leader, ("", 0))
        current = {
            "leader_id": leader,
            "leader_epoch": quorum.epoch,
            "host": host,
            "port": port,
        }
        return respond(request, error_code=code, current_leader=current)

    async def _run(self, request: Any, begin: Begin, wait_s: float) -> tuple[ErrorCode, str | None]:
        if request.cluster_id not in (None, self._member.config.cluster_id):
            return ErrorCode.inconsistent_cluster_id, None
        if not getattr(request, "ack_when_committed", True):
            wait_s = 0.0
        try:
            async with asyncio.timeout(wait_s):
                await self._change(begin)
        except VoterChangeRefused as refusal:
            return refusal.code, str(refusal)
        except NotLeader as error:
            return ErrorCode.not_leader_or_follower, str(error)
        except TimeoutError:
            if wait_s > 0:
                return ErrorCode.request_timed_out, "not committed in time, but it may be later"
        return ErrorCode.none, None


def _voter(request: Any) -> Voter:
    return Voter(
        node_id=NodeId(request.voter_id),
        directory_id=request.voter_directory_id,
        endpoints=tuple(VoterEndpoint(e.name, e.host, e.port) for e in request.listeners),
    )
