"""Every network fault on real kernel objects: its effect, its evidence, and its heal."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

from harness.systems.brokers import BROKER_PORT, CONTROLLER_PORT
from harness.targets.abilities import NEEDS
from harness.targets.base import CLIENTS
from harness.targets.linux import kernel
from harness.targets.local import LocalTarget
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Fault, Injection, Params
from nemesis.faults.network.options import PORTS
from nemesis.hosts import Hosts
from tests.support.nemesis.fakes import FakeMachines, Trace
from tests.support.require import require
from tests.support.targets import traffic
from tests.support.targets.machine import local_target
from tests.support.targets.requests import add_partitions, end_txn
from tests.support.targets.traffic import Numbered, blocked, connects, passes


@pytest.fixture
def target(tmp_path: Path) -> Iterator[LocalTarget]:
    """Three machines and the clients'."""
    require("root", "netns")
    with local_target(tmp_path, nodes=3) as made:
        yield made


@dataclass
class InForce:
    """A fault that has been injected."""

    fault: Fault
    hosts: Hosts
    injection: Injection

    def tick(self, elapsed_ms: int) -> None:
        """Let it act again."""
        self.fault.tick(self.hosts, self.injection, elapsed_ms)

    def evidence(self) -> str:
        """The proof that it took effect."""
        found = self.fault.measure_effect(self.hosts, self.injection)
        assert found.confirmed, found.evidence
        return found.evidence

    def measured(self) -> str:
        """What is measured at the moment."""
        return self.fault.measure_effect(self.hosts, self.injection).evidence

    def counts(self, packets: int) -> dict[str, int]:
        """The counters of one bad link that `packets` have come by on, when they all have."""
        layer = self.injection.detail("layer")

        def total() -> Counter[str]:
            found = [self.hosts.links.counters(link, layer) for link in self.injection.links]
            return sum((Counter(asdict(each)) for each in found if each), Counter[str]())

        # The kernel may hand them over a little later than they were sent.
        assert kernel.wait_until(lambda: total()["packets"] == packets, traffic.TIMEOUT_S), total()
        return total()

    def heal(self) -> None:
        """Heal it, twice, and see the proof of that."""
        for _ in range(2):
            self.fault.heal(self.hosts, self.injection)
        found = self.fault.measure_heal(self.hosts, self.injection)
        assert found.confirmed, found.evidence


def inject(target: LocalTarget, name: str, *targets: int, **params: str) -> InForce:
    """Inject a fault by its name."""
    fault = find(name)
    require(*(name for ability in sorted(fault.needs) for name in NEEDS[ability]))
    hosts = replace(FakeMachines(Trace()).hosts(), links=target.links)
    given = Params.of(fault.options, params)
    injection = fault.plan_injection(targets, target.node_ids(), random.Random(str(params)), given)
    fault.inject(hosts, injection)
    return InForce(fault, hosts, injection)


@contextmanager
def in_force(target: LocalTarget, name: str, *targets: int, **params: str) -> Iterator[InForce]:
    """A fault that is healed at the end of the block."""
    fault = inject(target, name, *targets, **params)
    yield fault
    fault.heal()


def test_named_ports_are_those_that_the_cluster_uses() -> None:
    """Where brokers and controllers listen."""
    assert PORTS == {"data": BROKER_PORT, "controller": CONTROLLER_PORT}


def test_a_one_way_partition_passes_one_direction(target: LocalTarget) -> None:
    """Node 1 receives nothing, and all receive node 1's packets."""
    with in_force(target, "partition.one-way", 1, direction="in") as fault:
        assert blocked(target, 2, 1)
        assert passes(target, 1, 2)
        assert "1 packets dropped" in fault.evidence()
    assert passes(target, 2, 1)


@pytest.mark.parametrize(
    ("direction", "hears", "is_heard"), [("in", False, True), ("out", True, False)]
)
def test_clients_are_cut_off_in_one_direction(
    target: LocalTarget, direction: str, hears: bool, is_heard: bool
) -> None:
    """Only between the target and the clients, and only in that direction."""
    with in_force(target, "cut.clients", 1, direction=direction) as fault:
        assert (passes if hears else blocked)(target, CLIENTS, 1)
        assert (passes if is_heard else blocked)(target, 1, CLIENTS)
        assert passes(target, 2, 1)
        assert passes(target, CLIENTS, 2)
        assert fault.evidence().startswith("1 packets dropped")
    assert passes(target, CLIENTS, 1)
    assert passes(target, 1, CLIENTS)


