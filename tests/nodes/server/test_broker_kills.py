"""A broker's logs are right, or refused, whatever storage operation it died at."""

import logging

import pytest

from tests.support.nodes.broker_lives import BrokerLife
from tests.tools.storage_crashes import sweep


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What thousands of dying brokers have to say would fill the memory."""
    caplog.set_level(logging.CRITICAL, logger="nodes")


def test_a_broker_bears_death_at_some_operations() -> None:
    """Killed, and without power in two ways; its next start dies too."""
    assert sweep(BrokerLife, seeds=range(1), operations=range(3, 700, 13)) > 30


@pytest.mark.slow
def test_a_broker_bears_death_at_every_operation() -> None:
    """With many seeds it is a command: see `broker_lives`."""
    assert sweep(BrokerLife, seeds=range(1)) > 300
