"""DescribeConfigs: the configurations of topics, groups and this node, with their sources.
ListConfigResources: which resources have configurations.

The response comes from the metadata image and this node's own file. Only the broker itself
describes its configuration, as in Kafka. One response describes a limited number of resources, so
that it does not block the event loop for long; each resource beyond the limit gets an error.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig, Property
from nodes.controller.configs import BROKER_CONFIGS
from nodes.controller.topics import check_name
from nodes.metadata.errors import ControlError
from nodes.metadata.group_configs import GROUP_CONFIGS, broker_property, group_config
from nodes.metadata.image import ClusterImage, ConfigResource
from nodes.metadata.records import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from nodes.metadata.topic_configs import TOPIC_CONFIGS, ConfigType, Source, Sourced, sources
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

Row = dict[str, Any]

MAX_DESCRIBED = 75
"""Resources per request. One has about forty configurations, each with its possible sources."""

BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE = 8, 16
_LISTABLE = frozenset(
    {
        TOPIC_RESOURCE,
        BROKER_RESOURCE,
        BROKER_LOGGER_RESOURCE,
        CLIENT_METRICS_RESOURCE,
        GROUP_RESOURCE,
    }
)
_SECRETS = ("password", "jaas", "secret")


class DescribeConfigsHandler:
    """Serves DescribeConfigs and ListConfigResources."""

    def __init__(self, config: NodeConfig, image: Callable[[], ClusterImage]) -> None:
        self._config = config
        self._newest = image

    @property
    def _image(self) -> ClusterImage:
        return self._newest()

    def handle(self, request: Any, context: RequestContext) -> Any:
        """Describe each resource, or return its error."""
        described, beyond = request.resources[:MAX_DESCRIBED], request.resources[MAX_DESCRIBED:]
        results = [self._result(request, resource) for resource in described]
        too_many = {
            "error_code": ErrorCode.invalid_request,
            "error_message": f"At most {MAX_DESCRIBED} resources are described by one request.",
        }
        results += [
            {"resource_type": r.resource_type, "resource_name": r.resource_name, **too_many}
            for r in beyond
        ]
        return respond(request, results=results)

    def list_resources(self, request: Any, context: RequestContext) -> Any:
        """List the resources of the types that the request names, or of all types (KIP-1142).

        Version 0 lists only client metrics, which have no configurations here. The brokers are
        those in service that clients of this listener can reach, as in Kafka.
        """
        listable = _LISTABLE if request.__version__ > 0 else frozenset({CLIENT_METRICS_RESOURCE})
        types = frozenset(getattr(request, "resource_types", ())) or listable
        if not types <= listable:
            return respond(request, error_code=ErrorCode.unsupported_version)
        brokers = [
            str(node)
            for node, broker in sorted(self._image.brokers.items())
            if not broker.fenced and broker.endpoint(context.listener) is not None
        ]
        names = {
            BROKER_LOGGER_RESOURCE: brokers,
            BROKER_RESOURCE: brokers,
            TOPIC_RESOURCE: sorted(self._image.topic_ids),
            GROUP_RESOURCE: sorted(
                each.name for each in self._image.configs if each.resource_type == GROUP_RESOURCE
            ),
        }
        rows = [
            {"resource_name": name, "resource_type": type_}
            for type_, found in names.items()
            if type_ in types
            for name in found
        ]
        return respond(request, config_resources=rows)

    def _result(self, request: Any, resource: Any) -> Row:
        row: Row = {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        try:
            found = self._described(ConfigResource(resource.resource_type, resource.resource_name))
        except ControlError as error:
            return row | {"error_code": error.code, "error_message": error.message}
        keys = resource.configuration_keys
        configs = [each for each in found if not keys or each["name"] in keys]
        if not getattr(request, "include_synonyms", False):
            configs = [{**each, "synonyms": ()} for each in configs]
        return row | {"configs": configs}

    def _described(self, resource: ConfigResource) -> Iterable[Row]:
        name = resource.name
        if resource.resource_type == TOPIC_RESOURCE:
            return self._topic(name)
        if resource.resource_type == GROUP_RESOURCE:
            return self._group(name)
        if resource.resource_type != BROKER_RESOURCE:
            raise ControlError(
                ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}"
            )
        if not name:
            return self._cluster_default()
        if name != str(self._config.node_id):
            raise ControlError(
                ErrorCode.invalid_request,
                f"Unexpected broker id, expected {self._config.node_id} or empty string, but "
                f"received {name}",
            )
        return self._broker()

    def _topic(self, name: str) -> list[Row]:
        check_name(name)
        image, config = self._image, self._config
        if name not in image.topic_ids:
            raise ControlError(
                ErrorCode.unknown_topic_or_partition,
                "This server does not host this topic-partition.",
            )
        return [
            _row(
                key,
                row.type,
                sources(key, image, config.static, topic=name, node_id=config.node_id),
                read_only=False,
            )
            for key, row in TOPIC_CONFIGS.items()
        ]

    def _group(self, name: str) -> list[Row]:
        if not name:
            raise ControlError(ErrorCode.invalid_request, "Group name must not be empty")
        own = group_config(self._image, name)
        static = self._config.static
        rows = []
        for key, known in GROUP_CONFIGS.items():
            default = static.get(broker_property(key), str(known.default))
            found = Sourced(key, Source.DEFAULT, default)
            if key in own:
                found = Sourced(key, Source.GROUP, own[key])
            rows.append(_row(key, ConfigType.INT, [found], read_only=False))
        return rows

    def _cluster_default(self) -> list[Row]:
        return [
            _row(
                name,
                _type_of(name, self._config.known.get(name)),
                [Sourced(name, Source.DYNAMIC_DEFAULT_BROKER, value)],
                read_only=False,
            )
            for name, value in sorted(self._image.cluster_config().items())
        ]

    def _broker(self) -> list[Row]:
        known = self._config.known
        names = sorted({*known, *BROKER_CONFIGS})
        return [
            _row(
                name,
                _type_of(name, known.get(name)),
                self._broker_sources(name, known.get(name)),
                read_only=name not in BROKER_CONFIGS,
            )
            for name in names
        ]

    def _broker_sources(self, name: str, known: Property | None) -> list[Sourced]:
        own = ConfigResource(BROKER_RESOURCE, str(self._config.node_id))
        default = _DEFAULTS.get(name) if known is None else known.default
        layers = (
            (Source.DYNAMIC_BROKER, self._image.configs.get(own, {}).get(name)),
            (Source.DYNAMIC_DEFAULT_BROKER, self._image.cluster_config().get(name)),
            (Source.STATIC_BROKER, self._config.static.get(name)),
            (Source.DEFAULT, default),
        )
        return [Sourced(name, source, value) for source, value in layers if value is not None]


_DEFAULTS = {row.synonyms[0].name: row.default for row in TOPIC_CONFIGS.values() if row.synonyms}
_TYPES = {synonym.name: row.type for row in TOPIC_CONFIGS.values() for synonym in row.synonyms}
_KINDS = {
    "string": ConfigType.STRING,
    "int": ConfigType.INT,
    "double": ConfigType.DOUBLE,
    "boolean": ConfigType.BOOLEAN,
}


def _type_of(name: str, known: Property | None) -> ConfigType:
    if name in _TYPES:
        return _TYPES[name]
    return ConfigType.LONG if known is None else _KINDS[known.kind]


def _row(name: str, type_: ConfigType, found: Sequence[Sourced], *, read_only: bool) -> Row:
    secret = any(word in name for word in _SECRETS)
    effective = found[0] if found else Sourced(name, Source.DEFAULT, "")
    return {
        "name": name,
        "value": None if secret or not found else effective.value,
        "config_source": effective.source,
        "read_only": read_only,
        "is_sensitive": secret,
        "config_type": type_,
        "synonyms": [
            {"name": each.name, "value": None if secret else each.value, "source": each.source}
            for each in found
        ],
    }
