"""Opens the metadata log of a node and creates its quorum node, as configured."""

import random
from collections.abc import Callable
from uuid import UUID

from nodes.config import NodeConfig
from nodes.log.log import LogConfig
from nodes.raft.timing import QuorumTiming
from nodes.raft.voters import VoterEndpoint
from nodes.server.quorum.metadata_log import MetadataLog
from nodes.server.quorum.metadata_publisher import MetadataPublisher
from nodes.server.quorum.peers import PeerChannel
from nodes.server.quorum.quorum_node import DIRECTORY, MemberConfig, QuorumNode, configured_voters
from nodes.server.quorum.snapshot_writer import SnapshotLimits
from nodes.storage.disk import Disk

METADATA_BATCH_BYTES = 8 << 20


def open_quorum(
    config: NodeConfig,
    disk: Disk,
    publisher: MetadataPublisher,
    *,
    directory_id: UUID,
    clean: bool,
    rng: random.Random,
    wall_clock: Callable[[], int],
    connect: Callable[[str, int], PeerChannel],
) -> QuorumNode:
    """Return the quorum node; `publisher` is its first listener and the source of its snapshots.

    Blocks. Raises LogCorrupt, RaftError, OSError.
    """
    member = MemberConfig(
        node_id=config.node_id,
        directory_id=directory_id,
        cluster_id=config.cluster_id,
        voters=config.voters,
        bootstrap=config.quorum.bootstrap_servers,
        listener=config.controller_listener,
        endpoints=_endpoints(config),
        timing=QuorumTiming(
            fetch_timeout_ms=config.quorum.fetch_timeout_ms,
            election_timeout_ms=config.quorum.election_timeout_ms,
            election_backoff_max_ms=config.quorum.election_backoff_max_ms,
        ),
    )
    log, snapshot = MetadataLog.open(
        disk,
        DIRECTORY,
        LogConfig(
            segment_bytes=config.quorum.segment_bytes,
            index_interval_bytes=config.index_interval_bytes,
            max_message_bytes=METADATA_BATCH_BYTES,
        ),
        clean=clean,
        voters=configured_voters(member),
    )
    raft = QuorumNode(
        member,
        log=log,
        snapshot=snapshot,
        disk=disk,
        rng=rng,
        wall_clock=wall_clock,
        connect=connect,
    )
    raft.listeners.append(publisher)
    limits = SnapshotLimits(
        record_bytes=config.quorum.snapshot_record_bytes,
        interval_ms=config.quorum.snapshot_interval_ms,
    )
    raft.snapshot_from(publisher, limits)
    return raft


def _endpoints(config: NodeConfig) -> tuple[VoterEndpoint, ...]:
    """Where the others reach this controller; empty for a node that is only a broker.

    The sources, in order: the configured voters, the advertised listeners, the listeners (which may
    be every address of the machine).
    """
    name = config.controller_listener
    if config.node_id in config.voters:
        return (VoterEndpoint(name, *config.voters[config.node_id]),)
    endpoints = {e.listener: e for e in (*config.listeners, *config.advertised)}
    if not config.is_controller or name not in endpoints:
        return ()
    return (VoterEndpoint(name, endpoints[name].host, endpoints[name].port),)
