"""Safety of the quorum under faults, and liveness after them, over seeded random schedules.

Members with one rule left out show that each invariant can fail.
"""

import pytest

from nodes.ids import Offset
from nodes.log.divergence import EpochEnd
from nodes.raft.membership import without_voter
from nodes.raft.messages import Action, FetchRequest, VoteRequest
from nodes.raft.quorum import Quorum
from nodes.raft.roles import Role
from nodes.raft.voters import ReplicaKey
from tests.support.nodes.quorum_chaos import chaos
from tests.support.nodes.quorum_network import Network, Violation, Weather
from tests.support.tiers import a_third_fast

STORM = Weather(drop=0.05, duplicate=0.05, delay_ms=60, crash_in_action=0.002, flush_ms=120)
HEAL_MS = 10_000
ROUNDS = 60


def settle(network: Network) -> None:
    """Heal; a record appended then reaches everybody as committed, within the bound."""
    network.heal()
    network.run(HEAL_MS)
    leader = network.leader()
    assert leader is not None, "no leader after healing"
    assert network.append(leader)
    network.run(3_000)
    for node in network.nodes.values():
        assert node.quorum is not None
        assert node.quorum.high_watermark == len(network.committed) == leader.log.end_offset
        assert node.log.entries == network.committed


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
def test_elects_and_replicates_without_faults(voters: int) -> None:
    """Without faults one election is enough, and everybody ends with the same committed log."""
    network = Network(voters, voters=voters, observers=2)
    network.run(3_000)
    for _ in range(20):
        leader = network.leader()
        assert leader is not None
        network.append(leader)
        network.run(50)
    settle(network)
    assert network.elections == 1
    assert len(network.committed) == 23, "a leader's, the voters', 20 appended, one to settle"


@pytest.mark.parametrize(
    "seed",
    a_third_fast(
        "nodes/raft/test_network.py::test_safe_under_chaos_and_live_after_it", range(20), of=3
    ),
)
def test_safe_under_chaos_and_live_after_it(seed: int) -> None:
    """Crashes, power losses, cuts, drops and duplicates break no invariant; healing ends them."""
    network = Network(seed, voters=(3, 3, 5, 4)[seed % 4], weather=STORM)
    chaos(network, ROUNDS)
    settle(network)


@pytest.mark.parametrize(
    "seed",
    a_third_fast(
        "nodes/raft/test_network.py::test_safe_under_upheaval_and_live_after_it", range(20), of=3
    ),
)
def test_safe_under_upheaval_and_live_after_it(seed: int) -> None:
    """So do snapshots, lost disks and changing voters, on top of all that."""
    network = Network(seed, voters=(3, 3, 5, 4)[seed % 4], observers=2, weather=STORM)
    chaos(network, ROUNDS, upheaval=True)
    settle(network)


def test_the_upheaval_schedule_installs_snapshots_loses_disks_and_changes_voters() -> None:
    """Snapshots are installed, disks lost, voters changed."""
    installs = wipes = changes = 0
    for seed in range(12):
        network = Network(seed, observers=2, weather=STORM)
        chaos(network, ROUNDS, upheaval=True)
        installs += network.installs
        wipes += network.wipes
        changes += network.changes
    assert installs > 3
    assert wipes > 3
    assert changes > 10


def test_the_chaos_schedule_elects_commits_and_truncates() -> None:
    """The schedules do elect, commit and truncate: an idle network would pass every check."""
    elections = commits = truncations = 0
    for seed in range(10):
        network = Network(seed, weather=STORM)
        chaos(network, ROUNDS)
        elections += network.elections
        commits += len(network.committed)
        truncations += network.truncations
    assert elections > 20
    assert commits > 300
    assert truncations > 3


def test_same_seed_same_run() -> None:
    """A run is a function of its seed."""

    def trace() -> tuple[object, ...]:
        network = Network(7, weather=STORM)
        chaos(network, ROUNDS)
        return network.now_ms, network.committed, network.leaders, network._sequence

    assert trace() == trace()


class GrantsToStaleLogs(Quorum):
    """Votes without looking at the candidate's log."""

    def _log_is_up_to_date(self, request: VoteRequest) -> bool:
        return True


class CountsUnflushed(Quorum):
    """Counts the leader's page cache as disk."""

    def _own_flushed(self) -> Offset:
        return self._log.end_offset


class FetchesUnflushed(Quorum):
    """A voter that fetches at its end, whatever of it is on disk."""

    def fetch_request(self) -> FetchRequest:
        return FetchRequest(
            replica_id=self.node_id,
            directory_id=self.me.directory_id,
            epoch=self.epoch,
            offset=self._log.end_offset,
            last_epoch=self._log.last_epoch,
        )


class CommitsOldEpochs(Quorum):
    """Commits records of earlier epochs by counting alone (KAFKA-12619)."""

    def _advance(self, now_ms: float) -> None:
        if self.leadership is not None:
            self.leadership.start_offset = Offset(-1)
        super()._advance(now_ms)


