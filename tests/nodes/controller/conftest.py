"""The cluster that most tests of the controller begin with."""

import pytest

from tests.support.nodes.controller_cluster import Cluster, nodes


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers, and topic t with one partition that 1 leads and all are in sync with."""
    cluster = Cluster(brokers=3)
    cluster.create("t", nodes(1, 2, 3))
    return cluster
