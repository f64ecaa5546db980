"""Calls to a machine that loses its power: some are answered, some wait, some are repeated."""

import threading
from collections.abc import Callable
from typing import Any, cast, get_origin, get_type_hints

import pytest

from harness.targets.agent import power_loss
from harness.targets.agent.client import AgentClient
from harness.targets.agent.machine import Machine
from harness.targets.agent.power_loss import WITHOUT_POWER, PowerAwareClient
from harness.targets.base import TargetError
from nemesis.hosts import Cut, Disks, Links

PATIENCE_S = 60.0
CUT = Cut(1, 2)


class FakeClient:
    """Notes the calls of one boot."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.raises = raises
        self.losing: Callable[[], object] = lambda: None

    def call(self, method: Callable[..., Any], *args: object) -> object:
        self.asked.append((method, *args))
        self.losing()
        if self.raises is not None:
            raise self.raises
        return "answered"


def agent(client: FakeClient) -> PowerAwareClient:
    """With power, by that client."""
    return PowerAwareClient(cast(AgentClient, client), "node 2's host")


def test_with_power_calls_go_to_the_client() -> None:
    """Its results and its errors are returned."""
    client = FakeClient()
    made = agent(client)
    assert made.call(cast(Any, Disks.files), 2) == "answered"
    client.raises = TargetError("no such node")
    with pytest.raises(TargetError, match="no such node"):
        made.call(Machine.is_running, 2)


def test_without_power_calls_about_processes_and_packets_are_answered() -> None:
    """Without a call to the agent."""
    client = FakeClient()
    made = agent(client)
    made.power_lost()
    assert not made.has_power
    assert made.call(Machine.is_running, 2) is False
    assert made.call(Machine.exit_code, 2) is None
    assert made.call(cast(Any, Links.dropped), CUT) is None
    assert client.asked == []


def test_faults_in_force_are_made_again_after_the_boot() -> None:
    """Those that began before or during the power loss, but not those that ended."""
    made = agent(FakeClient())
    made.call(cast(Any, Links.block), CUT, Cut(3, 2))
    made.power_lost()
    made.call(cast(Any, Links.unblock), CUT)
    made.call(cast(Any, Links.block), Cut(0, 2))
    after = FakeClient()
    made.power_restored(cast(AgentClient, after))
    assert after.asked == [(Links.block, Cut(3, 2)), (Links.block, Cut(0, 2))]
    assert made.has_power


def test_a_failed_restoration_leaves_the_machine_without_power() -> None:
    """It can be tried again."""
    made = agent(FakeClient())
    made.call(cast(Any, Links.block), CUT)
    made.power_lost()
    with pytest.raises(TargetError, match="no rule"):
        made.power_restored(cast(AgentClient, FakeClient(TargetError("no rule"))))
    assert not made.has_power


def test_disk_calls_wait_for_the_boot() -> None:
    """They are sent to the new agent."""
    made = agent(FakeClient())
    made.power_lost()
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.append(made.call(cast(Any, Disks.files), 2)))
    asking.start()
    assert found == []
    made.power_restored(cast(AgentClient, FakeClient()))
    asking.join(PATIENCE_S)
    assert found == ["answered"]


def test_waiting_for_power_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that does not boot raises an error."""
    monkeypatch.setattr(power_loss, "POWER_TIMEOUT_S", 0.01)
    made = agent(FakeClient())
    made.power_lost()
    with pytest.raises(TargetError, match="node 2's host has had no power for 0 s"):
        made.call(cast(Any, Disks.files), 2)


def test_a_call_in_progress_at_the_power_loss_has_the_answer_without_power() -> None:
    """Calls that need the machine fail, and are not executed later."""
    client = FakeClient(TargetError("the connection was closed"))
    made = agent(client)
    client.losing = made.power_lost
    assert made.call(Machine.is_running, 2) is False
    made.power_restored(cast(AgentClient, client))
    with pytest.raises(TargetError, match="the connection was closed"):
        made.call(Machine.start, 2)


def test_answers_without_power_have_the_methods_types() -> None:
    """A count is a number, a state a text."""
    for method, answer in WITHOUT_POWER.items():
        hint = get_type_hints(method)["return"]
        assert answer is None or isinstance(answer, get_origin(hint) or hint), method
