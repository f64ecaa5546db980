"""Tests of the diagram: captions of messages, the selection of messages, and the layout."""

from collections import Counter
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from harness.simulation.diagram import events
from harness.simulation.diagram.captions import METADATA, Part, caption
from harness.simulation.diagram.capture import ProgramEvent, Stream, frames
from harness.simulation.diagram.events import Finding, Mark
from harness.simulation.diagram.layout import BREAK, Order, Rows, clipped, draw
from harness.simulation.diagram.messages import Message, messages
from harness.simulation.diagram.page import Story, render, sentences
from harness.simulation.diagram.selection import MAX_SHOWN, Selection, everything, select, window
from harness.simulation.run import Simulation
from harness.simulation.workers import pool
from harness.workloads.clients.payload import PayloadCodec, value_of
from nodes.ids import Offset
from nodes.log.batch import Record, encode_batch
from nodes.wire.codec import encode_request, encode_response
from nodes.wire.schemas import request_schema, response_schema
from nodes.wire.versions import fill
from tests.support.simulation.plans import KILLS, prepared

NS = 1_000_000_000
PRODUCE, FETCH, VOTE = 0, 1, 52
TOPIC_ID = UUID(int=7)


def stream(*segments: bytes, by_client: bool = True, number: int = 1) -> Stream:
    """Segments that were sent a millisecond apart, and arrived half of one later."""
    made = Stream(
        number=number,
        back=3 - number,
        sender="node-1" if by_client else "node-2",
        receiver="node-2" if by_client else "node-1",
        port=9092,
        by_client=by_client,
        data=list(segments),
    )
    for n in range(len(segments)):
        made.sent_ns[n] = NS + n * 1_000_000
        made.arrived_ns[n] = NS + n * 1_000_000 + 500_000
    return made


def vote(number: int) -> bytes:
    """A request for a vote in an epoch."""
    part = {"partition_index": 0, "replica_epoch": 5, "replica_id": 1, "last_offset": 9}
    topics = [{"topic_name": METADATA, "partitions": [part]}]
    return encode_request(fill(request_schema(VOTE, 0), topics=topics), number, "node-1")


def granted(number: int) -> bytes:
    """Its answer."""
    part = {"partition_index": 0, "leader_id": -1, "leader_epoch": 5, "vote_granted": True}
    topics = [{"topic_name": METADATA, "partitions": [part]}]
    return encode_response(fill(response_schema(VOTE, 0), topics=topics), number)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.data())
def test_frames_are_found_in_any_fragmentation(sizes: list[int], data: Any) -> None:
    """A frame is sent with its first byte, and arrives with its last."""
    whole = b"".join(len(b).to_bytes(4, "big") + b for b in (b"x" * size for size in sizes))
    inner = st.integers(1, max(1, len(whole) - 1))
    cuts = sorted(data.draw(st.sets(inner, max_size=5)) - {len(whole)})
    edges = [0, *cuts, len(whole)]
    torn = stream(*(whole[a:b] for a, b in pairwise(edges)))
    found = list(frames(torn))
    assert [len(frame.body) for frame in found] == sizes
    assert all(f.arrived_ns is not None and f.sent_ns < f.arrived_ns for f in found)
    del torn.arrived_ns[len(edges) - 2]
    assert list(frames(torn))[-1].arrived_ns is None


def test_response_gets_the_api_of_its_request() -> None:
    """The correlation id joins them."""
    out = stream(vote(4), vote(5))
    back = stream(granted(4), by_client=False, number=2)
    first, second, answer = sorted(messages({1: out, 2: back}), key=lambda m: m.response)
    assert (first.api, answer.api) == ("Vote", "Vote")
    assert first.exchange == answer.exchange != second.exchange
    assert (first.sender, answer.sender) == ("node-1", "node-2")
    assert first.parts[0].words == "epoch 5, candidate 1, last epoch 0, log end 9"
    assert answer.parts[0].words == "epoch 5, granted yes"


def test_caption_has_values_offsets_high_watermark_and_errors() -> None:
    """A topic id is replaced by the topic's name."""
    record = Record(value=PayloadCodec("run", 64).encode(7, 3))
    part = {
        "records": encode_batch([record], base_offset=Offset(27), timestamp_ms=1),
        "partition_index": 1,
        "error_code": ErrorCode.fenced_leader_epoch,
        "high_watermark": 28,
        "diverging_epoch": {"epoch": 2, "end_offset": 27},
    }
    answer = fill(
        response_schema(FETCH, 15), responses=[{"topic_id": TOPIC_ID, "partitions": [part]}]
    )
    (found,) = caption(answer, {TOPIC_ID: "orders"}).parts
    assert (found.topic, found.partition, found.error) == ("orders", 1, "fenced_leader_epoch")
    assert (found.values, found.offsets) == ((value_of(7, 3),), (27, 27))
    told = "records 27, 7#3, hw 28, diverges: epoch 2 ended at 27"
    assert found.words == f"fenced_leader_epoch, {told}"


