"""What the watcher needs of the watching of a ZooKeeper ensemble, which is a package of its own."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from harness.systems.monitoring.cluster_view import PartitionView
from harness.systems.monitoring.quorum_times import QuorumTimes
from nodes.ids import TopicPartition


class EnsembleWatch(Protocol):
    """See `harness.systems.ensemble.watch.EnsembleWatch`."""

    @property
    def nodes(self) -> Sequence[int]: ...
    def answers(self, node: int) -> bool | None: ...
    def leader(self) -> int | None: ...
    def controller(self) -> int | None: ...
    def unsettled(self) -> list[str]: ...
    def work(
        self,
        times: QuorumTimes,
        partitions: Callable[[], Sequence[TopicPartition]],
        decided: Callable[[Mapping[TopicPartition, PartitionView]], None],
    ) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]: ...
    def close(self) -> None: ...
