"""Configs in layers: any layer can be removed, and the original value comes back at last."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest

from harness.admin import configs
from harness.admin.client import AdminClient
from harness.admin.configs import Resource
from harness.admin.descriptions import Config
from harness.admin.errors import RequestRefused, Unreachable
from harness.run.administration.layered_configs import ALL_BROKERS, LayeredConfigs
from nemesis.concurrency import ThreadTaskRunner

T = TypeVar("T")
TOPIC = configs.topic("t")


class FakeCluster:
    """A cluster's topic configs, and whether the cluster answers."""

    def __init__(self) -> None:
        self.own: dict[str, str | None] = {"t": None, "u": None}
        self.deaf = False
        self.requests = 0

    def ask(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Nobody but the settings' own stand-ins is asked."""
        if self.deaf:
            raise Unreachable("nobody answers")
        return work(None)  # type: ignore[arg-type,return-value]

    def alter(self, admin: Any, changes: Any) -> None:
        """Set or delete."""
        self.requests += 1
        for resource, values in changes.items():
            self.own[resource.name] = values["segment.bytes"]

    def describe(self, admin: Any, resources: Sequence[Resource]) -> dict[Resource, list[Config]]:
        """Tell the topics' own values."""
        self.requests += 1
        return {each: [_config(self.own[each.name])] for each in resources}


def _config(own: str | None) -> Config:
    source = "DEFAULT_CONFIG" if own is None else "DYNAMIC_TOPIC_CONFIG"
    return Config(name="segment.bytes", value=own or "1073741824", source=source)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """In the place of the administrative requests."""
    fake = FakeCluster()
    monkeypatch.setattr(configs, "alter", fake.alter)
    monkeypatch.setattr(configs, "describe", fake.describe)
    return fake


@pytest.fixture
def settings(fake: FakeCluster) -> LayeredConfigs:
    """Of that cluster."""
    return LayeredConfigs(fake.ask, ThreadTaskRunner())


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_layers_can_be_removed_in_any_order(
    fake: FakeCluster, settings: LayeredConfigs, order: tuple[str, str]
) -> None:
    """Whichever goes first, the other's value is in force until it goes too."""
    settings.change("one", [TOPIC], "segment.bytes", "1")
    settings.change("two", [TOPIC], "segment.bytes", "2")
    assert settings.restore(order[0])
    assert fake.own["t"] == ("2" if order[1] == "two" else "1")
    assert settings.restore(order[1])
    assert settings.restore(order[1])
    assert fake.own["t"] is None


def test_all_resources_share_a_request(fake: FakeCluster, settings: LayeredConfigs) -> None:
    """One request each took minutes over slow links (seed 81609)."""
    settings.change("one", [TOPIC, configs.topic("u")], "segment.bytes", "1")
    assert (fake.own, fake.requests) == ({"t": "1", "u": "1"}, 2)
    assert settings.restore("one")
    assert (fake.own, fake.requests) == ({"t": None, "u": None}, 4)


def test_restore_without_an_answer_must_be_repeated(
    fake: FakeCluster, settings: LayeredConfigs
) -> None:
    """So is one of a change whose answer was lost."""
    settings.change("one", [TOPIC], "segment.bytes", "1")
    fake.deaf = True
    with pytest.raises(Unreachable):
        settings.restore("one")
    with pytest.raises(Unreachable):
        settings.change("two", [TOPIC], "segment.bytes", "2")
    fake.deaf = False
    assert settings.restore("two")
    assert fake.own["t"] == "1"
    assert settings.restore("one")
    assert fake.own["t"] is None


def test_defaults_of_all_brokers_have_only_values_of_their_own(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is not set there is none at all; a topic has a value for each config."""
    made = LayeredConfigs(fake.ask, ThreadTaskRunner())
    named = Config(name="a", value="1", source="DYNAMIC_DEFAULT_BROKER_CONFIG")
    monkeypatch.setattr(configs, "describe", lambda admin, of: {of[0]: [named]})
    assert made.current(ALL_BROKERS, "a") == ("1", "1")
    assert made.current(ALL_BROKERS, "b") == (None, None)
    assert made.current(TOPIC, "a") == ("1", None)
    with pytest.raises(RequestRefused, match="topic t has no config b"):
        made.current(TOPIC, "b")


def test_restore_is_done_when_the_value_is_in_force(
    fake: FakeCluster, settings: LayeredConfigs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that is asked may hear of it later than the controller that took it."""
    settings.change("one", [TOPIC], "segment.bytes", "1")
    seen: list[str | None] = ["1", "1", None]
    monkeypatch.setattr(configs, "describe", lambda admin, of: {of[0]: [_config(seen.pop(0))]})
    assert [settings.restore("one") for _ in range(3)] == [False, False, True]
    assert fake.own["t"] is None
