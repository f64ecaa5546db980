"""A member of librdkafka whose position a broker does not have."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness.plans.workloads import GroupWorkload
from harness.workloads.clients.access import OPEN
from harness.workloads.further.librdkafka.subscribed import Subscribed, member_config
from nodes.ids import TopicPartition
from tests.support.clients.recorded import Recorded
from tests.support.clients.workloads import NOWHERE

GROUP = GroupWorkload(kind="group", group="g", topic="t")


class Truncated:
    """A consumer whose only message is that a position is out of range."""

    def __init__(self, low: int | None) -> None:
        self._low = low
        self.sought: list[int] = []

    def consume(self, count: int, timeout_s: float) -> list[Any]:
        return [self]

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._AUTO_OFFSET_RESET)

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def get_watermark_offsets(self, where: Any, timeout: float) -> tuple[int, int]:
        if self._low is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return self._low, self._low + 1

    def seek(self, where: Any) -> None:
        self.sought.append(where.offset)


@pytest.mark.parametrize(("low", "over"), [(8, False), (3, True), (None, True)])
def test_member_goes_on_from_the_first_record_if_those_before_it_were_removed(
    low: int | None, over: bool
) -> None:
    """Else a deposed leader may have answered: the next member begins at the committed offset."""
    seen = Recorded()
    config = member_config(NOWHERE, OPEN, GROUP, 0, isolation_level="read_committed")
    made = Subscribed(
        config, seen.member_reads(), seen.membership(), before_revocation=lambda _: None
    )
    made.positions = {TopicPartition("t", 0): 5}
    consumer: Any = Truncated(low)
    made._consumer = consumer
    assert list(made.take(10, 0.0)) == []
    assert (made.over, consumer.sought) == (over, [] if over else [8])
    jumps = seen.writer.of("assign", "partition", "offset", "error")
    assert jumps == ([] if over else [(0, 8, "_AUTO_OFFSET_RESET")])


def test_nothing_is_reset_silently() -> None:
    """A reset to the beginning would repeat everything, for no cause in the record."""
    config = member_config(NOWHERE, OPEN, GROUP, 0, isolation_level="read_committed")
    assert config["auto.offset.reset"] == "error"
