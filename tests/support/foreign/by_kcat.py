"""kcat behind the interface of foreign clients: one process per call."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tests.support.foreign.face import (
    PARTITION,
    PATIENCE_S,
    Feature,
    Message,
    Offsets,
    in_the_future_ms,
)


class Kcat:
    """kcat: Debian's program on Debian's librdkafka, years older than confluent-kafka's."""

    name = "kcat"
    cannot: Mapping[Feature, str] = {
        Feature.ADMIN: "kcat has no command that creates a topic",
        Feature.EMPTY_VALUE: "kcat skips empty files and empty lines",
        Feature.NULL_VALUE: "kcat -Z makes null of what is empty, and then skips it without a key",
        Feature.EMPTY_KEY: "kcat -k '' sends no key",
        Feature.NUL_IN_HEADER: "kcat takes headers as arguments and prints them as C strings",
    }

    def create_topic(self, bootstrap: str, topic: str) -> bool:
        raise NotImplementedError(self.cannot[Feature.ADMIN])

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> None:
        settings = ["-X", f"acks={acks}", "-X", f"enable.idempotence={str(idempotent).lower()}"]
        with tempfile.TemporaryDirectory() as directory:
            # A key and headers hold for a whole call.
            for (key, headers), run in groupby(messages, lambda each: (each.key, each.headers)):
                options: list[str | bytes] = [] if key is None else ["-k", key]
                for name, value in headers:
                    options += ["-H", name.encode() + b"=" + value]
                paths = []
                for number, message in enumerate(run):
                    paths.append(Path(directory, str(number)))
                    paths[-1].write_bytes(message.value or b"")
                self._kcat(
                    "-P", "-b", bootstrap, "-t", topic, "-p", str(PARTITION), "-z", codec,
                    *settings, *options, *map(str, paths),
                )  # fmt: skip

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        output = self._kcat(
            "-C", "-q", "-b", bootstrap, "-t", topic, "-p", str(PARTITION), "-o", "beginning",
            "-c", str(count), "-f", "%K %S %h\n%k%s\n",
        )  # fmt: skip
        read = []
        while output:
            line, _, output = output.partition(b"\n")
            key_size, value_size, headers = line.split(b" ", 2)
            key, output = self._take(output, int(key_size))
            value, output = self._take(output, int(value_size))
            output = output.removeprefix(b"\n")
            read.append(Message(value, key, self._headers(headers)))
        return read

    def offsets(self, bootstrap: str, topic: str, at_ms: int) -> Offsets:
        def ask(time_ms: int) -> int:
            answer = self._kcat("-Q", "-b", bootstrap, "-t", f"{topic}:{PARTITION}:{time_ms}")
            return int(answer.split()[-1])

        after = ask(in_the_future_ms())
        return Offsets(ask(-2), ask(-1), ask(at_ms), None if after < 0 else after)

    @staticmethod
    def _take(data: bytes, size: int) -> tuple[bytes | None, bytes]:
        return (None, data) if size < 0 else (data[:size], data[size:])

    @staticmethod
    def _headers(text: bytes) -> tuple[tuple[str, bytes], ...]:
        pairs = [pair.partition(b"=") for pair in text.split(b",") if pair]
        return tuple((name.decode(), value) for name, _, value in pairs)

    @staticmethod
    def _kcat(*arguments: str | bytes) -> bytes:
        done = subprocess.run(
            ["kcat", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode != 0 or done.stderr:
            raise RuntimeError(f"kcat: exit code {done.returncode}: {done.stderr.decode()}")
        return done.stdout
