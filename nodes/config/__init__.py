"""A node's configuration: Kafka's property names, parsed and validated once.

`server.properties` has Kafka's format. As in Kafka, an unknown key causes a warning, not an error,
so that a Kafka file can be used unchanged. An invalid value raises a ConfigError that names the key
and the accepted values.
"""

from nodes.config.coordinators import (
    GroupCoordinatorSettings,
    InternalTopicSettings,
    TransactionCoordinatorSettings,
)
from nodes.config.groups import (
    RACK_AWARE_SELECTOR,
    AdministrationSettings,
    CleanerSettings,
    FetchSettings,
    HousekeepingSettings,
    QuorumSettings,
    ReplicationSettings,
    TopicDefaults,
)
from nodes.config.listeners import Endpoint
from nodes.config.node import NodeConfig, load_config
from nodes.config.properties import ConfigError, Property, parse_properties
from nodes.config.zookeeper import ZooKeeperSettings

__all__ = [
    "RACK_AWARE_SELECTOR",
    "AdministrationSettings",
    "CleanerSettings",
    "ConfigError",
    "Endpoint",
    "FetchSettings",
    "GroupCoordinatorSettings",
    "HousekeepingSettings",
    "InternalTopicSettings",
    "NodeConfig",
    "Property",
    "QuorumSettings",
    "ReplicationSettings",
    "TopicDefaults",
    "TransactionCoordinatorSettings",
    "ZooKeeperSettings",
    "load_config",
    "parse_properties",
]