class VotesTwice(Quorum):
    """Grants any number of votes in an epoch."""

    def _grants(self, now_ms: float, request: VoteRequest) -> bool:
        return self._log_is_up_to_date(request)


class ForgetsThatItLed(Quorum):
    """Takes an epoch for its own after a restart (KAFKA-10527)."""

    def tick(self, now_ms: float) -> list[Action]:
        if self.leadership is None and self._state.leader_id == self.node_id:
            self.role = Role.CANDIDATE
            self._granted = {self.node_id: True}
            self._become_leader(now_ms)
        return super().tick(now_ms)


class NeverTruncates(Quorum):
    """Ignores a diverging epoch."""

    def _truncate(self, diverging: EpochEnd) -> None:
        pass


def caught(
    quorum_class: type[Quorum],
    *,
    persists: bool = True,
    flushes_first: bool = True,
    seeds: int = 60,
    wiped_keep_directory: bool = False,
    upheaval: bool = False,
) -> str:
    """The first violation that this broken member causes; fails when no seed shows one."""
    for seed in range(seeds):
        network = Network(
            seed,
            weather=STORM,
            quorum_class=quorum_class,
            persists=persists,
            flushes_first=flushes_first,
            wiped_keep_directory=wiped_keep_directory,
        )
        try:
            chaos(network, ROUNDS, upheaval=upheaval)
        except Violation as violation:
            return str(violation)
    pytest.fail(f"{quorum_class.__name__} went unnoticed in {seeds} seeds")


@pytest.mark.parametrize(
    ("broken", "violation"),
    [
        (GrantsToStaleLogs, "lacks committed"),
        (CountsUnflushed, "is flushed on"),
        (CommitsOldEpochs, "older epochs only"),
        (ForgetsThatItLed, "led by"),
        (VotesTwice, "led by"),
    ],
)
def test_a_broken_member_is_caught(broken: type[Quorum], violation: str) -> None:
    """Each safety rule, once left out, is missed by the invariant that is there for it."""
    assert violation in caught(broken)


def test_a_member_that_accepts_a_wiped_voter_as_the_old_one_is_caught() -> None:
    """On the same directory id its forgotten records and votes count as kept (KAFKA-14077)."""
    caught(Quorum, wiped_keep_directory=True, upheaval=True)


class ChangesAtOnce(Quorum):
    """Begins a change of the voters while another is not committed."""

    def remove_voter(self, key: ReplicaKey) -> list[Action]:
        assert self.leadership is not None
        first = without_voter(self._voters, key)
        rest = [v for v in first.voters if v.node_id != self.node_id]
        second = without_voter(first, rest[0].key) if len(first.voters) > 1 and rest else first
        return self._change(second)


class CountsByOldVoters(Quorum):
    """Commits a voter change, and what follows, by the majority of the set before."""

    def _refresh_voters(self, now_ms: float) -> None:
        if self.leadership is not None:
            self._voters = self._log.voters
        super()._refresh_voters(now_ms)


def test_a_member_that_changes_voters_wrongly_is_caught() -> None:
    """A change that is committed by a majority of the wrong set."""
    caught(CountsByOldVoters, upheaval=True)


def change_while_cut_off(quorum_class: type[Quorum]) -> None:
    """A leader that reaches nobody removes a voter and writes on; the others elect another."""
    network = Network(1, observers=0, quorum_class=quorum_class)
    network.run(3_000)
    leader = network.leader()
    assert leader is not None
    assert leader.quorum is not None
    others = [node for node in network.nodes.values() if node is not leader]
    for other in others:
        network.cut[leader.node_id, other.node_id] = True
        network.cut[other.node_id, leader.node_id] = True
    network._do(leader, leader.quorum.remove_voter(others[0].key))
    for _ in range(50):
        for node in network.nodes.values():
            network.append(node)
        network.run(100)
    settle(network)


def test_a_member_that_allows_two_voter_changes_at_once_is_caught() -> None:
    """Two majorities that need not meet: one voter commits alone, while two others lead on."""
    change_while_cut_off(Quorum)
    with pytest.raises(Violation):
        change_while_cut_off(ChangesAtOnce)


@pytest.mark.slow
def test_an_unpersisted_vote_is_caught() -> None:
    """A vote that a restart forgets elects two leaders of one epoch."""
    assert "led by" in caught(Quorum, persists=False)


def test_a_fetch_before_the_flush_is_caught() -> None:
    """A voter that fetches at x promises that below x it has everything on disk."""
    assert "is flushed on" in caught(FetchesUnflushed, flushes_first=False)


def test_a_member_that_never_truncates_is_caught() -> None:
    """A diverged log that is not cut never catches up."""

    def stuck(seed: int) -> bool:
        network = Network(seed, weather=STORM, quorum_class=NeverTruncates)
        chaos(network, ROUNDS)
        try:
            settle(network)
        except AssertionError:
            return True
        return False

    assert any(stuck(seed) for seed in range(20))
