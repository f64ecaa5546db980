"""The process that holds a machine's packets back: `python -m
harness.targets.linux.packets.holding`.

It runs in the machine's network namespace and is given the packets of the links that are slow
there by the kernel's netfilter queue: one queue for each source, whose number is the source's. It
sees their sizes, not their content, and gives its verdicts late, or in another order.

It takes orders as JSON lines on its standard input and answers each with one line: `set` a layer
of a source, `unset` one, `show` a source's tally. It ends with its input, so that it never
outlives who gives the orders, after letting go what it holds; from then on the kernel lets packets
pass by themselves (the rule that hands them over says so). Nothing but light imports: a fault waits
for its start.
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
from typing import Any, Final

from harness.targets.linux.packets import netlink
from harness.targets.linux.packets.netlink import Message, attribute, attributes, nfgen
from harness.targets.linux.packets.wire import Wire, layer_of

_QUEUE: Final = 3 << 8
_PACKET, _VERDICT, _CONFIG = _QUEUE | 0, _QUEUE | 1, _QUEUE | 2
_CFG_CMD, _CFG_PARAMS, _CFG_MAXLEN, _CFG_MASK, _CFG_FLAGS = 1, 2, 3, 4, 5
_BIND = 1
_COPY_PACKET = 2
_FLAG_GSO = 4
_PACKET_HDR, _VERDICT_HDR, _CAP_LEN = 1, 2, 13
_DROP, _ACCEPT = 0, 1

MAX_HELD: Final = 20_000
"""Packets that the kernel keeps for one source; what comes on top of them is lost."""
_BUFFER_BYTES: Final = 8 << 20
_READS_PER_TURN: Final = 256
_LINE_BYTES: Final = 1 << 16
_TABLE_BYTES: Final = 1 << 16


class Holder:
    """Every wire of this machine, and the packets that wait for their time."""

    def __init__(self) -> None:
        """Open the socket to the queues. Raises OSError."""
        self._netlink = netlink.Netlink(netlink.NETFILTER)
        self._netlink.widen(_BUFFER_BYTES)
        self.descriptor = self._netlink.fileno()
        self._wires: dict[int, Wire] = {}
        self._held: list[tuple[float, int, int, int, float]] = []
        """(when it may go, running number, queue, packet, when it arrived): a heap."""
        self._number = 0

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what an order says, and answer. Raises OSError, KeyError, TypeError, ValueError."""
        queue, layer = int(order["queue"]), str(order.get("layer"))
        wire = self._wires.get(queue)
        match order["do"]:
            case "set":
                if wire is None:
                    self._bind(queue)
                    wire = self._wires[queue] = Wire(random.Random(f"{layer}/{queue}"))
                wire.layers[layer] = layer_of(order["what"])
                self.take()  # of other queues: what came while this one was made
                return {}
            case "unset":
                if (
                    wire is not None
                    and wire.layers.pop(layer, None) is not None
                    and not wire.layers
                ):
                    self.let_go(queue)
                return {"left": 0 if wire is None else len(wire.layers)}
            case "show":
                if wire is None or layer not in wire.layers:
                    return {}
                tally = wire.tally
                return tally._replace(lost=tally.lost + _overflowed(queue))._asdict()
            case unknown:
                raise ValueError(f"there is no order {unknown!r}")

    def wait_s(self) -> float | None:
        """How long until the next held packet may go; None when there is none."""
        return max(0.0, self._held[0][0] - time.monotonic()) if self._held else None

    def take(self) -> None:
        """Take over what the kernel hands us, and decide when it goes on."""
        verdicts = []
        for kind, body in self._netlink.pending(_READS_PER_TURN):
            if kind != _PACKET:
                continue  # the kernel's complaint of a verdict for what it has dropped meanwhile
            now_s, (queue,) = time.monotonic(), struct.unpack_from(">H", body, 2)
            packet, size_bytes = _described(body)
            wire = self._wires.get(queue)
            due_s = now_s if wire is None else wire.arrive(now_s, size_bytes)
            if due_s is None:
                verdicts.append(_verdict(queue, packet, _DROP))
            elif due_s <= now_s:
                verdicts.append(_verdict(queue, packet, _ACCEPT))
            else:
                self._number += 1
                heapq.heappush(self._held, (due_s, self._number, queue, packet, now_s))
        self._netlink.post(verdicts)

    def release(self) -> None:
        """Let go whatever may go by now."""
        now_s, verdicts = time.monotonic(), []
        while self._held and self._held[0][0] <= now_s:
            _due_s, _number, queue, packet, arrived_s = heapq.heappop(self._held)
            verdicts.append(_verdict(queue, packet, _ACCEPT))
            self._wires[queue].left(arrived_s, now_s)
        self._netlink.post(verdicts)

    def let_go(self, queue: int | None = None) -> None:
        """Let go everything that is held, of one source or of all, in its order."""
        now_s = time.monotonic()
        going = sorted(held for held in self._held if queue in (None, held[2]))
        self._held = [held for held in self._held if queue not in (None, held[2])]
        heapq.heapify(self._held)
        for wire in self._wires.values() if queue is None else [self._wires[queue]]:
            wire.flushed(now_s)
        self._netlink.post([_verdict(held[2], held[3], _ACCEPT) for held in going])

    def close(self) -> None:
        """Close the queues; the kernel drops what is still held."""
        self._netlink.close()

    def _bind(self, queue: int) -> None:
        params = struct.pack(">IB", 1, _COPY_PACKET)
        body = (
            attribute(_CFG_CMD, struct.pack(">BBH", _BIND, 0, socket.AF_INET)),
            attribute(_CFG_PARAMS, params) + attribute(_CFG_MAXLEN, MAX_HELD),
            # Large segments stay whole: they would be cut for our eyes only.
            attribute(_CFG_FLAGS, _FLAG_GSO) + attribute(_CFG_MASK, _FLAG_GSO),
        )
        for part in body:
            self._netlink.request(Message(_CONFIG, 0, nfgen(socket.AF_UNSPEC, queue) + part))


