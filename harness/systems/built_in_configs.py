"""Whether the built-in broker would take a plan's configuration, told before it is started with it.

Another broker's configuration is its own to refuse: where `broker_module` names one, only values of
names that it shares with the built-in broker's are looked at.
"""

from pathlib import Path

from harness.plans.errors import PlanError
from harness.plans.plan import Plan
from harness.systems.brokers import server_properties
from nodes.config import ConfigError, load_config
from nodes.metadata.errors import ControlError
from nodes.metadata.topic_configs import TOPIC_CONFIGS, check_config

OWN: str = "nodes"
"""The module of the built-in broker."""


def check(plan: Plan, where: str) -> None:
    """Raises PlanError, which begins with `where` and names the key."""
    for topic in plan.topics:
        for name, value in topic.configs.items():
            if name not in TOPIC_CONFIGS and plan.broker_module != OWN:
                continue
            try:
                check_config(name, value)
            except ControlError as error:
                raise PlanError(
                    f"{where}: topic {topic.name}: configs.{name}: {error.message}"
                ) from error
    if not plan.broker or plan.broker_module != OWN:
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
