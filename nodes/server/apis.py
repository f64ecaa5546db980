"""The apis that a broker serves: one line for each, with the versions that its handler knows.

A new api is a line here, and a handler in `BrokerHandlers` if no existing handler serves it.
Left to others: the apis of the controller's listener (`quorum`, `controller`), and ApiVersions (the
dispatcher answers it from this table).
"""

from dataclasses import dataclass
from typing import Final

from nodes.server.requests.coordinators import CoordinatorHandler
from nodes.server.requests.describe_configs import DescribeConfigsHandler
from nodes.server.requests.fetch.fetch import FetchHandler
from nodes.server.requests.forwarding import ForwardingHandler
from nodes.server.requests.groups.administration import GroupAdministrationHandler
from nodes.server.requests.groups.classic import ClassicGroupHandler
from nodes.server.requests.groups.consumer import ConsumerGroupHandler
from nodes.server.requests.groups.offsets import GroupOffsetsHandler
from nodes.server.requests.groups.transactional_offsets import TransactionalOffsetsHandler
from nodes.server.requests.list_offsets import OffsetsHandler
from nodes.server.requests.log_admin import LogAdminHandler
from nodes.server.requests.metadata import MetadataHandler
from nodes.server.requests.produce import ProduceHandler
from nodes.server.requests.replica_log_info import ReplicaLogInfoHandler
from nodes.server.requests.transaction_markers import TransactionMarkersHandler
from nodes.server.requests.transactions import TransactionHandler
from nodes.wire.codec import prepare
from nodes.wire.replica_log_info import GET_REPLICA_LOG_INFO
from nodes.wire.server import Api

PRODUCE = 0
FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
OFFSET_COMMIT = 8
OFFSET_FETCH = 9
FIND_COORDINATOR = 10
JOIN_GROUP = 11
HEARTBEAT = 12
LEAVE_GROUP = 13
SYNC_GROUP = 14
DESCRIBE_GROUPS = 15
LIST_GROUPS = 16
CREATE_TOPICS = 19
DELETE_TOPICS = 20
DELETE_RECORDS = 21
INIT_PRODUCER_ID = 22
OFFSET_FOR_LEADER_EPOCH = 23
ADD_PARTITIONS_TO_TXN = 24
ADD_OFFSETS_TO_TXN = 25
END_TXN = 26
WRITE_TXN_MARKERS = 27
TXN_OFFSET_COMMIT = 28
DESCRIBE_CONFIGS = 32
ALTER_CONFIGS = 33
ALTER_REPLICA_LOG_DIRS = 34
DESCRIBE_LOG_DIRS = 35
CREATE_PARTITIONS = 37
DELETE_GROUPS = 42
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
OFFSET_DELETE = 47
DESCRIBE_QUORUM = 55
UPDATE_FEATURES = 57
DESCRIBE_CLUSTER = 60
DESCRIBE_PRODUCERS = 61
UNREGISTER_BROKER = 64
DESCRIBE_TRANSACTIONS = 65
LIST_TRANSACTIONS = 66
CONSUMER_GROUP_HEARTBEAT = 68
CONSUMER_GROUP_DESCRIBE = 69
LIST_CONFIG_RESOURCES = 74
DESCRIBE_TOPIC_PARTITIONS = 75
ADD_RAFT_VOTER = 80
REMOVE_RAFT_VOTER = 81

