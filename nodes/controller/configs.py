"""AlterConfigs and IncrementalAlterConfigs: configurations of topics, brokers and groups. Pure.

The changes of a resource are made completely or not at all. The broker without a name stands for
the default of all brokers (KIP-226). A change of min.insync.replicas ends, in the same batch, the
leader eligibility that depended on the old minimum (KIP-966).
"""

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.controller.elections import clear_eligible_leaders
from nodes.controller.situation import ControllerResult, ControllerState
from nodes.controller.topics import check_name
from nodes.metadata.errors import ControlError
from nodes.metadata.group_configs import check_group_config
from nodes.metadata.image import ClusterImage, ConfigResource
from nodes.metadata.records import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
)
from nodes.metadata.topic_configs import (
    BOOLEAN,
    MIN_INSYNC_REPLICAS,
    TOPIC_CONFIGS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    Check,
    ConfigType,
    check_config,
    check_together,
    effective,
    integer,
)


class ConfigOperation(enum.IntEnum):
    """An operation on one value, numbered as in IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """A change of one value; `operation` is as received, perhaps not a ConfigOperation."""

    name: str
    operation: int
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChanges:
    """The changes of one resource; with `replaces`, all values that they do not name are deleted
    (AlterConfigs, before KIP-339).
    """

    resource: ConfigResource
    changes: tuple[ConfigChange, ...]
    replaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigResult:
    """The result for one resource."""

    resource: ConfigResource
    error: ControlError | None = None


THROTTLED_RATES: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
"""The byte rates per second for throttled replicas (KIP-73)."""

TRANSACTION_VERIFICATION: Final = "transaction.partition.verification.enable"
"""Whether leaders ask the coordinator before the first batch of a transaction (KIP-890)."""

_CLUSTER_ONLY: Final = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE)
"""The controller uses these, for the whole cluster."""


def _broker_configs() -> dict[str, Check]:
    checks: dict[str, Check] = {
        synonym.name: row.check if synonym.unit == 1 else integer(-1)
        for row in TOPIC_CONFIGS.values()
        for synonym in row.synonyms
    }
    rates = {name: integer(0) for name in THROTTLED_RATES}
    return {**checks, **rates, TRANSACTION_VERIFICATION: BOOLEAN}


BROKER_CONFIGS: Final[Mapping[str, Check]] = _broker_configs()
"""The dynamic broker configurations: the topics' defaults, throttles, and verification."""


def alter_configs(
    state: ControllerState, requests: Sequence[ResourceChanges], *, validate_only: bool = False
) -> ControllerResult[list[AlterConfigResult]]:
    """Change the configuration of each resource, with a result for each."""
    records: list[MetadataRecord] = []
    answers = []
    times = Counter(request.resource for request in requests)
    for request in requests:
        try:
            if times[request.resource] > 1:
                raise ControlError(
                    ErrorCode.invalid_request, "Each resource must appear at most once."
                )
            records += _alter(state, request)
        except ControlError as error:
            answers.append(AlterConfigResult(resource=request.resource, error=error.kept()))
            continue
        answers.append(AlterConfigResult(resource=request.resource))
    records += _newly_ineligible(state, records)
    return ControllerResult(records=() if validate_only else records, response=answers)


def _alter(state: ControllerState, request: ResourceChanges) -> Iterator[ConfigRecord]:
    image, resource = state.image, request.resource
    _check_resource(image, resource)
    _check_shape(request.changes)
    old = image.configs.get(resource, {})
    new = {} if request.replaces else dict(old)
    for change in request.changes:
        value = _changed(resource, old.get(change.name), change)
        if value is None:
            new.pop(change.name, None)
        else:
            new[change.name] = value
    if resource.resource_type == GROUP_RESOURCE:
        new = {name: value.strip() for name, value in new.items()}
        check_group_config(new, state.settings.static)
    else:
        _check_values(resource, old, new)
    named = {change.name for change in request.changes}
    for name in sorted(named | old.keys() | new.keys()):
        # An unchanged value of a broker is also written: it makes the broker read its files again
        # (KAFKA-14136).
        again = resource.resource_type == BROKER_RESOURCE and name in named
        if old.get(name) != new.get(name) or (again and name in new):
            yield ConfigRecord(
                resource_type=resource.resource_type,
                resource_name=resource.name,
                name=name,
                value=new.get(name),
            )


