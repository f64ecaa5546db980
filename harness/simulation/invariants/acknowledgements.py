"""What a broker acknowledges with acks=all is committed at that moment.

An acknowledgement before the high watermark has passed the batch loses nothing as long as nothing
fails, so no client sees it in most runs. The check looks at the response when the broker makes it,
and adds no event to the run.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.images import Partition
from harness.simulation.invariants.partition_history import NEVER
from nodes.log.batch import read_header
from nodes.server.replicas.replica import Replica
from nodes.server.requests.produce import ProduceHandler


class Acknowledged(NamedTuple):
    """A batch that a broker acknowledged; `end` is the offset after its last record."""

    replica: Replica
    end: int


def watch_acknowledgements(handler: ProduceHandler, note: Callable[[Acknowledged], None]) -> None:
    """Call `note` for each batch that the handler acknowledges with acks=all from now on."""
    respond = handler._response

    def watched(request: Any, results: Sequence[Any], listener: str) -> Any:
        if request.acks == -1:
            for each in results:
                if each.error is ErrorCode.none and each.replica is not None:
                    last = each.base_offset + read_header(each.requested.records).last_offset_delta
                    note(Acknowledged(each.replica, last + 1))
        return respond(request, results, listener)

    vars(handler)["_response"] = watched


def check_acknowledged(partition: Partition, node: int, end: int) -> None:
    """Raise InvariantBroken unless everything below `end` is committed.

    After an unclean election nobody has to know what earlier leaders committed: then only batches
    of later epochs are judged. What a node with an unreadable log commits is not known.
    """
    history, copy = partition.history, partition.copy(node)
    if copy.unreadable:
        return
    top = history.last_committed()
    if history.reset_epoch != NEVER:
        batch = copy.batches.get(end)
        if batch is None or batch.epoch < history.reset_epoch or end <= history.start:
            return
        committed = history.are_committed([batch])
    else:
        committed = top is not None and top.end >= end
    if not committed:
        only = "nothing" if top is None else f"only what is below {top.end}"
        raise InvariantBroken(
            "acknowledged-is-committed",
            f"{history.name}: node {node} acknowledges everything below {end}, and {only} is "
            "committed",
        )