@pytest.mark.parametrize(("cut", "other"), [("data", 9093), ("controller", 9092)])
def test_one_port_is_cut_and_the_other_is_not(target: LocalTarget, cut: str, other: int) -> None:
    """Both directions between the target and other nodes, but not for clients."""
    port = PORTS[cut]
    with in_force(target, "cut.port", 1, port=cut) as fault:
        assert not connects(target, 2, 1, port, within_s=traffic.ABSENCE_S)
        assert not connects(target, 1, 3, port, within_s=traffic.ABSENCE_S)
        assert connects(target, 2, 1, other)
        assert connects(target, 3, 2, port)
        assert connects(target, CLIENTS, 1, port)
        assert f"port {port}" in fault.evidence()
    assert connects(target, 2, 1, port)


def test_a_flapping_link_cuts_and_passes_in_turn(target: LocalTarget) -> None:
    """By the time within the period; dropped packets add up over the periods."""
    flapping = {"period_ms": "1000", "duty_percent": "30", "direction": "in"}
    with in_force(target, "cut.flapping", 1, **flapping) as fault:
        assert blocked(target, 2, 1)
        for elapsed_ms, cut in (
            (200, True),
            (300, False),
            (900, False),
            (1000, True),
            (4299, True),
        ):
            fault.tick(elapsed_ms)
            assert (blocked if cut else passes)(target, 2, 1)
            assert passes(target, 1, 2)
        assert fault.evidence().startswith("4 packets dropped")
    assert passes(target, 2, 1)


def test_requests_arrive_but_their_responses_are_lost(target: LocalTarget) -> None:
    """On new and old connections. TCP acknowledges requests, so that there may be many. After the
    heal the responses arrive.
    """
    with (
        traffic.listening(target, 1) as server,
        traffic.connect(target, CLIENTS, 1) as old,
        server.accept()[0] as old_at_server,
        in_force(target, "response-lost", 1) as fault,
        traffic.connect(target, CLIENTS, 1) as new,
        server.accept()[0] as new_at_server,
    ):
        for client, at_server in ((old, old_at_server), (new, new_at_server)) * 5:
            client.sendall(b"append this " * 5000)
            left = 60_000
            while left:
                left -= len(at_server.recv(left))
            at_server.sendall(b"done")
        for client in (old, new):
            client.settimeout(traffic.ABSENCE_S)
            with pytest.raises(TimeoutError):
                client.recv(100)
        assert "request packets arrived" in fault.evidence()
        fault.heal()
        for client in (old, new):
            client.settimeout(traffic.TIMEOUT_S)
            assert client.recv(4) == b"done"


def test_a_long_response_is_lost_completely(target: LocalTarget) -> None:
    """Not only its last packet."""
    with (
        traffic.connection(target, CLIENTS, 1) as (client, server),
        in_force(target, "response-lost", 1),
    ):
        client.sendall(b"?")
        assert server.recv(1) == b"?"
        server.sendall(bytes(50_000))
        client.settimeout(traffic.ABSENCE_S)
        with pytest.raises(TimeoutError):
            client.recv(1)


def test_a_reset_ends_only_the_connections_of_the_target(target: LocalTarget) -> None:
    """Both ends see it at once, and new connections work."""
    with (
        traffic.connection(target, 2, 1) as first,
        traffic.connection(target, CLIENTS, 1, 9094) as second,
        traffic.connection(target, 1, 3) as third,
        traffic.connection(target, 2, 3, 9094) as other,
    ):
        with in_force(target, "reset", 1) as fault:
            for connection in (first, second, third):
                for end in connection:
                    with pytest.raises(ConnectionError):
                        end.recv(1)
            assert fault.evidence() == "3 connections were reset"
            fault.tick(1000)
            assert fault.evidence() == "3 connections were reset"
        other[0].sendall(b"still here")
        assert other[1].recv(100) == b"still here"
    assert connects(target, 2, 1, 9092)


