"""Checks a plan's configuration for the built-in broker before the broker is started with it.

Another broker refuses its configuration by itself. For a `broker_module` of another broker, only
the values of configs that the built-in broker has too are checked.
"""

from pathlib import Path

from harness.plans.errors import PlanError
from harness.plans.plan import Plan
from harness.systems.brokers import server_properties
from nodes.config import ConfigError, load_config
from nodes.metadata.errors import ControlError
from nodes.metadata.topic_configs import TOPIC_CONFIGS, check_config

BUILT_IN_MODULE: str = "nodes"
"""The module of the built-in broker."""


def check(plan: Plan, where: str) -> None:
    """Raise PlanError for a bad value. The error starts with `where` and names the key."""
    for topic in plan.topics:
        for name, value in topic.configs.items():
            if name not in TOPIC_CONFIGS and plan.broker_module != BUILT_IN_MODULE:
                continue
            try:
                check_config(name, value)
            except ControlError as error:
                raise PlanError(
                    f"{where}: topic {topic.name}: configs.{name}: {error.message}"
                ) from error
    if not plan.broker or plan.broker_module != BUILT_IN_MODULE:
        return
    properties = server_properties(
        1,
        {1: "127.0.0.1"},
        log_dir=Path("data"),
        cluster_id="checked",
        overrides=plan.resolved_broker(),
    )
    try:
        load_config(properties)
    except ConfigError as error:
        raise PlanError(f"{where}: broker: {error}") from error