def test_role_marks_come_from_the_nodes_log_lines() -> None:
    """Only of this partition and of the quorum."""
    logs = {
        2: [
            "1.5 INFO nodes.replicas: t-0: leader in leader epoch 3 (leader 2, ISR [2], end 9)",
            "1.6 INFO nodes.replicas: t-1: leader in leader epoch 3 (leader 2, ISR [2], end 9)",
            "1.7 INFO nodes.replicas: truncating t-0 from 9 to 4: the leader ended epoch 1 at 4",
            "1.8 INFO nodes.raft: leads epoch 7 from offset 12",
        ]
    }
    found = events.role_marks(logs, "t-0")
    assert [(m.kind, m.grave, m.lane) for m in found] == [
        ("leader", False, "node-2"),
        ("cut", True, "node-2"),
        ("quorum", False, "node-2"),
    ]
    assert found[0].at_ns == 3 * NS // 2


def test_end_of_the_simulation_is_not_a_mark() -> None:
    """That everything loses its power at the end says nothing of the run."""
    notes = [
        ProgramEvent(at_ns=5, host="node-1", what="end by process with -9"),
        ProgramEvent(at_ns=6, host="node-1", what="boot"),
        ProgramEvent(at_ns=9, host="node-1", what="end by power with -9"),
    ]
    assert [m.words for m in events.process_marks(notes, 9)] == ["is killed", "starts"]


LOST = Finding(
    kind="lost-write",
    sentence="1 acknowledged write lost",
    topic="t",
    value=value_of(7, 3),
    offset=5,
    client="highwater-7",
    began_ns=10 * NS,
    ended_ns=11 * NS,
)


def message(api: str, at_ns: int, number: int = 0, **changes: Any) -> Message:
    """A request about the partition in question."""
    values: dict[str, Any] = {
        "exchange": (1, number),
        "api": api,
        "response": False,
        "sender": "node-1",
        "receiver": "node-2",
        "sent_ns": at_ns,
        "arrived_ns": at_ns + 1000,
        "held_up_ns": None,
        "parts": (Part(topic="t", partition=0, words="from 5"),),
    }
    return Message(**(values | changes))


def test_window_ends_at_the_truncation_that_removes_the_value() -> None:
    """Not at an earlier truncation, and not later."""
    cut = "truncates from {} to {}: the leader ended epoch 1 at {}"
    marks = [
        Mark(at_ns=9 * NS, lane="node-1", kind="cut", words=cut.format(8, 2, 2)),
        Mark(at_ns=13 * NS, lane="node-1", kind="cut", words=cut.format(8, 6, 6)),
        Mark(at_ns=14 * NS, lane="node-1", kind="cut", words=cut.format(8, 5, 5)),
        Mark(at_ns=20 * NS, lane="node-1", kind="leader", words="leader"),
    ]
    began_ns, ended_ns = window(LOST, marks, [], 30 * NS)
    assert 9 * NS < began_ns < 10 * NS
    assert 14 * NS < ended_ns < 15 * NS


def test_messages_about_the_partition_are_shown_and_others_counted() -> None:
    """Heartbeats, other partitions, empty fetches and the harness's questions are left out."""
    other = (Part(topic="other", partition=0, words=""),)
    empty = (Part(topic="t", partition=0, words="hw 5"),)
    full = (Part(topic="t", partition=0, words="records 5", offsets=(5, 5)),)
    all_of_it = [
        message("Produce", 1),
        message("Produce", 2, 1, parts=other),
        message("BrokerHeartbeat", 3, 2, parts=()),
        message("Fetch", 4, 3),
        message("Fetch", 5, 3, response=True, parts=empty),
        message("Fetch", 6, 4, response=True, parts=full),
        message("Vote", 7, 5, parts=()),
        message("Vote", 8, 6, parts=()),
        message("Produce", 9, 7, sender="harness"),
    ]
    found = select(all_of_it, LOST, (0, 100), [])
    assert [m.sent_ns for m in found.chosen] == [1, 6, 7]
    assert found.left_out == Counter(
        {
            "Produce": 1,
            "BrokerHeartbeat": 1,
            "Fetch": 2,
            "Vote": 1,
            "Produce of the harness's own": 1,
        }
    )
    assert len(everything(all_of_it, (0, 100)).chosen) == 8


def test_selection_keeps_the_messages_closest_to_an_event() -> None:
    """The lost value is always shown."""
    writes = [message("Produce", n * NS, n) for n in range(2 * MAX_SHOWN)]
    mine = (Part(topic="t", partition=0, words="", values=(value_of(7, 3),)),)
    first = message("Produce", 0, 9999, parts=mine)
    found = select([first, *writes], LOST, (0, 1000 * NS), [100 * NS])
    assert len(found.chosen) == MAX_SHOWN
    assert first in found.chosen
    assert min(m.sent_ns for m in found.chosen[1:]) > 50 * NS


