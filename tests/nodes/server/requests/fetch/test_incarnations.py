"""A fetch that a follower sent before it registered again says nothing of what it has (KIP-903)."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import BrokerEpoch
from tests.support.nodes import virtual_time
from tests.support.nodes.fetching import BATCH, FOLLOWER, OTHER, FetchBroker, only

EARLIER, LATER = 7, 9


def registered(broker: FetchBroker, epoch: int) -> None:
    """The leader knows that the follower has registered with this broker epoch."""
    broker.racks()
    image = broker.hosted.image
    follower = replace(image.brokers[FOLLOWER], epoch=BrokerEpoch(epoch))
    broker.hosted.image = replace(image, brokers={**image.brokers, FOLLOWER: follower})


@pytest.mark.parametrize("known", [EARLIER, LATER])
def test_late_fetch_of_an_earlier_incarnation_is_refused_and_not_counted(known: int) -> None:
    """The leader knows of the later one from the metadata, or from its fetch alone."""

    async def run() -> None:
        broker = FetchBroker(1)
        registered(broker, known)
        replica = broker.replica(0)
        replica.append(BATCH)
        replica.record_fetch(OTHER, replica.log.end_offset, BrokerEpoch(7), 0.0)
        later = {"replica_id": FOLLOWER, "replica_epoch": LATER}
        await broker.fetch({0: 0}, node=FOLLOWER, replica_state=later)
        late = await broker.fetch({0: 1}, node=FOLLOWER)
        assert only(late).error_code is ErrorCode.not_leader_or_follower
        assert replica.state.followers[FOLLOWER].broker_epoch == LATER
        assert replica.state.high_watermark == 0, "nobody said that the later one has the record"
        await broker.fetch({0: 1}, node=FOLLOWER, replica_state=later)
        assert replica.state.high_watermark == 1

    virtual_time.run(run())


def test_follower_without_a_broker_epoch_is_served() -> None:
    """Fetch before version 15 has none."""

    async def run() -> None:
        broker = FetchBroker(1)
        registered(broker, LATER)
        answer = await broker.fetch({0: 0}, node=FOLLOWER, version=14)
        assert only(answer).error_code is ErrorCode.none

    virtual_time.run(run())
