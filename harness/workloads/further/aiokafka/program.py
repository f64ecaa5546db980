"""The aiokafka program: reads commands, and gives each to its client.

python -m harness.workloads.further.aiokafka.program
"""

import asyncio
import json
import os
import sys
from importlib.metadata import version
from typing import Final

from harness.workloads.clients.program.protocol import VERSION
from harness.workloads.further.aiokafka.client import Client, write
from harness.workloads.further.aiokafka.consuming import ConsumerClient
from harness.workloads.further.aiokafka.producing import ProducerClient

LONGEST_LINE: Final = 1 << 28
CLIENTS: Final[dict[str, type[Client]]] = {
    "open-producer": ProducerClient,
    "open-consumer": ConsumerClient,
}
KINDS: Final = ("group", "copy", "transactions")


async def main() -> None:
    """Read commands until the end of the standard input."""
    lines = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    clients: dict[int, Client] = {}
    running: set[asyncio.Task[None]] = set()
    while line := await lines.readline():
        command = json.loads(line)
        if command["do"] == "hello":
            what = {"name": "aiokafka", "version": version("aiokafka"), "kinds": KINDS}
            write({"id": command["id"], "protocol": VERSION, **what})
            continue
        number = command["client"]
        if (kind := CLIENTS.get(command["do"])) is not None:
            clients[number] = kind(number)
            task = asyncio.create_task(clients[number].run())
            running.add(task)
            task.add_done_callback(running.discard)
            task.add_done_callback(_end_if_failed)
        clients[number].commands.put_nowait(command)


def _end_if_failed(task: "asyncio.Task[None]") -> None:
    """End the program if a client has ended by a mistake: its commands would wait for ever."""
    if task.cancelled() or task.exception() is not None:
        sys.stderr.write(f"{task}\n")
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    asyncio.new_event_loop().run_until_complete(main())
    os._exit(0)  # at once, without leaving groups
