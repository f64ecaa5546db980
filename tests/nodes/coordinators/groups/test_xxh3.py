"""XXH3 against hash4j 0.22.0, the library that Kafka 4.2 takes."""

import pytest

from nodes.coordinators.groups.xxh3 import xxh3_64

BY_SIZE = {
    0: 3244421341483603138,
    1: 1433843135270481901,
    3: -6266602912829716452,
    4: 7895465118229274323,
    8: 6941064856527638883,
    9: -72226354546400344,
    16: -5131753158909839995,
    17: 8163341949877205007,
    64: 2917965298538373825,
    128: 7440608504995537343,
    129: -4150982730466284604,
    200: 8389308914288017243,
    240: 7229805477010515663,
    241: -8364630114420064745,
    256: 4339360625268998362,
    512: -756038794506822371,
    1000: 7804479483783519874,
    1024: -7241394453710343503,
    1025: -9192937061388044938,
    2048: -6060151295482384687,
    5000: 8762507191635236893,
}


@pytest.mark.parametrize("size", BY_SIZE)
def test_the_hash_is_that_of_hash4j(size: int) -> None:
    """One size for each branch of the algorithm, and both sides of each limit."""
    data = bytes((7 * i + 3) & 0xFF for i in range(size))
    assert xxh3_64(data) == BY_SIZE[size]
