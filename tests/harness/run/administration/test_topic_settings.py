"""Configurations in layers: each goes alone, and the first value comes back at last."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from harness.admin import configs
from harness.admin.client import AdminClient
from harness.admin.errors import Unreachable
from harness.run.administration.topic_configs import Settings
from nemesis.concurrency import Threads

T = TypeVar("T")


class Fake:
    """A cluster's configurations, and whether it answers."""

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
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """In the place of the administrative requests."""
    fake = Fake()
    monkeypatch.setattr(configs, "alter", fake.alter)
    return fake


@pytest.fixture
def settings(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of that cluster."""
    made = Settings(fake.ask, Threads())
    monkeypatch.setattr(made, "now", lambda topic, name: (fake.own[topic], fake.own[topic]))
    return made


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_each_layer_goes_alone(fake: Fake, settings: Settings, order: tuple[str, str]) -> None:
    """Whichever goes first, the other's value is in force until it goes too."""
    settings.change("one", ["t"], "segment.bytes", "1")
    settings.change("two", ["t"], "segment.bytes", "2")
    assert settings.restore(order[0])
    assert fake.own["t"] == ("2" if order[1] == "two" else "1")
    assert settings.restore(order[1])
    assert settings.restore(order[1])
    assert fake.own["t"] is None


def test_a_restore_that_nobody_hears_is_still_to_be_made(fake: Fake, settings: Settings) -> None:
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


def test_a_restore_is_done_once_it_is_in_force(
    fake: Fake, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that is asked may hear of it later than the controller that took it."""
    settings.change("one", ["t"], "segment.bytes", "1")
    seen: list[str | None] = ["1", "1", None]
    monkeypatch.setattr(settings, "now", lambda topic, name: (None, seen.pop(0)))
    assert [settings.restore("one") for _ in range(3)] == [False, False, True]
    assert fake.own["t"] is None
