"""The settings of a node that no other test reads."""

import pytest

from nodes.config import ConfigError, load_config

NODE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
    "controller.quorum.voters": "1@127.0.0.1:2",
    "log.dirs": "/data",
}


def test_cleaner_has_the_defaults_of_kafka() -> None:
    config, unknown = load_config(NODE)
    cleaner = config.cleaner
    assert cleaner.enabled
    assert (cleaner.backoff_ms, cleaner.io_buffer_bytes) == (15_000, 512 << 10)
    assert (cleaner.dedupe_buffer_bytes, cleaner.buffer_load_factor) == (128 << 20, 0.9)
    assert cleaner.max_bytes_per_second > 1e308
    assert unknown == []


@pytest.mark.parametrize("off", [{"log.cleaner.enable": "false"}, {"log.cleaner.threads": "0"}])
def test_cleaner_can_be_disabled(off: dict[str, str]) -> None:
    assert not load_config({**NODE, **off})[0].cleaner.enabled


@pytest.mark.parametrize("rate", ["0", "-1", "fast", "nan"])
def test_rate_of_the_cleaner_is_above_zero(rate: str) -> None:
    with pytest.raises(ConfigError, match=r"log\.cleaner\.io\.max\.bytes\.per\.second"):
        load_config({**NODE, "log.cleaner.io.max.bytes.per.second": rate})


ZOOKEEPER = {
    "node.id": "1",
    "process.roles": "broker",
    "listeners": "PLAINTEXT://127.0.0.1:1",
    "log.dirs": "/data",
    "zookeeper.connect": "zk1:2181,zk2:2182/kafka/a/",
}


def test_broker_with_zookeeper_needs_no_quorum() -> None:
    config, unknown = load_config(ZOOKEEPER)
    assert config.zookeeper is not None
    assert config.zookeeper.servers == (("zk1", 2181), ("zk2", 2182))
    assert config.zookeeper.chroot == "/kafka/a"
    assert config.zookeeper.session_timeout_ms == config.zookeeper.connection_timeout_ms == 18_000
    assert config.zookeeper.batched
    assert (config.is_broker, config.is_controller, unknown) == (True, False, [])


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"zookeeper.connect": "zk1"}, r"'zk1' is not host:port"),
        ({"zookeeper.connect": "/kafka"}, r"names no server"),
        ({"process.roles": "broker,controller"}, r"zookeeper\.connect is for brokers without"),
        ({"controller.quorum.voters": "1@127.0.0.1:2"}, r"zookeeper\.connect is for brokers"),
        ({"control.batched": "maybe"}, r"control\.batched=maybe"),
    ],
)
def test_zookeeper_that_cannot_be_used_is_refused(
    properties: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config({**ZOOKEEPER, **properties})