def test_a_repeated_reset_ends_new_connections_too(target: LocalTarget) -> None:
    """Each tick ends the connections of that moment with those peers, and no others."""
    with (
        traffic.connection(target, 1, 2) as other,
        in_force(target, "reset", 1, repeat="yes", peers="clients") as fault,
    ):
        for pulse in (1, 2):
            with traffic.connection(target, CLIENTS, 1) as (client, _server):
                fault.tick(pulse * 1000)
                with pytest.raises(ConnectionError):
                    client.recv(1)
        assert fault.evidence() == "2 connections were reset"
        other[0].sendall(b"still here")
        assert other[1].recv(100) == b"still here"


def test_a_slow_link_delays_by_the_requested_time(target: LocalTarget) -> None:
    """Each direction once; other links stay quick, and so is this link after the heal."""
    before_ms = traffic.round_trip_ms(target, 2, 1)
    with in_force(target, "link.slow", 1, delay_ms="50", jitter_ms="0") as fault:
        assert traffic.round_trip_ms(target, 2, 1) >= 100
        assert traffic.round_trip_ms(target, 2, 3) < 100
        evidence = fault.evidence()
        assert float(evidence.split("delayed by ")[1].split()[0]) >= 50
    assert before_ms < 100
    assert traffic.round_trip_ms(target, 2, 1) < 100


def test_jitter_keeps_the_order(target: LocalTarget) -> None:
    """Delays vary, but packets do not overtake."""
    with (
        Numbered(target, 1, 2) as datagrams,
        in_force(target, "link.slow", 1, delay_ms="10", jitter_ms="10", direction="out"),
    ):
        sent = datagrams.send(200, pause_s=0.0005)
        assert datagrams.receive(200) == sent


def test_a_lossy_link_loses_the_requested_share(target: LocalTarget) -> None:
    """Lost packets are counted, the others arrive; after the heal no packet is lost."""
    with Numbered(target, 1, 2) as there, Numbered(target, 2, 1) as back:
        with in_force(target, "link.lossy", 1, lost_percent="30", direction="out") as fault:
            there.send(400)
            back.send(100)
            lost = fault.counts(400)["lost"]
            assert f"{lost} lost" in fault.evidence()
            assert 75 < lost < 165
            arrived = there.receive(400 - lost)
            assert arrived == sorted(arrived)
            assert there.nothing_more()
            assert len(back.receive(100)) == 100
        there.send(100)
        assert len(there.receive(100)) == 100


def test_a_reordering_link_lets_packets_overtake(target: LocalTarget) -> None:
    """All packets arrive in another order; TCP restores the order."""
    with Numbered(target, 1, 2) as datagrams:
        with in_force(target, "link.reordered", 1, direction="out") as fault:
            sent = datagrams.send(200)
            arrived = datagrams.receive(200)
            assert arrived != sent
            assert sorted(arrived) == sent
            assert "reordered" in fault.evidence()
            traffic.transfer_s(target, 1, 2, 300_000)
        sent = datagrams.send(100)
        assert datagrams.receive(100) == sent


def test_a_duplicating_link_delivers_packets_twice(target: LocalTarget) -> None:
    """As many as are counted, none three times; TCP discards the duplicates."""
    with (
        Numbered(target, 1, 2) as datagrams,
        in_force(target, "link.duplicated", 1, duplicated_percent="40", direction="out") as fault,
    ):
        sent = datagrams.send(200)
        doubled = fault.counts(200)["duplicated"]
        assert f"{doubled} duplicated" in fault.evidence()
        assert 48 < doubled < 112
        arrived = datagrams.receive(200 + doubled)
        assert set(arrived) == set(sent)
        assert max(map(arrived.count, sent)) == 2
        assert datagrams.nothing_more()
        traffic.transfer_s(target, 1, 2, 300_000)


def test_a_limited_link_bounds_the_rate(target: LocalTarget) -> None:
    """Except for the first packet; the other direction is not limited."""
    with in_force(target, "link.limited", 1, kb_per_s="1000", direction="out") as fault:
        assert traffic.transfer_s(target, 1, 2, 1_000_000) > 0.9
        assert traffic.transfer_s(target, 2, 1, 10_000_000) < 10
        assert "delayed" in fault.evidence()


