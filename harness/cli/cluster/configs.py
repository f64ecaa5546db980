"""`highwater cluster configs`: configuration of topics and brokers, as kafka-configs prints it."""

from enum import StrEnum
from typing import Annotated

import typer

from harness.admin import configs, tool_text, topics
from harness.admin.client import AdminClient
from harness.admin.configs import Resource
from harness.admin.descriptions import Config
from harness.admin.errors import BadRequest
from harness.cli.cluster.connection import (
    ClusterChoice,
    administer,
    administrative,
    print_json,
    print_lines,
)
from harness.cli.options import ConfigOption, DeleteConfig, command_group, key_values

app = command_group("Show and change the configuration of topics and brokers.")


class Entity(StrEnum):
    """The kinds of things that have a configuration."""

    topics = "topics"
    brokers = "brokers"
    broker_defaults = "broker-defaults"


EntityType = Annotated[
    Entity, typer.Argument(help="Configuration of topics, of brokers, or of all brokers at once.")
]

_DYNAMIC = {
    Entity.topics: "DYNAMIC_TOPIC_CONFIG",
    Entity.brokers: "DYNAMIC_BROKER_CONFIG",
    Entity.broker_defaults: "DYNAMIC_DEFAULT_BROKER_CONFIG",
}


@app.command("describe")
@administrative
def describe_configs(
    entity: EntityType,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names of topics or numbers of brokers. Default: all."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show every setting, not only those that were changed."),
    ] = False,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Show settings of topics or brokers.

    Each line has the value, its source, and the values that it overrides (synonyms).
    """
    given = [_resource(entity, name) for name in _checked(entity, names or [])]

    async def work(admin: AdminClient) -> dict[Resource, list[Config]]:
        wanted = given
        if not wanted:
            match entity:
                case Entity.topics:
                    wanted = [configs.topic(name) for name in await topics.names(admin)]
                case Entity.brokers:
                    live = (await topics.cluster(admin)).live
                    wanted = [configs.broker(broker.node_id) for broker in live]
                case Entity.broker_defaults:
                    wanted = [configs.broker(None)]
        found = await configs.describe(admin, wanted)
        return {resource: found[resource] for resource in wanted}

    found = administer(work, cluster)
    shown = {
        resource: [each for each in entries if everything or each.source == _DYNAMIC[entity]]
        for resource, entries in found.items()
    }
    if as_json:
        print_json(
            [
                {
                    "entity": entity.value,
                    "name": resource.name,
                    "configs": [tool_text.config_data(each) for each in entries],
                }
                for resource, entries in shown.items()
            ]
        )
        return
    for resource, entries in shown.items():
        if entity is Entity.broker_defaults:
            print("Default configs for brokers in the cluster are:")
        else:
            print(f"{'All' if everything else 'Dynamic'} configs for {resource} are:")
        print_lines(map(tool_text.config_line, entries))


@app.command("alter")
@administrative
def alter_configs(
    entity: EntityType,
    name: Annotated[
        str | None,
        typer.Argument(help="The name of a topic or number of a broker; none for broker-defaults."),
    ] = None,
    config: ConfigOption = None,
    delete_config: DeleteConfig = None,
    *,
    cluster: ClusterChoice,
    as_json: bool,
) -> None:
    """Set or remove settings while the cluster runs."""
    names = _checked(entity, [] if name is None else [name])
    if entity is not Entity.broker_defaults and not names:
        raise BadRequest(f"{entity.value}: name the topic or broker to alter")
    resource = _resource(entity, name)
    changes: dict[str, str | None] = {
        **key_values("--config", config),
        **dict.fromkeys(delete_config or ()),
    }
    if not changes:
        raise BadRequest("nothing to alter: give --config or --delete-config")

    async def work(admin: AdminClient) -> None:
        if delete_config:
            found = (await configs.describe(admin, [resource]))[resource]
            known = {each.name for each in found if each.source == _DYNAMIC[entity]}
            if absent := [key for key in delete_config if key not in known]:
                raise BadRequest(f"{resource}: {', '.join(absent)} is not set here")
        await configs.alter(admin, {resource: changes})

    administer(work, cluster)
    if as_json:
        print_json({"entity": entity.value, "name": resource.name, "configs": changes})
    elif entity is Entity.broker_defaults:
        print("Completed updating default config for brokers in the cluster.")
    else:
        print(f"Completed updating config for {resource}.")


def _checked(entity: Entity, names: list[str]) -> list[str]:
    if entity is Entity.broker_defaults and names:
        raise BadRequest("broker-defaults apply to all brokers: leave out the name")
    for name in names:
        if entity is Entity.brokers and not name.isdigit():
            raise BadRequest(f"broker {name!r}: give the number of the broker")
    return names


def _resource(entity: Entity, name: str | None) -> Resource:
    if entity is Entity.topics:
        return configs.topic(name or "")
    return configs.broker(None if name is None else int(name))
