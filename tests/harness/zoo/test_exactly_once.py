"""The zoo's program, with a library whose call never returns."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from harness.workloads.app import environment

RUN_TIMEOUT_S = 120
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_program_ends_when_a_call_of_the_library_hangs(tmp_path: Path) -> None:
    """As send_offsets_to_transaction of librdkafka may. The alarm was set before, and then it is
    started again."""
    stub = """
        import signal, threading
        from unittest.mock import MagicMock

        alarm = signal.alarm
        signal.alarm = lambda seconds: print("alarm", seconds, flush=True)  # later, below

        class KafkaException(Exception):
            pass

        Consumer, Producer, TopicPartition, Message = (MagicMock() for _ in range(4))
        record = MagicMock(**{"error.return_value": None, "offset.return_value": 7})
        Consumer().consume.return_value = [record]

        def hang(*arguments):
            print("hangs", flush=True)
            alarm(1)
            threading.Event().wait()

        Producer().send_offsets_to_transaction = hang
    """
    (tmp_path / "confluent_kafka.py").write_text(textwrap.dedent(stub))
    done = subprocess.run(
        [sys.executable, "-m", "harness.zoo.exactly_once"],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", **dict.fromkeys(environment.NAMES, "1")},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["alarm 15", "hangs"], done.stderr
    assert done.returncode == -signal.SIGALRM, done.stderr
