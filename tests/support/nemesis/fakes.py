"""A cluster of dictionaries, a clock that moves when somebody waits, a journal in memory."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from nemesis.hosts import ClockReading, Cut, Hosts, LinkCounters, LinkQuality
from nemesis.requests import RequestFilter, WatchedRequests
from tests.support.nemesis.administration import FakeAdministration
from tests.support.nemesis.fake_disks import FakeDisks
from tests.support.nemesis.fake_power import FakePower


@dataclass
class Trace:
    """What happened in which order, over all fakes of a test."""

    entries: list[tuple[object, ...]] = field(default_factory=list)

    def of(self, kind: str) -> list[tuple[object, ...]]:
        """The entries of one kind."""
        return [entry for entry in self.entries if entry[0] == kind]


class FakeClock:
    """Run time that passes in `wait`; `stop_at_ns` makes the stop arrive during a wait."""

    def __init__(self) -> None:
        self.ns = 1_000_000_000
        self.stop_at_ns: int | None = None

    def now_ns(self) -> int:
        """The fake time."""
        return self.ns

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Let time pass at once."""
        self.ns += max(1, round(seconds * 1e9))
        time.sleep(0)  # who works beside the nemesis has real work to do
        if self.stop_at_ns is not None and self.ns >= self.stop_at_ns:
            stop.set()
        return stop.is_set()


class FakeProcesses:
    """Processes as letters."""

    def __init__(self, machines: "FakeMachines", nodes: Sequence[int]) -> None:
        self._did = machines.did
        self.states = dict.fromkeys(nodes, "S")
        self.deaf: set[int] = set()
        """Who does not end when told to."""
        self.ending: set[int] = set()
        """Who was told so since it started, and has not ended yet."""

    def node_ids(self) -> Sequence[int]:
        """All nodes."""
        return list(self.states)

    def start(self, node: int) -> None:
        """Run again."""
        self._did("start", node)
        self.states[node] = "S"
        self.ending.discard(node)

    def kill(self, node: int) -> None:
        """Gone."""
        self._did("kill", node)
        self.states[node] = ""
        self.ending.discard(node)

    def pause(self, node: int) -> None:
        """Stopped."""
        self._did("pause", node)
        self.states[node] = "T"

    def resume(self, node: int) -> None:
        """Running."""
        self._did("resume", node)
        self.states[node] = "S"

    def terminate(self, node: int) -> None:
        """Gone, or ignored by those that do not listen."""
        self._did("terminate", node)
        if node not in self.deaf:
            self.states[node] = ""
        elif self.states[node]:
            self.ending.add(node)

    def exit_code(self, node: int) -> int | None:
        """In order, once it has ended."""
        return None if self.states[node] else 0

    def is_running(self, node: int) -> bool:
        """Whether there is a process."""
        return self.states[node] != ""

    def state(self, node: int) -> str:
        """The letter."""
        return self.states[node]


class FakeClients:
    """Two processes of clients."""

    def __init__(self, machines: "FakeMachines") -> None:
        self._did = machines.did
        self.letters = {101: "S", 102: "S"}

    def pause(self) -> None:
        """Stopped."""
        self._did("pause-clients")
        self.letters = dict.fromkeys(self.letters, "T")

    def resume(self) -> None:
        """Running."""
        self._did("resume-clients")
        self.letters = dict.fromkeys(self.letters, "S")

    def states(self) -> dict[int, str]:
        """The letters by pid."""
        return dict(self.letters)