@given(st.lists(st.tuples(st.integers(0, 10**9), st.sampled_from(Order)), min_size=1, max_size=30))
def test_later_moments_lie_lower(moments: list[tuple[int, Order]]) -> None:
    """Every moment has a place of its own, in the order of time and of an instant."""
    rows = Rows(moments, 0)
    places = [rows.take(*moment) for moment in sorted(moments)]
    assert places == sorted(set(places))
    assert rows.end > places[-1]


def test_idle_time_becomes_a_break() -> None:
    """The break shows how much time passed."""
    rows = Rows([(0, Order.SENT), (2 * NS, Order.SENT)], 0)
    assert [words for _, words in rows.breaks] == ["2.00 s later"]
    assert rows.take(2 * NS, Order.SENT) - rows.take(0, Order.SENT) > BREAK


def test_arrow_of_a_lost_message_ends_before_its_receiver() -> None:
    """An arrow that arrives reaches the receiver, lower down; long texts are cut."""
    chosen = [message("Produce", NS), message("Produce", 2 * NS, 1, arrived_ns=None)]
    drawing = draw(
        chosen,
        [],
        [],
        ["node-1", "node-2"],
        shown=(0, 3 * NS),
        base_ns=0,
        words=lambda m: (m.api * 100, "", ""),
    )
    arrived, lost = drawing.arrows
    lanes = {lane.name: lane.x for lane in drawing.lanes}
    assert (arrived.x2, arrived.lost) == (lanes["node-2"], False)
    assert arrived.y2 > arrived.y1
    assert lost.lost
    assert lanes["node-1"] < lost.x2 < lanes["node-2"]
    assert arrived.text.words.endswith("…")
    assert clipped("short", 10) == "short"


def test_lane_shows_leadership_and_down_time() -> None:
    """Marks before the window give its first state."""
    marks = [
        Mark(at_ns=1, lane="node-1", kind="leader", words="leader"),
        Mark(at_ns=NS, lane="node-1", kind="end", words="is killed"),
        Mark(at_ns=2 * NS, lane="node-1", kind="boot", words="starts"),
    ]
    drawing = draw(
        [], marks, [], ["node-1"], shown=(10, 3 * NS), base_ns=0, words=lambda m: ("", "", "")
    )
    assert [piece.css for piece in drawing.pieces] == ["leads", "down", "up"]


def test_page_tells_the_story_escapes_text_and_loads_nothing() -> None:
    """What a run said is text, and no address is in it but the one of SVG."""
    cut = "truncates from 8 to 5: the leader <b>ended</b> epoch 1 at 5"
    mark = Mark(at_ns=12 * NS, lane="node-1", kind="cut", words=cut, grave=True)
    picked = Selection(window=(9 * NS, 13 * NS), chosen=[], left_out=Counter({"Fetch": 1234}))
    story = Story(
        title="a <run>",
        repeat="highwater simulate",
        finding=LOST,
        marks=[mark],
        spans=[],
        nodes=["node-1"],
        base_ns=0,
        mattered=picked,
        all=picked,
    )
    (sentence,) = sentences(story)
    assert sentence.words.endswith("7#3 is gone")
    page = render(story)
    assert "&lt;b&gt;ended" in page
    assert "<b>ended" not in page
    assert "1,234 Fetch" in page
    assert "default-src 'none'" in page
    assert not any(word in page for word in ("http:", "https:", "<script", "url("))


@pytest.mark.slow
def test_recorder_changes_nothing_and_all_messages_are_readable() -> None:
    """The run has the same trace with and without the recorder."""
    from harness.simulation.diagram.capture import NetworkRecorder

    made = prepared(nemesis=KILLS, duration_s=4)
    plain = Simulation(made).run()
    simulation = Simulation(made)
    recorder = simulation.cluster.network.observer = NetworkRecorder(simulation.world)
    assert simulation.run().digest == plain.digest
    told = messages(recorder.streams)
    assert {"Produce", "Fetch", "Vote"} <= {m.api for m in told}
    assert not [m for m in told if m.error == "unreadable"]
    assert [n.what for n in recorder.notes if n.what == "end by process with -9"]


@pytest.mark.slow
def test_diagram_explains_the_failure_of_a_broken_broker() -> None:
    """A paused leader acknowledges what it alone has: the page says when, to whom, and why."""
    from harness.simulation.diagram.make import diagram

    pauses = [
        {"at_ms": 1500, "fault": "pause", "targets": "leader:t/0", "duration_ms": 3000},
    ]
    made = prepared(
        broker_module="harness.zoo.mutants.ack_before_replication",
        topics=[{"name": "t", "acks": -1, "partitions": 1}],
        nemesis={"events": pauses},
        duration_s=6,
    )
    with pool(1) as workers:
        page = workers.submit(
            diagram, made, sign="lost-write", invariants=False, repeat="highwater"
        ).result()
    assert "lost in t-0" in page
    assert "is acknowledged at offset" in page
    assert "is gone" in page