def test_a_bad_link_delays_loses_reorders_and_duplicates(target: LocalTarget) -> None:
    """All are counted; TCP works."""
    with Numbered(target, 1, 2) as datagrams:
        bad = {"lost_percent": "20", "reordered_percent": "20", "duplicated_percent": "20"}
        with in_force(target, "link.bad", 1, direction="out", **bad) as fault:
            datagrams.send(200)
            traffic.transfer_s(target, 2, 1, 20_000)
            words = ("delayed by", "lost", "reordered", "duplicated")
            assert kernel.wait_until(
                lambda: all(word in fault.evidence() for word in words), traffic.TIMEOUT_S
            )


def test_faults_of_one_link_end_separately(target: LocalTarget) -> None:
    """Two delays add up; healing one, or a loss, keeps the others."""
    whole = {"jitter_ms": "0", "direction": "out"}
    first = inject(target, "link.slow", 1, delay_ms="40", **whole)
    second = inject(target, "link.slow", 1, delay_ms="100", **whole)
    lossy = inject(target, "link.lossy", 1, lost_percent="1")
    assert traffic.round_trip_ms(target, 2, 1) >= 140
    second.heal()
    lossy.heal()
    assert 40 <= traffic.round_trip_ms(target, 2, 1, 10) < 100
    assert "delayed" in first.evidence()
    first.heal()
    assert traffic.round_trip_ms(target, 2, 1) < 40


def test_a_flapping_link_does_not_end_a_partition(target: LocalTarget) -> None:
    """The partition's cut stays while the flapping link passes, and after its heal."""
    partition = inject(target, "partition.isolate-one", 1)
    flapping = inject(target, "cut.flapping", 1)
    assert blocked(target, 2, 1)
    assert "packets dropped" in flapping.evidence()
    flapping.tick(1500)
    assert blocked(target, 2, 1)
    flapping.heal()
    assert blocked(target, 2, 1)
    partition.heal()
    assert passes(target, 2, 1)


def test_a_late_request_arrives_after_those_of_a_newer_connection(target: LocalTarget) -> None:
    """Although its client has closed the old connection; the evidence names it."""
    late, again, begins = end_txn("tx", 7), end_txn("tx", 8), add_partitions("tx", 9)
    until = {"until": "AddPartitionsToTxn", "delay_ms": "0"}
    with (
        traffic.listening(target, 1) as server,
        in_force(target, "request-delayed", 1, 2, id="tx", **until) as fault,
    ):
        with traffic.connect(target, CLIENTS, 1) as old:
            old_end = server.accept()[0]
            old.sendall(end_txn("other"))
            assert traffic.receive(old_end, len(end_txn("other"))) == end_txn("other")
            old.sendall(late)
            assert kernel.wait_until(
                lambda: "EndTxn v4 of tx (correlation id 7" in fault.measured(), traffic.TIMEOUT_S
            )
        with traffic.connect(target, CLIENTS, 1) as new, server.accept()[0] as new_end:
            new.sendall(again)
            assert traffic.receive(new_end, len(again)) == again
            fault.tick(50)
            assert "is held" in fault.evidence()
            new.sendall(begins)
            assert traffic.receive(new_end, len(begins)) == begins
            old_end.settimeout(traffic.ABSENCE_S)
            with pytest.raises(TimeoutError):
                old_end.recv(1)
            old_end.settimeout(traffic.TIMEOUT_S)
            fault.tick(100)
            with old_end:
                assert traffic.receive(old_end, len(late)) == late
                assert old_end.recv(1) == b""
        assert " was held for " in fault.evidence()
        assert "then arrived AddPartitionsToTxn v3 of tx (correlation id 9" in fault.evidence()


def test_a_request_held_at_the_heal_arrives(target: LocalTarget) -> None:
    """Also if a slow link holds the packets of the same source."""
    with traffic.connection(target, CLIENTS, 1) as (client, server):
        with (
            in_force(target, "link.slow", 1, delay_ms="20", direction="in", peers="clients"),
            in_force(target, "request-delayed", 1, delay_ms="600000") as fault,
        ):
            client.sendall(end_txn("tx", 7))
            assert kernel.wait_until(lambda: "is held" in fault.measured(), traffic.TIMEOUT_S)
            fault.tick(50)
            server.settimeout(traffic.ABSENCE_S)
            with pytest.raises(TimeoutError):
                server.recv(1)
            server.settimeout(traffic.TIMEOUT_S)
        assert traffic.receive(server, len(end_txn("tx", 7))) == end_txn("tx", 7)
    assert passes(target, CLIENTS, 1)
