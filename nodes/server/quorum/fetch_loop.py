"""The fetch loop of a quorum follower or observer: one request at a time, a long poll each.

One task per leader and epoch; its owner cancels it when either changes. A fetch says that all below
its offset is on this disk, so it flushes first: a stalled disk stops the fetching, and nothing
else. The first fetch, and the first after a failure, does not wait: the leader cannot know
that the high watermark it sent was not received.

When the leader's log begins too late, its snapshot is fetched in parts, checked as a whole, and
installed in one step; what a failure leaves of it is discarded, and the next fetch begins again.
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
from nodes.server.quorum.member import RaftMember
from nodes.server.quorum.peers import Address
from nodes.server.quorum.translation import SnapshotPart
from nodes.wire.errors import ChannelError

FETCH_WAIT_MS: Final = 500.0
FETCH_MAX_BYTES: Final = 1 << 20
RETRY_MS: Final = (20.0, 100.0)
"""Pause after a fetch that failed, drawn from this range."""

log = logging.getLogger("nodes.raft")


async def follow(member: RaftMember) -> None:
    """Fetch for ever; ends with its cancellation, or when the member halts."""
    wait_ms = 0.0
    turn = member.rng.randrange(1 << 16)
    reported = False
    while member.halted is None:
        target = member.quorum.fetch_target(member.now_ms())
        if target is None and member.quorum.is_voter:
            return
        turn += 1
        address = _address(member, target, turn)
        if member.log.flushed_offset < member.log.end_offset:
            await asyncio.shield(member.flush())
        elif address is not None and await _fetch(member, target, address, wait_ms):
            wait_ms = FETCH_WAIT_MS
            if not reported and _has_moved(member):
                reported = True
                await _report_endpoints(member, address)
        else:
            wait_ms = 0.0
            await asyncio.sleep(member.rng.uniform(*RETRY_MS) / 1000)


def _has_moved(member: RaftMember) -> bool:
    """Whether this voter is recorded elsewhere than it is."""
    voter = member.quorum.voters.get(member.config.node_id)
    own = member.config.endpoints
    if voter is None or voter.key != member.quorum.me or member.quorum.voters.is_static:
        return False
    return bool(own) and voter.endpoints != own


async def _report_endpoints(member: RaftMember, leader: Address) -> None:
    """Have the leader record where this voter is now, once in its epoch (KIP-853)."""
    entity = translation.write_update_voter(
        member.quorum.me, member.quorum.epoch, member.config.endpoints, member.config.cluster_id
    )
    try:
        response = await member.peers.fetching(leader).request(entity)
        log.info("the voters' record of this node: %s", response.error_code.name)
    except ChannelError:
        pass  # the next leader is told


def _address(member: RaftMember, target: NodeId | None, turn: int) -> Address | None:
    """Where to fetch: at the leader, or, to find out who that is, at each known node in turn."""
    known = member.peers.addresses
    if target is not None and target in known:
        return known[target]
    others = [known[node] for node in sorted(known) if node != member.config.node_id]
    places = list(dict.fromkeys([*others, *member.config.bootstrap]))
    return places[turn % len(places)] if places else None


async def _fetch(
    member: RaftMember, target: NodeId | None, address: Address, wait_ms: float
) -> bool:
    """One fetch; whether to go on at once. Only an answer of the known leader brings records."""
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
        response = await member.peers.fetching(address).request(entity)
        member.hear(sender, response)
        return await _take(member, sender, address, request, response)
    except ChannelError:
        return False
    except translation.BadAnswer as error:
        log.warning("%s refuses a fetch: %s", address, error)
        return False
    except (CorruptBatch, OffsetGap, EpochRegression, SnapshotCorrupt) as error:
        log.warning("what %s sent cannot be used: %s", address, error)
        return False


def _node_at(member: RaftMember, address: Address) -> NodeId | None:
    known = member.peers.addresses
    return next((node for node in sorted(known) if known[node] == address), None)


async def _take(
    member: RaftMember,
    sender: NodeId | None,
    address: Address,
    request: FetchRequest,
    response: Any,
) -> bool:
    answer, records = translation.read_fetch_answer(response)
    named = sender if sender is not None else NodeId(-1)
    outcome, actions = member.quorum.on_fetch_answer(member.now_ms(), named, request, answer)
    member.carry_out(actions)
    match outcome:
        case FetchOutcome.APPEND:
            member.append_fetched(records, answer.high_watermark)
        case FetchOutcome.SNAPSHOT:
            assert answer.snapshot is not None
            return await _download(member, named, address, request, answer.snapshot)
    return outcome is not FetchOutcome.IGNORE


async def _download(
    member: RaftMember,
    sender: NodeId,
    address: Address,
    request: FetchRequest,
    snapshot_id: SnapshotId,
) -> bool:
    """Fetch a snapshot part by part and install it; whether that came to its end."""
    log.info("fetches snapshot %s of node %d", snapshot_id, sender)
    partial = member.log.begin_snapshot(snapshot_id)
    try:
        size = -1
        while partial.size != size:
            wanted = SnapshotPart(snapshot_id=snapshot_id, position=partial.size)
            entity = translation.write_fetch_snapshot(
                request.replica,
                request.epoch,
                wanted,
                member.config.cluster_id,
                max_bytes=FETCH_MAX_BYTES,
            )
            response = await member.peers.fetching(address).request(entity)
            member.hear(sender, response)
            answer, part = translation.read_snapshot_answer(response)
            goes_on, actions = member.quorum.on_snapshot_answer(
                member.now_ms(), sender, request.epoch, answer
            )
            member.carry_out(actions)
            if not goes_on:
                return False
            _check_part(wanted, part)
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


def _check_part(wanted: SnapshotPart, part: SnapshotPart) -> None:
    what = (part.snapshot_id, part.position)
    fits = 0 < len(part.data) <= part.size - part.position
    if what != (wanted.snapshot_id, wanted.position) or not fits:
        raise SnapshotCorrupt(
            f"{len(part.data)} bytes at {part.position} of {part.size} bytes of snapshot "
            f"{part.snapshot_id}, asked for {wanted.snapshot_id} at {wanted.position}"
        )