BUSIEST: Final = {PRODUCE: range(11, 14), FETCH: range(16, 19), METADATA: range(11, 14)}
"""What producers, consumers and followers send all the time, in the newest versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHandlers:
    """The request handlers of a broker."""

    produce: ProduceHandler
    fetch: FetchHandler
    offsets: OffsetsHandler
    metadata: MetadataHandler
    coordinators: CoordinatorHandler
    group_offsets: GroupOffsetsHandler
    transactional_offsets: TransactionalOffsetsHandler
    classic_groups: ClassicGroupHandler
    consumer_groups: ConsumerGroupHandler
    groups: GroupAdministrationHandler
    transactions: TransactionHandler
    configs: DescribeConfigsHandler
    forwarding: ForwardingHandler
    log_admin: LogAdminHandler
    log_info: ReplicaLogInfoHandler
    markers: TransactionMarkersHandler


def prepare_busiest() -> None:
    """Make what reads and writes the busiest requests: 90 ms of CPU time.

    A broker that has just become a leader would otherwise spend some of it while clients wait.
    """
    for api_key, versions in BUSIEST.items():
        for version in versions:
            prepare(api_key, version)


def broker_apis(handlers: BrokerHandlers) -> dict[int, Api]:
    """The apis served to clients and other brokers, by api key."""
    offsets, metadata, forwarding = handlers.offsets, handlers.metadata, handlers.forwarding
    transactions = handlers.transactions
    groups, group_offsets = handlers.groups, handlers.group_offsets
    classic = handlers.classic_groups
    return {
        PRODUCE: Api(3, 13, handlers.produce.handle),
        FETCH: Api(4, 18, handlers.fetch.handle),
        LIST_OFFSETS: Api(1, 11, offsets.list_offsets),
        METADATA: Api(0, 13, metadata.metadata),
        OFFSET_COMMIT: Api(2, 10, group_offsets.offset_commit),
        OFFSET_FETCH: Api(1, 10, group_offsets.offset_fetch),
        FIND_COORDINATOR: Api(0, 6, handlers.coordinators.find_coordinator),
        JOIN_GROUP: Api(0, 9, classic.join),
        HEARTBEAT: Api(0, 4, classic.heartbeat),
        LEAVE_GROUP: Api(0, 5, classic.leave),
        SYNC_GROUP: Api(0, 5, classic.sync),
        DESCRIBE_GROUPS: Api(0, 6, classic.describe),
        LIST_GROUPS: Api(0, 5, groups.list_groups),
        CREATE_TOPICS: Api(2, 7, forwarding.forward),
        DELETE_TOPICS: Api(1, 6, forwarding.forward),
        DELETE_RECORDS: Api(0, 2, handlers.log_admin.delete_records),
        INIT_PRODUCER_ID: Api(0, 5, transactions.init_producer_id),
        OFFSET_FOR_LEADER_EPOCH: Api(2, 4, offsets.offset_for_leader_epoch),
        ADD_PARTITIONS_TO_TXN: Api(0, 5, transactions.add_partitions),
        ADD_OFFSETS_TO_TXN: Api(0, 4, transactions.add_offsets),
        END_TXN: Api(0, 5, transactions.end),
        WRITE_TXN_MARKERS: Api(1, 2, handlers.markers.handle),
        TXN_OFFSET_COMMIT: Api(0, 5, handlers.transactional_offsets.commit),
        DESCRIBE_CONFIGS: Api(1, 4, handlers.configs.handle),
        ALTER_CONFIGS: Api(0, 2, forwarding.forward),
        ALTER_REPLICA_LOG_DIRS: Api(1, 2, handlers.log_admin.alter_replica_log_dirs),
        DESCRIBE_LOG_DIRS: Api(1, 4, handlers.log_admin.describe_log_dirs),
        CREATE_PARTITIONS: Api(0, 3, forwarding.forward),
        DELETE_GROUPS: Api(0, 2, groups.delete_groups),
        ELECT_LEADERS: Api(0, 2, forwarding.forward),
        INCREMENTAL_ALTER_CONFIGS: Api(0, 1, forwarding.forward),
        ALTER_PARTITION_REASSIGNMENTS: Api(0, 1, forwarding.forward),
        LIST_PARTITION_REASSIGNMENTS: Api(0, 0, forwarding.forward),
        OFFSET_DELETE: Api(0, 0, group_offsets.offset_delete),
        DESCRIBE_QUORUM: Api(0, 2, forwarding.forward),
        UPDATE_FEATURES: Api(0, 2, forwarding.forward),
        DESCRIBE_CLUSTER: Api(0, 2, metadata.describe_cluster),
        DESCRIBE_PRODUCERS: Api(0, 0, handlers.log_admin.describe_producers),
        UNREGISTER_BROKER: Api(0, 0, forwarding.forward),
        DESCRIBE_TRANSACTIONS: Api(0, 0, transactions.describe_transactions),
        LIST_TRANSACTIONS: Api(0, 2, transactions.list_transactions),
        CONSUMER_GROUP_HEARTBEAT: Api(0, 1, handlers.consumer_groups.heartbeat),
        CONSUMER_GROUP_DESCRIBE: Api(0, 1, handlers.consumer_groups.describe),
        LIST_CONFIG_RESOURCES: Api(0, 1, handlers.configs.list_resources),
        DESCRIBE_TOPIC_PARTITIONS: Api(0, 0, metadata.describe_topic_partitions),
        ADD_RAFT_VOTER: Api(0, 1, forwarding.forward),
        REMOVE_RAFT_VOTER: Api(0, 0, forwarding.forward),
        GET_REPLICA_LOG_INFO: Api(0, 0, handlers.log_info.handle),
    }
