"""The process that delays a machine's packets.

Its command is `python -m harness.targets.linux.packets.packet_holder`.

It runs in the machine's network namespace. The kernel's netfilter queue hands it the packets of the
slow links of this machine: one queue for each source machine, with the source's number. The process
sees the size of a packet, not its content, unless it waits for a request to hold (`request_holds`).
It returns its verdicts late, or in another order.

It reads commands as JSON lines from its standard input and answers each with one line: `set` a
layer of a source, `unset` a layer, `show` the counts of a source; `watch` the requests of a source,
`let-go` what is held, `unwatch`, and show what was `seen`. When its input ends, it passes on
all packets that it holds and exits, so it never outlives the harness. After that the kernel lets
packets pass by itself (`_QUEUE_BYPASS` in the firewall's rule). The imports are few, because a
fault waits for the start of this process.
"""

import contextlib
import heapq
import json
import os
import random
import select
import socket
import struct
import time
from collections.abc import Iterable
from typing import Any, Final

from harness.targets.linux.packets import netlink
from harness.targets.linux.packets.netlink import Message, attribute, attributes, nfgen
from harness.targets.linux.packets.request_holds import RequestHolds
from harness.targets.linux.packets.scheduler import PacketScheduler, layer_from_fields

_QUEUE: Final = 3 << 8
_PACKET, _VERDICT, _CONFIG = _QUEUE | 0, _QUEUE | 1, _QUEUE | 2
_CFG_CMD, _CFG_PARAMS, _CFG_MAXLEN, _CFG_MASK, _CFG_FLAGS = 1, 2, 3, 4, 5
_BIND = 1
_COPY_PACKET = 2
_FLAG_GSO = 4
_PACKET_HDR, _VERDICT_HDR, _PAYLOAD, _CAP_LEN = 1, 2, 10, 13
_DROP, _ACCEPT = 0, 1

MAX_HELD: Final = 20_000
"""Packets that the kernel keeps for one source; it drops packets beyond this number."""
_BUFFER_BYTES: Final = 8 << 20
_READS_PER_TURN: Final = 256
_SIZE_ONLY, _WHOLE = 1, 0xFFFF
"""Bytes of a packet that the kernel copies to this process."""
_WHOLE_MESSAGE_BYTES: Final = 1 << 17
_LINE_BYTES: Final = 1 << 16
_TABLE_BYTES: Final = 1 << 16