class FakeLinks:
    """Packet counters that count when traffic is said to flow."""

    def __init__(self, machines: "FakeMachines") -> None:
        self._did = machines.did
        self.blocked: dict[Cut, int] = {}
        self.layers: dict[tuple[tuple[int, int], str], LinkQuality] = {}
        self.resets: dict[str, int] = {}
        self.watches: dict[tuple[tuple[int, int], str], WatchedRequests] = {}
        self.answer_ms = self.waited_ms = 0.0
        """How long it takes to look at the watch of one link, and how long all looks took."""
        self.traffic = 7

    def block(self, *cuts: Cut) -> None:
        """Packets are dropped from now on."""
        for cut in cuts:
            self._did("block", *cut[:3])
            self.blocked.setdefault(cut, self.traffic)

    def unblock(self, *cuts: Cut) -> None:
        """Packets pass again."""
        for cut in cuts:
            self._did("unblock", *cut[:3])
            self.blocked.pop(cut, None)

    def dropped(self, cut: Cut) -> int | None:
        """The counter."""
        return self.blocked.get(cut)

    def dropped_in_total(self, cut: Cut) -> int:
        """The counter."""
        return self.blocked.get(cut, 0)

    def requests_arrived(self, cut: Cut) -> int | None:
        """As many as were dropped."""
        return self.blocked.get(cut)

    def prepare(self, links: Sequence[tuple[int, int]], quality: LinkQuality) -> None:
        """Noted."""
        self._did("prepare", *links)

    def degrade(self, links: Sequence[tuple[int, int]], quality: LinkQuality, layer: str) -> None:
        """Every link gets the layer."""
        for link in links:
            self._did("degrade", *link)
            self.layers[link, layer] = quality

    def restore(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Every link loses the layer."""
        for link in links:
            self._did("restore", *link)
            self.layers.pop((link, layer), None)

    def counters(self, link: tuple[int, int], layer: str) -> LinkCounters | None:
        """As much traffic as there is, all of it badly treated in the ways that were asked for."""
        quality, n = self.layers.get((link, layer)), self.traffic
        if quality is None:
            return None
        return LinkCounters(
            packets=n,
            delayed=n if quality.delay_ms or quality.bytes_per_s else 0,
            mean_delay_ms=quality.delay_ms if n else 0.0,
            lost=n if quality.lost else 0,
            reordered=n if quality.reordered else 0,
            duplicated=n if quality.duplicated else 0,
        )

    def watch_requests(
        self,
        links: Sequence[tuple[int, int]],
        layer: str,
        port: int,
        hold: RequestFilter | None,
        note: RequestFilter | None,
    ) -> None:
        """Every link is watched; a test says what was seen."""
        for link in links:
            self._did("watch", link, port, hold, note)
            self.watches.setdefault((link, layer), WatchedRequests(None, None, ()))

    def let_requests_go(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Every held request has passed after its present age."""
        for link in links:
            self._did("let-go", link)
            seen = self.watches.get((link, layer))
            if seen is not None and seen.held is not None:
                self.watches[link, layer] = seen._replace(held_ms=seen.held.age_ms)

    def unwatch_requests(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """No link is watched any more."""
        for link in links:
            self._did("unwatch", link)
            self.watches.pop((link, layer), None)

    def watched_requests(self, link: tuple[int, int], layer: str) -> WatchedRequests | None:
        """As the test has set it, and older by `answer_ms` with each call."""
        seen, waited = self.watches.get((link, layer)), self.waited_ms
        self.waited_ms += self.answer_ms
        if seen is None:
            return None
        held = None if seen.held is None else seen.held._replace(age_ms=seen.held.age_ms + waited)
        noted = [each._replace(age_ms=each.age_ms + waited) for each in seen.noted]
        return seen._replace(held=held, noted=noted)

    def reset(self, pairs: Sequence[tuple[int, int]], layer: str) -> int:
        """As many connections for each pair as there is traffic."""
        for pair in pairs:
            self._did("reset", *pair)
            self.resets[layer] = self.resets.get(layer, 0) + self.traffic
        return self.connections_reset(layer)

    def connections_reset(self, layer: str) -> int:
        """What was counted."""
        return self.resets.get(layer, 0)


class FakeClocks:
    """Clocks that show what they are told, unless their nodes are down or they are broken."""

    def __init__(self, machines: "FakeMachines") -> None:
        self._machines = machines
        self.layers: dict[int, dict[str, float]] = {}
        self.deaf = False
        """Whether what is asked for is not what is shown."""

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """Add a layer."""
        self._machines.did("skew", node, offset_ms)
        self.layers.setdefault(node, {})[layer] = offset_ms

    def unskew(self, node: int, layer: str) -> None:
        """Take it away."""
        self._machines.did("unskew", node)
        self.layers.get(node, {}).pop(layer, None)

    def requested_offset_ms(self, node: int, layer: str = "") -> float:
        """The sum, or one part of it."""
        layers = self.layers.get(node, {})
        return layers.get(layer, 0.0) if layer else sum(layers.values())

    def read(self, node: int) -> ClockReading | None:
        """To the millisecond."""
        if not self._machines.processes.is_running(node):
            return None
        shown = 0.0 if self.deaf else self.requested_offset_ms(node)
        return ClockReading(shown - 1, shown + 1, True)


class FakeMachines:
    """All parts of the fake cluster, and the names of the calls that fail."""

    def __init__(self, trace: Trace, nodes: Sequence[int] = (1, 2, 3)) -> None:
        self.trace = trace
        self.broken: set[str] = set()
        self.processes = FakeProcesses(self, nodes)
        self.clients = FakeClients(self)
        self.links = FakeLinks(self)
        self.disks = FakeDisks(self.did, nodes)
        self.clocks = FakeClocks(self)
        self.power = FakePower(self.did, self.processes.states)
        self.cluster = FakeAdministration()
        self.view = FakeView()

    def did(self, *what: object) -> None:
        """Note a call. Raises OSError when it is one that fails."""
        self.trace.entries.append(what)
        if what[0] in self.broken:
            raise OSError(f"{what[0]} is broken")

    def hosts(self) -> Hosts:
        """As faults see them."""
        return Hosts(
            processes=self.processes,
            clients=self.clients,
            links=self.links,
            disks=self.disks,
            clocks=self.clocks,
            power=self.power,
            cluster=self.cluster,
            view=self.view,
        )


class FakeView:
    """Leaders by partition; None until somebody sets them."""

    def __init__(self) -> None:
        self.leaders: dict[tuple[str, int], int] = {("a", 0): 1, ("a", 1): 2}
        self.isrs: dict[tuple[str, int], Sequence[int]] = {("a", 0): (1, 2, 3)}
        self.eligible: dict[tuple[str, int], Sequence[int]] = {}
        self.known_ends: dict[tuple[str, int], tuple[int, int]] = {}
        self.active: int | None = 3
        self.roles: tuple[Sequence[int], Sequence[int]] = ((1, 2, 3), (1, 2, 3))
        self.answering: dict[int, bool] = {}
        self.out_of_service: dict[int, bool] = {}
        self.moving: bool | None = None
        self.coordinators: dict[tuple[str, str], int] = {}
        """By kind and key."""
        self.voting: Sequence[int] | None = (1, 2, 3)
        self.servers: Sequence[int] = ()
        self.leading_server: int | None = None

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader as set."""
        return self.leaders.get((topic, partition))

    def controller(self) -> int | None:
        """The controller as set."""
        return self.active

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """The ISR as set."""
        return self.isrs.get((topic, partition))

    def partitions(self) -> Sequence[tuple[str, int]]:
        """Every partition that ever had a leader."""
        return sorted(self.leaders)

    def replicas(self, topic: str, partition: int) -> Sequence[int] | None:
        """Every broker, where there is a leader."""
        return self.roles[0] if (topic, partition) in self.leaders else None

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        """The eligible leader replicas as set."""
        return self.eligible.get((topic, partition))

    def ends(self, topic: str, partition: int) -> tuple[int, int] | None:
        """High watermark and end as set."""
        return self.known_ends.get((topic, partition))

    def brokers(self) -> Sequence[int]:
        """The brokers as set."""
        return self.roles[0]

    def controllers(self) -> Sequence[int]:
        """The controllers as set."""
        return self.roles[1]

    def zookeepers(self) -> Sequence[int]:
        """As set."""
        return self.servers

    def zookeeper_leader(self) -> int | None:
        """As set."""
        return self.leading_server

    def voters(self) -> Sequence[int] | None:
        """As set."""
        return self.voting

    def answers(self, node: int) -> bool | None:
        """As set."""
        return self.answering.get(node)

    def fenced(self, node: int) -> bool | None:
        """As set."""
        return self.out_of_service.get(node)

    def coordinator(self, kind: str, key: str) -> int | None:
        """As set."""
        return self.coordinators.get((kind, key))

    def reassigning(self) -> bool | None:
        """As set."""
        return self.moving


class FakeJournal:
    """Entries in the common trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.full = False

    def record(self, kind: str, /, **fields: object) -> None:
        """Note it, unless the disk is full."""
        if self.full:
            raise OSError("no space left on device")
        self.trace.entries.append(("journal", kind, fields))
