"""After a crash at any storage operation, a broker's logs are correct or refused."""

import pytest

from tests.support.nodes.broker_lives import BrokerLife
from tests.tools.storage_crashes import sweep

pytestmark = pytest.mark.usefixtures("quiet_nodes")


def test_broker_survives_a_crash_at_some_storage_operations() -> None:
    """Kills, and power losses of two kinds; its next start crashes too."""
    assert sweep(BrokerLife, seeds=range(1), operations=range(3, 700, 13)) > 30


@pytest.mark.slow
def test_broker_survives_a_crash_at_every_storage_operation() -> None:
    """With many seeds it is a command: see `broker_lives`."""
    assert sweep(BrokerLife, seeds=range(1)) > 300
