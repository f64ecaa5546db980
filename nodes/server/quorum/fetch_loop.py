"""The fetch loop of a quorum follower or observer: one request at a time, which may wait.

There is one task per leader and epoch; its owner cancels it when either changes. A fetch means that
everything below its offset is on this node's disk, so the loop flushes first: a stalled disk stops
the fetching and nothing else. The first fetch, and the first one after a failure, does not wait at
the leader: the leader cannot know that the high watermark it sent was not received.

If the leader's log starts above this node's end, the loop fetches the leader's snapshot in parts,
checks it as a whole and installs it in one step. After a failure the parts are discarded, and the
next fetch starts again.
"""

import asyncio
import logging
from typing import Any, Final

from nodes.ids import NodeId
from nodes.log.errors import CorruptBatch, EpochRegression, OffsetGap
from nodes.raft.errors import SnapshotCorrupt
from nodes.raft.messages import FetchOutcome, FetchRequest
from nodes.raft.positions import SnapshotId
from nodes.server.quorum import translation
from nodes.server.quorum.member import QuorumMember
from nodes.server.quorum.peers import Address
from nodes.server.quorum.translation import SnapshotPart
from nodes.wire.errors import ChannelError

FETCH_WAIT_MS: Final = 500.0
FETCH_MAX_BYTES: Final = 1 << 20
RETRY_MS: Final = (20.0, 100.0)
"""The range from which the pause after a failed fetch is drawn."""

log = logging.getLogger("nodes.raft")


async def fetch_from_leader(member: QuorumMember) -> None:
    """Fetch until the task is cancelled or the member halts."""
    wait_ms = 0.0
    attempt = member.rng.randrange(1 << 16)
    reported = False
    while member.halted is None:
        target = member.quorum.fetch_target(member.now_ms())
        if target is None and member.quorum.is_voter:
            return
        attempt += 1
        address = _address(member, target, attempt)
        if member.log.flushed_offset < member.log.end_offset:
            await asyncio.shield(member.flush())
        elif address is not None and await _fetch(member, target, address, wait_ms):
            wait_ms = FETCH_WAIT_MS
            if not reported and _endpoints_changed(member):
                reported = True
                await _report_endpoints(member, address)
        else:
            wait_ms = 0.0
            await asyncio.sleep(member.rng.uniform(*RETRY_MS) / 1000)


def _endpoints_changed(member: QuorumMember) -> bool:
    """Whether the recorded endpoints of this voter differ from its own."""
    voter = member.quorum.voters.get(member.config.node_id)
    own = member.config.endpoints
    if voter is None or voter.key != member.quorum.me or member.quorum.voters.is_static:
        return False
    return bool(own) and voter.endpoints != own


async def _report_endpoints(member: QuorumMember, leader: Address) -> None:
    """Ask the leader to record this voter's endpoints, once in its epoch (KIP-853)."""
    entity = translation.write_update_voter(
        member.quorum.me, member.quorum.epoch, member.config.endpoints, member.config.cluster_id
    )
    try:
        response = await member.peers.fetch_channel(leader).request(entity)
        log.info("the voters' record of this node: %s", response.error_code.name)
    except ChannelError:
        pass  # the next leader is asked


def _address(member: QuorumMember, target: NodeId | None, attempt: int) -> Address | None:
    """The address to fetch from: the leader's or, to find the leader, each known node's in turn."""
    known = member.peers.addresses
    if target is not None and target in known:
        return known[target]
    others = [known[node] for node in sorted(known) if node != member.config.node_id]
    addresses = list(dict.fromkeys([*others, *member.config.bootstrap]))
    return addresses[attempt % len(addresses)] if addresses else None


async def _fetch(
    member: QuorumMember, target: NodeId | None, address: Address, wait_ms: float
) -> bool:
    """Fetch once; return whether to continue at once. Only the known leader's response counts."""
    sender = target if target is not None else _node_at(member, address)
    request = member.quorum.fetch_request()
    entity = translation.write_fetch(
        request,
        member.config.cluster_id,
        start=member.log.start_offset,
        wait_ms=wait_ms,
        max_bytes=FETCH_MAX_BYTES,
    )
    try:
        response = await member.peers.fetch_channel(address).request(entity)
        member.handle_contact(sender, response)
        return await _handle_response(member, sender, address, request, response)
    except ChannelError:
        return False
    except translation.InvalidResponse as error:
        log.warning("%s refused a fetch: %s", address, error)
        return False
    except (CorruptBatch, OffsetGap, EpochRegression, SnapshotCorrupt) as error:
        log.warning("the response of %s cannot be used: %s", address, error)
        return False


def _node_at(member: QuorumMember, address: Address) -> NodeId | None:
    known = member.peers.addresses
    return next((node for node in sorted(known) if known[node] == address), None)


async def _handle_response(
    member: QuorumMember,
    sender: NodeId | None,
    address: Address,
    request: FetchRequest,
    response: Any,
) -> bool:
    answer, records = translation.read_fetch_answer(response)
    named = sender if sender is not None else NodeId(-1)
    outcome, actions = member.quorum.on_fetch_response(member.now_ms(), named, request, answer)
    member.carry_out(actions)
    match outcome:
        case FetchOutcome.APPEND:
            member.append_fetched(records, answer.high_watermark)
        case FetchOutcome.SNAPSHOT:
            assert answer.snapshot is not None
            return await _fetch_snapshot(member, named, address, request, answer.snapshot)
    return outcome is not FetchOutcome.IGNORE


async def _fetch_snapshot(
    member: QuorumMember,
    sender: NodeId,
    address: Address,
    request: FetchRequest,
    snapshot_id: SnapshotId,
) -> bool:
    """Fetch a snapshot part by part and install it; return whether it was installed."""
    log.info("fetches snapshot %s from node %d", snapshot_id, sender)
    partial = member.log.begin_snapshot(snapshot_id)
    try:
        size = -1
        while partial.size != size:
            requested = SnapshotPart(snapshot_id=snapshot_id, position=partial.size)
            entity = translation.write_fetch_snapshot(
                request.replica,
                request.epoch,
                requested,
                member.config.cluster_id,
                max_bytes=FETCH_MAX_BYTES,
            )
            response = await member.peers.fetch_channel(address).request(entity)
            member.handle_contact(sender, response)
            answer, part = translation.read_snapshot_answer(response)
            goes_on, actions = member.quorum.on_snapshot_response(
                member.now_ms(), sender, request.epoch, answer
            )
            member.carry_out(actions)
            if not goes_on:
                return False
            _check_part(requested, part)
            partial.append(part.data)
            size = part.size
        content = partial.content()
        await partial.complete()
    finally:
        partial.discard()
    quorum = member.quorum
    if (quorum.fetch_target(member.now_ms()), quorum.epoch) != (sender, request.epoch):
        return False
    member.install(content)
    return True


def _check_part(requested: SnapshotPart, part: SnapshotPart) -> None:
    received = (part.snapshot_id, part.position)
    fits = 0 < len(part.data) <= part.size - part.position
    if received != (requested.snapshot_id, requested.position) or not fits:
        raise SnapshotCorrupt(
            f"{len(part.data)} bytes at {part.position} of {part.size} bytes of snapshot "
            f"{part.snapshot_id}, requested {requested.snapshot_id} at {requested.position}"
        )
