"""What further workloads decide without a library."""

import random

from hypothesis import given
from hypothesis import strategies as st

from harness.plans.workloads import TransactionWorkload
from harness.workloads.further.rules import places_of

PARTITIONS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 4), min_size=1)


@given(PARTITIONS, st.integers(1, 4), st.integers(1, 5), st.integers(1, 9), st.integers(0, 99))
def test_transaction_has_records_in_each_of_its_topics(
    partitions: dict[str, int], topics: int, places: int, records: int, seed: int
) -> None:
    """All its records have a place, no place twice, and the producer's own topic is among them."""
    topics = min(topics, len(partitions), records)
    wanted = TransactionWorkload(
        kind="transactions", topics_each=topics, partitions=places, records=records
    )
    own = min(partitions)
    found = places_of(wanted, own, partitions, random.Random(seed))
    assert sum(place.records for place in found) == records
    assert min(place.records for place in found) >= 1
    assert len({(place.topic, place.partition) for place in found}) == len(found)
    assert found[0].topic == own
    assert len({place.topic for place in found}) == topics
    for topic in partitions:
        chosen = [place.partition for place in found if place.topic == topic]
        assert len(chosen) <= places
        assert all(0 <= each < partitions[topic] for each in chosen)