def _check_resource(image: ClusterImage, resource: ConfigResource) -> None:
    name = resource.name
    match resource.resource_type:
        case 2:
            if not name:
                raise ControlError(
                    ErrorCode.invalid_request, "Default topic resources are not allowed."
                )
            check_name(name)
            if name not in image.topic_ids:
                raise ControlError(
                    ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
                )
        case 4:
            if name and not (name.isascii() and name.isdigit()):
                raise ControlError(
                    ErrorCode.invalid_request, "Unable to parse broker name as a base 10 number."
                )
        case 32:
            if not name:
                raise ControlError(
                    ErrorCode.invalid_request, "Default group resources are not allowed."
                )
        case other:
            raise ControlError(ErrorCode.invalid_request, f"Unknown resource type {other}")


def _check_shape(changes: Sequence[ConfigChange]) -> None:
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise ControlError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    operations = {operation.value for operation in ConfigOperation}
    for change in changes:
        if change.operation not in operations:
            raise ControlError(
                ErrorCode.invalid_request, f"Unknown operations type {change.operation}"
            )
    empty = [c.name for c in changes if c.value is None and c.operation != ConfigOperation.DELETE]
    if empty:
        raise ControlError(
            ErrorCode.invalid_request, f"Null value not supported for : {', '.join(empty)}"
        )


def _changed(resource: ConfigResource, old: str | None, change: ConfigChange) -> str | None:
    operation, value = ConfigOperation(change.operation), change.value
    if operation is ConfigOperation.DELETE or value is None:
        return None
    if operation is ConfigOperation.SET:
        return value
    row = TOPIC_CONFIGS.get(change.name) if resource.resource_type == TOPIC_RESOURCE else None
    if row is None or row.type is not ConfigType.LIST:
        raise ControlError(
            ErrorCode.invalid_config,
            f"Can't {operation.name} to key {change.name} because its type is not LIST.",
        )
    items = [item for item in (row.default if old is None else old).split(",") if item]
    for item in value.split(","):
        if operation is ConfigOperation.APPEND and item not in items:
            items.append(item)
        elif operation is ConfigOperation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _check_values(resource: ConfigResource, old: Mapping[str, str], new: dict[str, str]) -> None:
    if resource.resource_type == TOPIC_RESOURCE:
        for name, value in new.items():
            new[name] = check_config(name, value)
        check_together(new)
        return
    unknown = sorted(name for name in new if name not in BROKER_CONFIGS)
    if unknown:
        raise ControlError(
            ErrorCode.invalid_request,
            f"Cannot update these configs dynamically: {', '.join(unknown)}",
        )
    for name in _CLUSTER_ONLY:
        if resource.name and name in new:
            raise ControlError(
                ErrorCode.invalid_config,
                f"Broker-level {name} cannot be altered: it holds for the whole cluster.",
            )
    if not resource.name and MIN_INSYNC_REPLICAS in old and MIN_INSYNC_REPLICAS not in new:
        raise ControlError(
            ErrorCode.invalid_config,
            f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.",
        )
    for name, value in new.items():
        complaint = BROKER_CONFIGS[name](value.strip())
        if complaint is not None:
            raise ControlError(
                ErrorCode.invalid_request,
                f"Invalid value {value} for configuration {name}: it {complaint}",
            )
        new[name] = value.strip()


def _newly_ineligible(
    state: ControllerState, records: Sequence[MetadataRecord]
) -> list[MetadataRecord]:
    image, static = state.image, state.settings.static
    if not any(isinstance(r, ConfigRecord) and r.name == MIN_INSYNC_REPLICAS for r in records):
        return []
    after, _ = image.apply(records, image.offset, image.epoch)

    def min_isr(at: ClusterImage, topic: str, default: str) -> str:
        return at.topic_config(topic).get(MIN_INSYNC_REPLICAS, default)

    old, new = (effective(MIN_INSYNC_REPLICAS, at, static) for at in (image, after))
    affected = [n for n in image.topic_ids if min_isr(image, n, old) != min_isr(after, n, new)]
    return [*clear_eligible_leaders(image, affected)]
