"""The nodes of `highwater cluster up`, by its options."""

import pytest

from harness.admin.errors import BadRequest
from harness.cli.cluster.up_down import _beside_zookeeper, _layout
from harness.systems.node_roles import BROKER, COMBINED, CONTROLLER, ZOOKEEPER


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


@pytest.mark.parametrize(("nodes", "brokers"), [(2, None), (None, 2)])
def test_zookeeper_nodes_stand_beside_the_brokers(nodes: int | None, brokers: int | None) -> None:
    """Nobody is a controller by its role. A new broker gets the next number of a broker."""
    layout = _beside_zookeeper(nodes, None, brokers, None, "a, b")
    assert layout.roles == {1: BROKER, 2: BROKER, **dict.fromkeys((101, 102, 103), ZOOKEEPER)}
    assert layout.racks == {1: "a", 2: "b"}
    assert layout.controllers == ()
    assert layout.next_number == 3


def test_controllers_of_a_quorum_are_refused_beside_zookeeper() -> None:
    """So are two numbers of brokers."""
    with pytest.raises(BadRequest, match="one of the brokers is the controller"):
        _beside_zookeeper(None, 3, 3, None, "")
    with pytest.raises(BadRequest, match="give --nodes or --brokers"):
        _beside_zookeeper(3, None, 3, None, "")
