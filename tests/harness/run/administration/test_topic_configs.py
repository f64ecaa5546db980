"""Topic configs in layers: any layer can be removed, and the original value comes back at last."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from harness.admin import configs
from harness.admin.client import AdminClient
from harness.admin.errors import Unreachable
from harness.run.administration.topic_configs import LayeredTopicConfigs
from nemesis.concurrency import ThreadTaskRunner

T = TypeVar("T")


class FakeCluster:
    """A cluster's topic configs, and whether the cluster answers."""

    def __init__(self) -> None:
        self.own: dict[str, str | None] = {"t": None}
        self.deaf = False

    def ask(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Nobody but the settings' own stand-ins is asked."""
        if self.deaf:
            raise Unreachable("nobody answers")
        return work(None)  # type: ignore[arg-type,return-value]

    def alter(self, admin: Any, changes: Any) -> None:
        """Set or delete."""
        for resource, values in changes.items():
            self.own[resource.name] = values["segment.bytes"]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """In the place of the administrative requests."""
    fake = FakeCluster()
    monkeypatch.setattr(configs, "alter", fake.alter)
    return fake


@pytest.fixture
def settings(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> LayeredTopicConfigs:
    """Of that cluster."""
    made = LayeredTopicConfigs(fake.ask, ThreadTaskRunner())
    monkeypatch.setattr(made, "current", lambda topic, name: (fake.own[topic], fake.own[topic]))
    return made


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_layers_can_be_removed_in_any_order(
    fake: FakeCluster, settings: LayeredTopicConfigs, order: tuple[str, str]
) -> None:
    """Whichever goes first, the other's value is in force until it goes too."""
    settings.change("one", ["t"], "segment.bytes", "1")
    settings.change("two", ["t"], "segment.bytes", "2")
    assert settings.restore(order[0])
    assert fake.own["t"] == ("2" if order[1] == "two" else "1")
    assert settings.restore(order[1])
    assert settings.restore(order[1])
    assert fake.own["t"] is None


def test_restore_without_an_answer_must_be_repeated(
    fake: FakeCluster, settings: LayeredTopicConfigs
) -> None:
    """So is one of a change whose answer was lost."""
    settings.change("one", ["t"], "segment.bytes", "1")
    fake.deaf = True
    with pytest.raises(Unreachable):
        settings.restore("one")
    with pytest.raises(Unreachable):
        settings.change("two", ["t"], "segment.bytes", "2")
    fake.deaf = False
    assert settings.restore("two")
    assert fake.own["t"] == "1"
    assert settings.restore("one")
    assert fake.own["t"] is None


def test_restore_is_done_when_the_value_is_in_force(
    fake: FakeCluster, settings: LayeredTopicConfigs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that is asked may hear of it later than the controller that took it."""
    settings.change("one", ["t"], "segment.bytes", "1")
    seen: list[str | None] = ["1", "1", None]
    monkeypatch.setattr(settings, "current", lambda topic, name: (None, seen.pop(0)))
    assert [settings.restore("one") for _ in range(3)] == [False, False, True]
    assert fake.own["t"] is None
