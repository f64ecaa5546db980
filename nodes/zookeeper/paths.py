"""The paths of Kafka's znodes."""

from typing import Final

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
ISR_CHANGES: Final = "/isr_change_notification"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
CONFIG: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
PRODUCER_IDS: Final = "/latest_producer_id_block"

CONFIG_TYPES: Final = {2: "topics", 4: "brokers", 32: "groups"}
"""The folder of each type of resource. Kafka has no groups there, which have no configuration
before KRaft."""
ALL_BROKERS: Final = "<default>"
"""The name of the configuration of all brokers."""

PERSISTENT: Final = (
    BROKER_IDS,
    TOPICS,
    ISR_CHANGES,
    DELETE_TOPICS,
    *(f"{CONFIG}/{folder}" for folder in CONFIG_TYPES.values()),
    CONFIG_CHANGES,
    "/cluster",
)
"""What every broker makes at its start unless it is there."""


def broker(node: int) -> str:
    """The registration of a broker, which ends with its session."""
    return f"{BROKER_IDS}/{node}"


def topic(name: str) -> str:
    """The assignment of a topic."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """The folder of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, number: int) -> str:
    """The folder of one partition."""
    return f"{TOPICS}/{name}/partitions/{number}"


def state(name: str, number: int) -> str:
    """The leader, the leader epoch and the ISR of one partition."""
    return f"{TOPICS}/{name}/partitions/{number}/state"


def deletion(name: str) -> str:
    """The mark that a topic is to be deleted."""
    return f"{DELETE_TOPICS}/{name}"


def config(resource_type: int, name: str) -> str:
    """The configuration of a resource; the empty name is that of all brokers."""
    return f"{CONFIG}/{CONFIG_TYPES[resource_type]}/{name or ALL_BROKERS}"
