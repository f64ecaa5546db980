"""After a crash at any storage operation, a broker's logs are correct or refused."""

import pytest

from tests.support.nodes.broker_lives import BrokerLife
from tests.support.tiers import in_turn
from tests.tools.storage_crashes import MOST_OPERATIONS, sweep

pytestmark = pytest.mark.usefixtures("quiet_nodes")


def test_broker_survives_a_crash_at_some_storage_operations() -> None:
    """Kills, and power losses of two kinds; its next start crashes too."""
    assert sweep(BrokerLife, seeds=range(1), operations=range(3, 700, 13)) > 30


PARTS = 6


@pytest.mark.parametrize(
    "part",
    in_turn(
        "nodes/server/test_broker_kills.py"
        "::test_broker_survives_a_crash_at_every_storage_operation",
        range(PARTS),
        of=PARTS,
    ),
)
def test_broker_survives_a_crash_at_every_storage_operation(part: int) -> None:
    """With many seeds it is a command: see `broker_lives`."""
    operations = range(part, MOST_OPERATIONS, PARTS)
    assert sweep(BrokerLife, seeds=range(1), operations=operations) > 300 / PARTS
