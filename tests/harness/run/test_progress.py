"""What a run shows: rates from counters, thin partitions, faults, on a terminal and off it."""

import io
from typing import Any

from rich.console import Console

from harness.plans.plan import Plan
from harness.run.progress import Board, LineProgress, LiveProgress
from harness.systems.monitoring.cluster_view import PartitionView
from nodes.ids import TopicPartition

PLAN = Plan(name="test", seed=7)


class World:
    """Numbers to show, and a clock to show them by."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.counters: dict[str, dict[str, Any]] = {}
        self.board = Board(PLAN, clock=lambda: self.now_s)
        self.board.watch(
            counters=lambda: self.counters,
            faults=lambda: ("kill node 2",),
            partitions=lambda: {
                TopicPartition("acks-1", 0): PartitionView(1, 3, (1, 3), (1, 2, 3)),
                TopicPartition("acks-1", 1): PartitionView(None, 4, (), (1, 2, 3)),
                TopicPartition("acks-1", 2): PartitionView(3, 4, (1, 2, 3), (1, 2, 3)),
            },
        )

    def count(self, at_s: float, acked: int, failed: int, info: int) -> None:
        """The workload's next counters."""
        self.counters["acks-1"] = {
            "at_ns": round(at_s * 1e9), "acked": acked, "failed": failed, "info": info,
            "p50_ms": 1.25, "p99_ms": None,
        }  # fmt: skip


def test_line_has_phase_rates_faults_and_partitions_that_lack_replicas() -> None:
    """Rates are differences between counters; complete partitions are not mentioned."""
    world = World()
    world.board.phase("chaos", 60)
    world.now_s += 12
    world.count(10, acked=1000, failed=0, info=0)
    world.board.line()
    world.count(12, acked=1500, failed=10, info=30)
    assert world.board.line() == (
        "chaos 12 s, 48 s left | acks-1 250 ops/s 20 errors/s | [kill node 2] | "
        "2 of 3 partitions have replicas out of sync | 1 have no leader"
    )
    assert world.board.line() == world.board.line(), "asking again must not change the rates"


def test_board_shows_every_topic_and_its_leaders() -> None:
    """Every topic of the plan has a row, also before its clients have counted anything."""
    world = World()
    world.count(10, acked=1, failed=0, info=0)
    screen = io.StringIO()
    Console(file=screen, width=120).print(world.board)
    text = screen.getvalue()
    assert all(topic.name in text for topic in PLAN.topics)
    assert "0: 1 [1,-,3]" in text
    assert "1: ? [-,-,-]" in text
    assert "faults: kill node 2" in text
    assert "test seed 7" in text


def test_a_group_that_only_reads_shows_its_reads() -> None:
    """It is a workload of its own, in the lines and on the board."""
    world = World()
    for at_s, read in ((10, 100), (12, 300)):
        world.counters["group@1"] = {
            "at_ns": at_s * 10**9, "sent": 0, "acked": 0, "failed": 0, "info": 0, "read": read,
        }  # fmt: skip
        line = world.board.line()
    assert "group@1 100 ops/s" in line
    screen = io.StringIO()
    Console(file=screen, width=120).print(world.board)
    assert "group@1" in screen.getvalue()


def test_lines_are_plain_and_name_each_phase() -> None:
    """Without a terminal every phase and note is a line of its own."""
    lines: list[str] = []
    with LineProgress(PLAN, lines.append) as shown:
        shown.phase("deploy", None)
        shown.phase("chaos", 60)
        shown.note("node 2 ended by itself")
    said = [line.split("s  ", 1)[1] for line in lines]
    assert said == ["deploy", "chaos (60 s)", "node 2 ended by itself"]


def test_live_display_disappears_and_its_notes_stay() -> None:
    """The notes stay on the screen after the run."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    with LiveProgress(PLAN, console) as shown:
        shown.phase("chaos", 60)
        shown.note("node 2 ended by itself")
    assert "node 2 ended by itself" in screen.getvalue()
