"""Progress by the activity of a fetch session means what naming every partition every time
means."""

from hypothesis import given
from hypothesis import strategies as st

from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset
from nodes.replication.partition import PartitionRegistration, PartitionState
from nodes.replication.progress import SessionActivity

FOLLOWERS = (NodeId(2), NodeId(3))
LAG_MS = 500


def leader() -> PartitionState:
    state = PartitionState(NodeId(1), Offset(0))
    assignment = PartitionRegistration(
        replicas=(NodeId(1), *FOLLOWERS),
        isr=(NodeId(1), *FOLLOWERS),
        leader=NodeId(1),
        leader_epoch=Epoch(1),
        partition_epoch=1,
    )
    state.apply(assignment, Offset(0), 0)
    return state


class Sessions:
    """Two followers of one partition: `named` has every fetch name it, `lazy` only when due."""

    def __init__(self) -> None:
        self.named, self.lazy = leader(), leader()
        self.end = Offset(0)
        self.now_ms = 0.0
        self.have = dict.fromkeys(FOLLOWERS, Offset(0))
        self.due = dict.fromkeys(FOLLOWERS, True)
        self.activities = {node: SessionActivity() for node in FOLLOWERS}

    def append(self, count: int) -> None:
        for state in (self.named, self.lazy):
            state.before_append(self.end)
        self.end = Offset(self.end + count)
        self.due = dict.fromkeys(FOLLOWERS, True)

    def fetch(self, node: NodeId, took: int) -> None:
        """The follower has `took` records more than at its last fetch, and says so."""
        have = Offset(min(self.have[node] + took, self.end))
        due = self.due[node] or have != self.have[node]
        self.have[node] = have
        self.activities[node].fetched_ms = self.now_ms
        args = (node, have, BrokerEpoch(7), self.end, self.now_ms)
        self.named.record_fetch(*args)
        if due:
            self.lazy.record_fetch(*args, activity=self.activities[node])
            self.due[node] = have < self.end

    def forget(self, node: NodeId) -> None:
        """The partition leaves the session and is named anew with the next fetch."""
        self.lazy.left_session(node, self.activities[node], self.end)
        self.due[node] = True


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("fetch 2"), st.integers(0, 6)),
        st.tuples(st.just("fetch 3"), st.integers(0, 6)),
        st.tuples(st.just("forget"), st.just(0)),
        st.tuples(st.just("pass"), st.integers(1, 400)),
    ),
    max_size=60,
)


@given(steps)
def test_an_omitted_partition_progresses_like_a_named_one(moves: list[tuple[str, int]]) -> None:
    """Same high watermark and same lagging members, at every moment of any history."""
    sessions = Sessions()
    for what, count in moves:
        match what:
            case "append":
                sessions.append(count)
            case "fetch 2" | "fetch 3":
                sessions.fetch(NodeId(int(what[-1])), count)
            case "forget":
                sessions.forget(FOLLOWERS[0])
            case _:
                sessions.now_ms += count
        assert sessions.named.high_watermark == sessions.lazy.high_watermark
        verdicts = []
        for state in (sessions.named, sessions.lazy):
            proposal = state.shrunk_isr(sessions.end, LAG_MS, sessions.now_ms)
            state.proposal = None
            verdicts.append(proposal and proposal.isr)
        assert verdicts[0] == verdicts[1]


def test_a_session_without_the_partition_says_nothing_about_it() -> None:
    state, activity = leader(), SessionActivity()
    activity.fetched_ms = 100
    follower = FOLLOWERS[0]
    state.record_fetch(follower, Offset(0), BrokerEpoch(7), Offset(0), 100, activity=activity)
    state.left_session(follower, activity, Offset(0))
    activity.fetched_ms = 900  # for other partitions
    state.before_append(Offset(0))
    proposal = state.shrunk_isr(Offset(1), LAG_MS, 900)
    assert proposal is not None
    assert [member for member, _ in proposal.isr] == [1]
