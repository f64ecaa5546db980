"""Operations of Jepsen's Kafka workload: documented shapes, and wrong ones."""

import pytest

from checkers.interchange.errors import InterchangeError
from checkers.interchange.jepsen_fields import Callback, Copy, Fields
from checkers.interchange.jepsen_ops import Notation, Op, Poll, Record, Send, read, write

EDN, JSON = Notation.EDN, Notation.JSON

OPS = [
    Op(number=1, process=0, type="invoke", f="subscribe", time_ns=0, keys=(1, "y")),
    Op(number=2, process=0, type="ok", f="subscribe", time_ns=1, keys=(1, "y")),
    Op(
        number=3, process=1, type="info", f="assign", time_ns=2, keys=(1,), from_beginning=True,
        error="timed out",
    ),
    Op(
        number=4, process=1, type="invoke", f="txn", time_ns=3,
        steps=(Send(key=1, value=7), Poll()),
    ),
    Op(
        number=5, process=1, type="ok", f="txn", time_ns=4, rebalanced=(1,),
        steps=(
            Send(key=1, value=7, offset=5),
            Poll(records=(Record(key=1, offset=3, value=2), Record(key="y", offset=0, value=9))),
        ),
    ),
    Op(number=6, process=2, type="ok", f="send", time_ns=5, steps=(Send(key=1, value=8),)),
    Op(
        number=7, process=3, type="fail", f="txn", time_ns=6, abort_ok=True,
        steps=(Send(key="y", value=8), Send(key=1, value=9)),
        fields=Fields(
            group="g", transactional_id="id", generation=2, commits=((1, 4), ("y", 5)),
            copies=(Copy(value=8, key=1, source=2), Copy(value=9, key="y", source=3)),
        ),
    ),
    Op(
        number=8, process=3, type="info", f="assign", time_ns=6, keys=(1,), positions=((1, 30),),
        fields=Fields(
            group="g",
            callbacks=(
                Callback(type="lost", keys=("y",)),
                Callback(type="assigned", keys=(1, 2), positions=((1, 30),), generation=3),
            ),
        ),
    ),
    Op(
        number=9, process=4, type="ok", f="committed", time_ns=7,
        fields=Fields(group="g", commits=((1, None), (2, 7))),
    ),
    Op(
        number=10, process=4, type="ok", f="poll", time_ns=7, steps=(Poll(),),
        fields=Fields(isolation=0),
    ),
    Op(
        number=11, process=4, type="invoke", f="init-producer", time_ns=8,
        fields=Fields(transactional_id="id"),
    ),
    Op(number=12, process=4, type="info", f="crash", time_ns=8, fields=Fields(group="g")),
    Op(number=13, process=2, type="fail", f="send", time_ns=6, steps=(Send(key=1, value=9),)),
]  # fmt: skip


@pytest.mark.parametrize("notation", list(Notation))
def test_operations_survive_writing_and_reading(notation: Notation) -> None:
    """Both notations hold all that an operation says."""
    assert read(write(OPS, notation), notation) == OPS


def test_reads_documented_shapes() -> None:
    """The forms in the documentation of jepsen.tests.kafka, as the test framework writes them."""
    text = """
    [#jepsen.history.Op{:type :invoke, :f :txn, :value [[:send 3 1] [:poll]], :process 0, :time 5}
     {:type :info, :f :start, :process :nemesis, :value nil}
     {:type :ok, :f :txn, :value [[:send 3 [nil 1]] [:poll {3 [[4 6] [5 7]]}]], :process 0, :time 6,
      :rebalance-log [{:keys [3]}], :debug {:x #{1}}}
     {:type :info, :f :crash, :process 0}
     {:type :ok, :f :debug-topic-partitions, :process 1, :value {3 {:max-offset 7}}}
     {:type :ok, :f :assign, :value [3], :seek-to-beginning? true, :process 1, :time 8}]
    """
    sent, read_too, assigned = read(text, EDN)
    assert sent.steps == (Send(key=3, value=1), Poll())
    assert read_too.steps[1] == Poll(
        records=(Record(key=3, offset=4, value=6), Record(key=3, offset=5, value=7))
    )
    assert (read_too.number, read_too.rebalanced) == (3, (3,))
    assert assigned.from_beginning


