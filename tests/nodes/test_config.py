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