def _overflowed(queue: int) -> int:
    """Packets that the kernel dropped because more were waiting than a queue or a socket takes.

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


def _described(body: bytes) -> tuple[int, int]:
    """(number, size in bytes) of a packet that the kernel hands over."""
    packet = size_bytes = 0
    for number, value in attributes(body[4:]):
        if number == _PACKET_HDR:
            (packet,) = struct.unpack_from(">I", value)
        elif number == _CAP_LEN:
            (size_bytes,) = struct.unpack(">I", value)
    return packet, size_bytes


def _verdict(queue: int, packet: int, verdict: int) -> Message:
    header = attribute(_VERDICT_HDR, struct.pack(">II", verdict, packet))
    return Message(_VERDICT, 0, nfgen(socket.AF_UNSPEC, queue) + header)


def main() -> None:
    """Hold packets and take orders until the input ends."""
    holder, orders = Holder(), b""
    while True:
        readable, _, _ = select.select([0, holder.descriptor], [], [], holder.wait_s())
        holder.release()
        if holder.descriptor in readable:
            holder.take()
        if 0 in readable:
            data = os.read(0, _LINE_BYTES)
            if not data:
                break
            *lines, orders = (orders + data).split(b"\n")
            for line in lines:
                try:
                    answer = holder.obey(json.loads(line))
                except (OSError, KeyError, TypeError, ValueError) as error:
                    answer = {"error": f"{type(error).__name__}: {error}"}
                # Who does not wait for it is dead, and the input is about to end.
                with contextlib.suppress(BrokenPipeError):
                    os.write(1, json.dumps(answer).encode() + b"\n")
    holder.let_go()


if __name__ == "__main__":
    main()
