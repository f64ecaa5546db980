"""When an instance of a program is started again."""

from harness.workloads.app.restarts import GIVE_UP, MOST_S, Restarts


def test_pause_doubles_with_each_failed_start() -> None:
    """Up to a bound."""
    starts, pauses = Restarts(), []
    for _ in range(8):
        starts.ended(100.0, 101.0, by_fault=False)
        pauses.append(starts.due_s - 101.0)
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == MOST_S


def test_long_life_forgives_failed_starts() -> None:
    """The next start comes soon."""
    starts = Restarts(failed=5)
    starts.ended(100.0, 200.0, by_fault=False)
    assert (starts.failed, starts.due_s) == (0, 200.25)


def test_end_by_a_fault_is_no_failure() -> None:
    """It starts again when the fault lets it."""
    starts = Restarts(failed=2)
    starts.ended(100.0, 101.0, by_fault=True)
    assert (starts.failed, starts.due_s) == (0, 101.0)


def test_program_without_output_that_ends_at_once_is_hopeless() -> None:
    """With output, the cluster may be the reason."""
    starts = Restarts()
    for _ in range(GIVE_UP):
        assert not starts.hopeless(any_output=False)
        starts.ended(100.0, 101.0, by_fault=False)
    assert starts.hopeless(any_output=False)
    assert not starts.hopeless(any_output=True)
