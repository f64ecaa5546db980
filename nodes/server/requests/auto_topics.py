"""Automatic creation of topics (auto.create.topics.enable), as in Kafka.

When a Metadata request names a missing topic, the broker asks the controller to create it with the
cluster's defaults. It responds at once that the topic is unknown, and the client asks again until
the topic is there. Internal topics are created in the same way when a coordinator is needed first,
with settings of their own.
"""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.errors import ErrorCode

from nodes.controller.topics import check_name
from nodes.metadata.errors import ControlError
from nodes.server.control_plane import ControllerClient
from nodes.wire.versions import fill

log = logging.getLogger("nodes.auto_topics")

TIMEOUT_S = 10.0
_DEFAULTS: Mapping[str, Any] = {"num_partitions": -1, "replication_factor": -1}
MAX_IN_FLIGHT = 100
"""So many topics are created at a time; the clients of other topics ask again."""


class AutoTopicCreation:
    """Asks the controller to create missing topics; at most one request for each at a time."""

    def __init__(
        self,
        controller: ControllerClient,
        *,
        enabled: bool,
        internal: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """`internal`: how each internal topic is created, as fields of CreateTopics."""
        self._controller = controller
        self._enabled = enabled
        self._internal = internal
        self._creating: dict[str, asyncio.Task[None]] = {}

    def missing(self, name: str, *, may_create: bool) -> ErrorCode:
        """Return the error for a topic that does not exist; start to create it if allowed."""
        try:
            check_name(name)
        except ControlError as error:
            return error.code
        if self._enabled and may_create:
            self._start(name)
        return ErrorCode.unknown_topic_or_partition

    def create_internal(self, name: str) -> None:
        """Start to create an internal topic, whatever auto.create.topics.enable says."""
        self._start(name)

    def _start(self, name: str) -> None:
        if name not in self._creating and len(self._creating) < MAX_IN_FLIGHT:
            task = asyncio.get_running_loop().create_task(self._create(name))
            self._creating[name] = task
            task.add_done_callback(lambda _: self._creating.pop(name, None))

    async def _create(self, name: str) -> None:
        settings = self._internal.get(name, _DEFAULTS)
        request = fill(
            CreateTopicsRequest,
            topics=[{"name": name, **settings}],
            timeout=timedelta(seconds=TIMEOUT_S),
        )
        response = await self._controller.forward(request, timeout_s=TIMEOUT_S)
        if response is None:
            log.info("topic %s was not created: no controller responded", name)
            return
        (topic,) = response.topics
        if topic.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists):
            log.info("topic %s was not created: %s", name, topic.error_message)

    def close(self) -> None:
        """Cancel the requests in flight."""
        for task in list(self._creating.values()):
            task.cancel()
