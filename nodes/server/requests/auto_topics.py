"""Topics that appear when somebody asks for them: auto.create.topics.enable.

As Kafka's brokers do it: a Metadata request that names a missing topic makes the broker ask the
controller for it, with the cluster's defaults, and is answered at once that the topic is unknown;
the client asks again until it is there.
"""

import asyncio
import logging
from datetime import timedelta

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.errors import ErrorCode

from nodes.controller.topics import check_name
from nodes.metadata.errors import ControlError
from nodes.server.controller_link import ControllerLink
from nodes.wire.versions import fill

log = logging.getLogger("nodes.auto_topics")

TIMEOUT_S = 10.0
MAX_ASKED = 100
"""Topics asked for at a time; the clients of others ask again."""


class AutoTopicCreation:
    """Asks the controller for missing topics, one request for each at a time."""

    def __init__(self, controller: ControllerLink, *, enabled: bool) -> None:
        self._controller = controller
        self._enabled = enabled
        self._asked: dict[str, asyncio.Task[None]] = {}

    def missing(self, name: str, *, may_create: bool) -> ErrorCode:
        """The answer for a topic that does not exist; begins to create it where that is allowed."""
        try:
            check_name(name)
        except ControlError as error:
            return error.code
        if not (self._enabled and may_create):
            return ErrorCode.unknown_topic_or_partition
        if name not in self._asked and len(self._asked) < MAX_ASKED:
            task = asyncio.get_running_loop().create_task(self._create(name))
            self._asked[name] = task
            task.add_done_callback(lambda _: self._asked.pop(name, None))
        return ErrorCode.unknown_topic_or_partition

    async def _create(self, name: str) -> None:
        request = fill(
            CreateTopicsRequest,
            topics=[{"name": name, "num_partitions": -1, "replication_factor": -1}],
            timeout=timedelta(seconds=TIMEOUT_S),
        )
        response = await self._controller.forward(request, timeout_s=TIMEOUT_S)
        if response is None:
            log.info("topic %s was asked for, but no controller answered", name)
            return
        (topic,) = response.topics
        if topic.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists):
            log.info("topic %s cannot be created: %s", name, topic.error_message)

    def close(self) -> None:
        """Stop asking."""
        for task in list(self._asked.values()):
            task.cancel()
