"""A workload of kind `ping-pong`: requests in one topic, replies in another one.

highwater's own producers send at a rate. A requester waits for each reply before it asks again, so
one lost request or one slow leader stops it for a while, as it stops a caller of a real service.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from pydantic import Field, model_validator

from harness.plans.workload_kind import Clients, WorkloadKind

POLL_S = 0.01


class PingPong(WorkloadKind):
    """Requesters, and a replier that answers each request."""

    requests: str
    """The topic of the requests."""
    replies: str
    """The topic of the replies."""
    requesters: int = Field(default=2, ge=1, le=20)
    """How many requesters there are."""
    patience_s: float = Field(default=3.0, gt=0, le=60)
    """How long a requester waits for a reply before it sends its next request, s."""

    @model_validator(mode="after")
    def _has_two_topics(self) -> Self:
        if self.requests == self.replies:
            raise ValueError(f"replies: {self.replies} has the requests; name another topic")
        return self

    def writes(self) -> Sequence[str]:
        """Return both topics."""
        return self.requests, self.replies

    def runs(self, clients: Clients) -> Sequence[Callable[[], None]]:
        """Return what each requester does, and what the replier does."""
        requesters = [partial(self._request, clients, n) for n in range(self.requesters)]
        return [*requesters, partial(self._reply, clients)]

    def _request(self, clients: Clients, number: int) -> None:
        """Send requests to all partitions in turn, and wait for the reply of each."""
        producer, replies = clients.producer(self.requests), clients.consumer(self.replies)
        partition = number
        while not clients.stopped():
            partition = (partition + 1) % clients.partitions[self.requests]
            wanted = _name(producer.send(partition))
            deadline_s = time.monotonic() + self.patience_s
            while not clients.stopped() and time.monotonic() < deadline_s:
                producer.poll(0)
                if any(reply.key == wanted for reply in replies.poll(POLL_S)):
                    break

    def _reply(self, clients: Clients) -> None:
        """Answer each request once. The key of a reply names its request."""
        requests, producer = clients.consumer(self.requests), clients.producer(self.replies)
        partitions = clients.partitions[self.replies]
        while not clients.stopped():
            for request in requests.poll(POLL_S):
                if request.value is not None:
                    producer.send(request.partition % partitions, _name(request.value))
            producer.poll(0)


def _name(value: int) -> bytes:
    """Return a request's name in the key of its reply."""
    return value.to_bytes(8, "big")
