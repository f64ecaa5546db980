"""The nodes of `highwater cluster up`, by its options."""

import pytest

from harness.admin.errors import BadRequest
from harness.cli.cluster.up_down import _layout
from harness.systems.node_roles import BROKER, COMBINED, CONTROLLER


@pytest.mark.parametrize(
    ("nodes", "controllers", "brokers", "roles"),
    [
        (None, None, None, [COMBINED] * 3),
        (5, None, None, [COMBINED] * 5),
        (None, None, 1, [CONTROLLER, BROKER]),
        (None, None, 2, [CONTROLLER, BROKER, BROKER]),
        (None, None, 3, [CONTROLLER] * 3 + [BROKER] * 3),
        (None, None, 50, [CONTROLLER] * 3 + [BROKER] * 50),
        (None, 1, 3, [CONTROLLER] + [BROKER] * 3),
    ],
)
def test_brokers_alone_get_controllers(
    nodes: int | None, controllers: int | None, brokers: int | None, roles: list[str]
) -> None:
    """Three controllers, or one where fewer than three brokers are asked for."""
    layout = _layout(nodes, controllers, brokers, "a, b")
    assert list(layout.roles.values()) == roles
    assert [layout.racks[node] for node in layout.brokers[:2]] == ["a", "b"][: len(layout.brokers)]


@pytest.mark.parametrize(
    ("nodes", "controllers", "brokers", "message"),
    [
        (None, 2, None, "together with --brokers"),
        (3, None, 3, "give --nodes, or --brokers and --controllers"),
        (3, 3, None, "give --nodes, or --brokers and --controllers"),
    ],
)
def test_contradictory_node_counts_are_refused(
    nodes: int | None, controllers: int | None, brokers: int | None, message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        _layout(nodes, controllers, brokers, "")
