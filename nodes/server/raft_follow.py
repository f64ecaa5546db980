"""The fetch loop of a quorum follower or observer: one request at a time, a long poll each.

One task per leader and epoch; its owner cancels it when either changes. A voter's fetch says that
everything below its offset is on its disk, so it flushes first: a stalled disk stops its fetching,
and nothing else. The first fetch, and the first after a failure, does not wait: the leader cannot
know that the high watermark it sent was not received.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from nodes.ids import NodeId
from nodes.log.errors import CorruptBatch, EpochRegression, OffsetGap
from nodes.raft.messages import FetchRequest
from nodes.server import raft_wire
from nodes.wire.errors import ChannelError

if TYPE_CHECKING:
    from nodes.server.raft_io import RaftNode

FETCH_WAIT_MS: Final = 500.0
FETCH_MAX_BYTES: Final = 1 << 20
RETRY_MS: Final = (20.0, 100.0)
"""Pause after a fetch that failed, drawn from this range."""

log = logging.getLogger("nodes.raft")


async def follow(node: "RaftNode") -> None:
    """Fetch for ever; ends with its cancellation, or when the node halts."""
    wait_ms = 0.0
    turn = node.rng.randrange(len(node.voters))
    while node.halted is None:
        target = node.quorum.fetch_target(node.now_ms())
        if target is None:
            if node.quorum.is_voter:
                return
            turn += 1
            target = sorted(node.voters)[turn % len(node.voters)]
        if node.quorum.is_voter and node.log.flushed_offset < node.log.end_offset:
            await asyncio.shield(node.flush())
            continue
        if await _fetch(node, target, wait_ms):
            wait_ms = FETCH_WAIT_MS
        else:
            wait_ms = 0.0
            await asyncio.sleep(node.rng.uniform(*RETRY_MS) / 1000)


async def _fetch(node: "RaftNode", target: NodeId, wait_ms: float) -> bool:
    """One fetch; whether to go on at once."""
    request = node.quorum.fetch_request()
    entity = raft_wire.write_fetch(
        request, node.cluster_id, wait_ms=wait_ms, max_bytes=FETCH_MAX_BYTES
    )
    try:
        response = await node.fetch_peers[target].request(entity)
        node.heard_from(target)
        return _take(node, target, request, response)
    except ChannelError:
        return False
    except raft_wire.BadAnswer as error:
        log.warning("voter %d refuses a fetch: %s", target, error)
        return False
    except (CorruptBatch, OffsetGap, EpochRegression) as error:
        log.warning("the records that %d sent cannot be appended: %s", target, error)
        return False


def _take(node: "RaftNode", target: NodeId, request: FetchRequest, response: object) -> bool:
    answer, records = raft_wire.read_fetch_answer(response)
    take, actions = node.quorum.on_fetch_answer(node.now_ms(), target, request, answer)
    node.carry_out(actions)
    if take:
        if records:
            node.append_fetched(records)
        node.carry_out(node.quorum.appended_as_follower(answer.high_watermark))
    return take or (answer.error is ErrorCode.none and answer.diverging is not None)
