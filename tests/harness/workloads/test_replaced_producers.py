"""Producers that are replaced after so many sends."""

from pathlib import Path

from harness.simulation.run import Simulation
from harness.workloads.client_histories import SPARE_CLIENTS, ClientHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.config import CLIENTS_PER_PROCESS
from harness.workloads.pacing import RoundRobin
from tests.support.clients.recorded import Rows
from tests.support.clients.workloads import client_config
from tests.support.simulation.plans import prepared


class Sender:
    """Sends nothing."""

    fatal: str | None = None

    def __init__(self) -> None:
        self.sent = 0

    def send(self, partition: int) -> None:
        """Count."""
        self.sent += 1


def test_producer_makes_no_more_sends_than_planned(tmp_path: Path) -> None:
    """Also when it could make them at once."""
    config = client_config(tmp_path, sends_per_producer=5, rate_per_s=0.0)
    sends = ClientHistories(config, Rows()).sends(Tally())
    sender = Sender()
    turns = RoundRobin(config, lambda: 0.0, 0)

    def send(partition: int) -> None:
        sends.begin(partition)
        sender.sent += 1

    sender.send = send  # type: ignore[method-assign]
    assert not sends.complete
    turns.send_due(sender, sends)
    assert (sender.sent, sends.complete) == (5, True)


def test_last_producers_with_a_number_are_not_replaced(tmp_path: Path) -> None:
    """The next number is the first one of the next topic's clients."""
    histories = ClientHistories(client_config(tmp_path, sends_per_producer=5), Rows())
    made = [histories.sends(Tally()) for _ in range(CLIENTS_PER_PROCESS - SPARE_CLIENTS + 1)]
    assert [each.limit for each in made[-2:]] == [5, None]
    unlimited = ClientHistories(client_config(tmp_path), Rows())
    assert unlimited.sends(Tally()).limit is None


def test_new_producers_take_over_in_a_simulated_run() -> None:
    """Each under a number of its own, with at most so many sends, and nothing is lost."""
    recording = Simulation(
        prepared(workload={"client": "own", "rate_per_s": 5, "sends_per_producer": 7})
    ).run()
    assert recording.failure is None
    rows = [row for history in recording.histories for row in history.rows]
    sent: dict[int, int] = {}
    for row in rows:
        if row[2] == "send":
            assert row[3] == "ok"
            sent[row[1]] = sent.get(row[1], 0) + 1
    assert len(sent) > 6
    assert max(sent.values()) == 7
