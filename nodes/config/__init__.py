"""A node's configuration: Kafka's property names, parsed and validated once.

`server.properties` is Kafka's format. Unknown keys are kept out with a warning line rather than
refused, as Kafka does, so that a Kafka file can be used as it is; a value that cannot be right is
a ConfigError that names the key and what it accepts.
"""

from nodes.config.groups import (
    RACK_AWARE_SELECTOR,
    Administration,
    Fetching,
    Housekeeping,
    Quorum,
    Replication,
    TopicDefaults,
)
from nodes.config.listeners import Endpoint
from nodes.config.node import NodeConfig, load_config
from nodes.config.properties import ConfigError, Property, parse_properties

__all__ = [
    "RACK_AWARE_SELECTOR",
    "Administration",
    "ConfigError",
    "Endpoint",
    "Fetching",
    "Housekeeping",
    "NodeConfig",
    "Property",
    "Quorum",
    "Replication",
    "TopicDefaults",
    "load_config",
    "parse_properties",
]