class PacketHolder:
    """The schedulers of this machine's links, and the packets that wait for their time."""

    def __init__(self) -> None:
        """Open the socket to the queues. Raises OSError."""
        self._netlink = netlink.Netlink(netlink.NETFILTER)
        self._netlink.widen(_BUFFER_BYTES)
        self.descriptor = self._netlink.fileno()
        self._schedulers: dict[int, PacketScheduler] = {}
        self._held: list[tuple[float, int, int, int, float]] = []
        """A heap of (due time, running number, queue, packet, arrival time)."""
        self._number = 0
        self._requests: dict[int, RequestHolds] = {}
        """By queue."""

    def execute(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute a command and return its answer.

        Raises OSError, KeyError, TypeError, ValueError.
        """
        queue, layer = int(command["queue"]), str(command.get("layer"))
        scheduler = self._schedulers.get(queue)
        match command["do"]:
            case "set":
                scheduler = scheduler or self._open(queue)
                scheduler.layers[layer] = layer_from_fields(command["what"])
                self.take()  # packets of other queues that arrived while this queue was bound
                return {}
            case "unset":
                if (
                    scheduler is not None
                    and scheduler.layers.pop(layer, None) is not None
                    and not scheduler.layers
                ):
                    self.flush(queue)
                return {"left": self._left(queue)}
            case "watch" | "let-go" | "unwatch" | "seen" as what:
                return self._watch(queue, layer, what, command)
            case "show":
                if scheduler is None or layer not in scheduler.layers:
                    return {}
                counts = scheduler.counts
                return counts._replace(lost=counts.lost + _overflowed(queue))._asdict()
            case unknown:
                raise ValueError(f"there is no command {unknown!r}")

    def _watch(self, queue: int, layer: str, what: str, command: dict[str, Any]) -> dict[str, Any]:
        """Execute a command about the requests of a source."""
        now_s, holds = time.monotonic(), self._requests.get(queue)
        if what == "watch":
            if queue not in self._schedulers:
                self._open(queue)
            if holds is None:
                holds = self._requests[queue] = RequestHolds()
                self._copy(queue, _WHOLE)
            holds.watch(layer, int(command["port"]), command["hold"], command["note"])
            self.take()
            return {}
        if holds is None:
            return {"left": self._left(queue)}
        if what == "seen":
            return holds.seen(layer, now_s)
        if what == "let-go":
            self._accept(queue, holds.let_go(layer, now_s))
            return {}
        self._accept(queue, holds.unwatch(layer, now_s))
        if not holds.watches:
            del self._requests[queue]
            self._copy(queue, _SIZE_ONLY)
        return {"left": self._left(queue)}

    def _left(self, queue: int) -> int:
        """How many layers still need the packets of a source."""
        scheduler, holds = self._schedulers.get(queue), self._requests.get(queue)
        return (len(scheduler.layers) if scheduler else 0) + (len(holds.watches) if holds else 0)

    def wait_s(self) -> float | None:
        """Seconds until the next held packet is due; None when no packet is held."""
        return max(0.0, self._held[0][0] - time.monotonic()) if self._held else None

    def take(self) -> None:
        """Read the packets that the kernel has queued, and decide when each one goes on."""
        verdicts = []
        size_bytes = _WHOLE_MESSAGE_BYTES if self._requests else netlink.UNASKED_BYTES
        for kind, body in self._netlink.pending(_READS_PER_TURN, size_bytes):
            if kind != _PACKET:
                continue  # the kernel reports a verdict for a packet that it has dropped already
            now_s, (queue,) = time.monotonic(), struct.unpack_from(">H", body, 2)
            packet, size_bytes, content = _described(body)
            holds = self._requests.get(queue)
            if holds is not None and holds.keep(packet, content, now_s):
                continue
            scheduler = self._schedulers.get(queue)
            due_s = now_s if scheduler is None else scheduler.schedule(now_s, size_bytes)
            if due_s is None:
                verdicts.append(_verdict(queue, packet, _DROP))
            elif due_s <= now_s:
                verdicts.append(_verdict(queue, packet, _ACCEPT))
            else:
                self._number += 1
                heapq.heappush(self._held, (due_s, self._number, queue, packet, now_s))
        self._netlink.post(verdicts)

    def release_due(self) -> None:
        """Pass on the packets that are due."""
        now_s, verdicts = time.monotonic(), []
        while self._held and self._held[0][0] <= now_s:
            _due_s, _number, queue, packet, arrived_s = heapq.heappop(self._held)
            verdicts.append(_verdict(queue, packet, _ACCEPT))
            self._schedulers[queue].record_departure(arrived_s, now_s)
        self._netlink.post(verdicts)

    def flush(self, queue: int | None = None) -> None:
        """Pass on all held packets of one source, or of all sources, in their order."""
        now_s = time.monotonic()
        released = sorted(held for held in self._held if queue in (None, held[2]))
        self._held = [held for held in self._held if queue not in (None, held[2])]
        heapq.heapify(self._held)
        schedulers = self._schedulers
        for scheduler in schedulers.values() if queue is None else [schedulers[queue]]:
            scheduler.flushed(now_s)
        self._netlink.post([_verdict(held[2], held[3], _ACCEPT) for held in released])

    def let_all_requests_go(self) -> None:
        """Pass on everything that is held for a request."""
        now_s = time.monotonic()
        for queue, holds in self._requests.items():
            for layer in list(holds.watches):
                self._accept(queue, holds.let_go(layer, now_s))

    def close(self) -> None:
        """Close the queues; the kernel drops the packets that are still held."""
        self._netlink.close()

    def _accept(self, queue: int, packets: Iterable[int]) -> None:
        self._netlink.post([_verdict(queue, packet, _ACCEPT) for packet in packets])

    def _open(self, queue: int) -> PacketScheduler:
        """Take the packets of a source from now on."""
        self._bind(queue)
        made = self._schedulers[queue] = PacketScheduler(random.Random(f"{queue}"))
        return made

    def _copy(self, queue: int, size_bytes: int) -> None:
        """Let the kernel copy so much of each packet of a source."""
        params = attribute(_CFG_PARAMS, struct.pack(">IB", size_bytes, _COPY_PACKET))
        self._netlink.request(Message(_CONFIG, 0, nfgen(socket.AF_UNSPEC, queue) + params))

    def _bind(self, queue: int) -> None:
        params = struct.pack(">IB", _SIZE_ONLY, _COPY_PACKET)
        body = (
            attribute(_CFG_CMD, struct.pack(">BBH", _BIND, 0, socket.AF_INET)),
            attribute(_CFG_PARAMS, params) + attribute(_CFG_MAXLEN, MAX_HELD),
            # Large segments stay whole: the kernel would split them only for this process.
            attribute(_CFG_FLAGS, _FLAG_GSO) + attribute(_CFG_MASK, _FLAG_GSO),
        )
        for part in body:
            self._netlink.request(Message(_CONFIG, 0, nfgen(socket.AF_UNSPEC, queue) + part))


def _overflowed(queue: int) -> int:
    """Return how many packets the kernel dropped because a queue or a socket was full.

    Columns of /proc/net/netfilter/nfnetlink_queue: queue, socket, waiting, copy mode and range,
    dropped by the queue, dropped at the socket, last packet, 1.
    """
    descriptor = os.open("/proc/self/net/netfilter/nfnetlink_queue", os.O_RDONLY)
    try:
        text = os.read(descriptor, _TABLE_BYTES).decode()
    finally:
        os.close(descriptor)
    rows = [[int(column) for column in line.split()] for line in text.splitlines()]
    return sum(row[5] + row[6] for row in rows if row[0] == queue)


def _described(body: bytes) -> tuple[int, int, bytes]:
    """Return (number, size in bytes, content) of a packet that the kernel hands over. The content
    is as much of the packet as the kernel copies.
    """
    packet = size_bytes = 0
    content = b""
    for number, value in attributes(body[4:]):
        if number == _PACKET_HDR:
            (packet,) = struct.unpack_from(">I", value)
        elif number == _CAP_LEN:
            (size_bytes,) = struct.unpack(">I", value)
        elif number == _PAYLOAD:
            content = value
    return packet, size_bytes or len(content), content


def _verdict(queue: int, packet: int, verdict: int) -> Message:
    header = attribute(_VERDICT_HDR, struct.pack(">II", verdict, packet))
    return Message(_VERDICT, 0, nfgen(socket.AF_UNSPEC, queue) + header)


def main() -> None:
    """Hold packets and execute commands until the input ends."""
    holder, commands = PacketHolder(), b""
    while True:
        readable, _, _ = select.select([0, holder.descriptor], [], [], holder.wait_s())
        holder.release_due()
        if holder.descriptor in readable:
            holder.take()
        if 0 in readable:
            data = os.read(0, _LINE_BYTES)
            if not data:
                break
            *lines, commands = (commands + data).split(b"\n")
            for line in lines:
                try:
                    answer = holder.execute(json.loads(line))
                except (OSError, KeyError, TypeError, ValueError) as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                # A harness that does not read the answer is dead, and the input is about to end.
                with contextlib.suppress(BrokenPipeError):
                    os.write(1, json.dumps(answer).encode() + b"\n")
    holder.let_all_requests_go()
    holder.flush()


if __name__ == "__main__":
    main()