def test_reads_json_lines() -> None:
    """A line each does as well as one array, and a poll's keys are numbers again."""
    text = (
        '{"type":"ok","f":"poll","value":[["poll",{"11":[[0,5]]}]],"process":0,"time":1}\n'
        '{"type":"ok","f":"send","value":[["send",11,[1,6]]],"process":0,"time":2}\n'
    )
    polled, sent = read(text, JSON)
    assert polled.steps == (Poll(records=(Record(key=11, offset=0, value=5),)),)
    assert sent.steps == (Send(key=11, value=6, offset=1),)


GOOD = "{:type :ok, :f :poll, :value [[:poll {}]], :process 0, :time 1}\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("17", "expected a map"),
        (":ok", "expected a map"),
        ("{:type :ok, :process 0, :time 1}", "its :f is missing"),
        ("{:type :done, :f :poll, :value [], :process 0, :time 1}", "its :type is"),
        ("{:type :ok, :f :write, :value 3, :process 0, :time 1}", "its :f is :write"),
        ("{:type :ok, :f :poll, :value [[:poll]], :process -1, :time 1}", "its :process is -1"),
        ("{:type :ok, :f :poll, :value [[:poll]], :process 1.5, :time 1}", "its :process is 1.5"),
        ("{:type :ok, :f :poll, :value [[:poll]], :process :me, :time 1}", "its :process is :me"),
        ("{:type :ok, :f :poll, :value [[:poll]], :time 1}", "its :process is missing"),
        ("{:type :ok, :f :poll, :value [[:poll]], :process 2147483647, :time 1}", "2147483647"),
        ("{:type :ok, :f :poll, :value [[:poll]], :process 0}", "its :time, in nanoseconds, is"),
        ("{:type :ok, :f :poll, :value nil, :process 0, :time 1}", "its :value is None"),
        ("{:type :ok, :f :poll, :value [:poll], :process 0, :time 1}", "a micro-operation is"),
        ("{:type :ok, :f :poll, :value [[:get 1]], :process 0, :time 1}", "no micro-operation"),
        ("{:type :ok, :f :poll, :value [[:poll [1]]], :process 0, :time 1}", "no micro-operation"),
        ("{:type :ok, :f :poll, :value [[:poll {1 3}]], :process 0, :time 1}", "of key 1 is 3"),
        ("{:type :ok, :f :poll, :value [[:poll {1 [[1]]}]], :process 0, :time 1}", "is (1,)"),
        ("{:type :ok, :f :poll, :value [[:poll {1 [[nil 2]]}]], :process 0, :time 1}", "offset is"),
        ("{:type :ok, :f :send, :value [[:send 1 :a]], :process 0, :time 1}", "a sent value is :a"),
        ("{:type :ok, :f :send, :value [[:send 1.5 2]], :process 0, :time 1}", "a key is 1.5"),
        ("{:type :ok, :f :send, :value [[:send 1 [-1 2]]], :process 0, :time 1}", "offset is -1"),
        ("{:type :ok, :f :assign, :value 3, :process 0, :time 1}", "the keys of its :assign"),
        ("{:type :ok, :f :commit, :value {1 -1}, :process 0, :time 1}", "a committed offset is -1"),
        ("{:type :ok, :f :poll, :value [], :isolation :x, :process 0, :time 1}", "its :isolation"),
        ("{:type :ok, :f :poll, :value [], :group 3, :process 0, :time 1}", "its :group is 3"),
        ("{:type :ok, :f :send, :value [], :copies {1 2}, :process 0, :time 1}", "record is 2"),
        ("{:type :ok, :f :send, :value [], :copies {1 [2]}, :process 0, :time 1}", "copied record"),
        ("{:type :ok, :f :commit, :generation -1, :process 0, :time 1}", "a :generation is -1"),
    ],
)  # fmt: skip
def test_refuses_wrong_shapes(line: str, said: str) -> None:
    """What does not fit is told with the number of the operation."""
    with pytest.raises(InterchangeError) as refused:
        read(GOOD + line, EDN)
    assert str(refused.value).startswith("operation 2: ")
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ['[{"type":"ok"', '{"type":', '{"f":1}\n{"f"\n'])
def test_refuses_truncated_json(text: str) -> None:
    """A file that is cut is no JSON."""
    with pytest.raises(InterchangeError, match=r"cut short|operation 1"):
        read(text, JSON)
