"""Did a tested program turn each input into an output, once, and in the order of each key?

An input is a record of the final log of the topic that the program reads. An element of its output
names the value of the input that it was made from: rows `app-output`. Those before a row
`app-reread` do not count. The row `app-end` says that the output was read to its end, when the last
input had been sent, and when the time of the program was over. What the program claims is the
contract's business.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from checkers.engines.engine import Frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.history.history import PRODUCER_EPOCH, TP
from checkers.history.settings import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

OUTPUT: Final = "app-output"
REREAD: Final = "app-reread"
END: Final = "app-end"
LOST: Final = "lost-output"
LATE: Final = "late-output"
TWICE: Final = "duplicated-output"
OUT_OF_ORDER: Final = "reordered-output"
TORN: Final = "torn-output"
UNKNOWN: Final = "unknown-output"
KINDS: Final = (LOST, TWICE, OUT_OF_ORDER, TORN, UNKNOWN, LATE)
KEYS_OF_PARTITION: Final = 8
"""A partition of the input has so many keys: the value modulo this number."""
TORN_ELEMENT: Final = "torn"
"""The error of an element that has a part of an id."""
ACKS_ALL: Final = -1
UNREADABLE: Final = "unreadable"
"""The aspect of an element in which no id of an input was found."""


def program_of(plan: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the program that a plan tests, a workload of kind `app`; None without one."""
    further = plan.get("more_workloads") or ()
    return next((each for each in further if each.get("kind") == "app"), None)


def topics_needed(program: Mapping[str, Any]) -> frozenset[str]:
    """Return the topics whose records a program depends on: its input, its output if that is a
    topic, and those that keep its place and its transactions."""
    named = (program.get("input"), (program.get("sink") or {}).get("topic"))
    return frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, *filter(None, named)})


def program_outputs(frames: Frames) -> Iterator[Frame]:
    """kind lost-output: an input without an output, although a later input of its partition has
    one. kind late-output: an input without an output, and no later input of its partition has one:
    the program had not come so far when its time was over. Both: topic, offset, value of the input
    (detail: with the partition); op, client, invoke_ns, complete_ns: of its send.

    kind duplicated-output: an element more for an input than the input topic has records with the
    value. offset: its place; other_offset: the place of the element before; invoke_ns, complete_ns:
    when that one and this one were seen. kind reordered-output: the first element of an input
    stands behind one of a later input with the same key, in one partition of the output (a file has
    one; other_value: the later input). Both: topic, value of the input (detail: its place).

    kind torn-output: an element with a part of an id. kind unknown-output: an element whose value
    no client sent, or, with the aspect unreadable, without any id. offset: its place.
    """
    F, engine = frames.engine.functions, frames.engine
    program = program_of(frames.plan)
    if program is None:
        return
    group, topic = F.lit(program.get("group")), F.lit(program.get("input"))
    rows = _elements_of(frames)
    yield from _unnamed(frames, rows, group, topic)
    place = engine.window.partitionBy("value").orderBy("partition", "offset")
    log = frames.final_log.where((F.col("topic") == topic) & F.col("value").isNotNull()).select(
        *TP,
        "offset",
        "value",
        F.row_number().over(place).alias("nth"),
        F.count("offset").over(engine.window.partitionBy("value")).alias("in_log"),
    )
    inputs = engine.materialize(log.where(F.col("nth") == F.lit(1)).drop("nth"))
    named = engine.materialize(rows.where(F.col("value").isNotNull()))
    yield from _missing(frames, inputs, named, group)
    known = named.join(inputs, on="value", how="inner")
    known = engine.materialize(known.withColumn("input_offset", F.col("offset")))
    yield from _twice(frames, known, group)
    yield from _out_of_order(frames, known, group)


def early_outputs(frames: Frames) -> Iterator[Frame]:
    """What `program_outputs` finds that is certain while the run goes on: elements that are
    there again, moved, torn or unreadable.

    The inputs are the acknowledged sends. Nothing is said of them if the input topic may lose
    acknowledged records, if a topic that the program needs lost state, or of those that may be in
    the log twice: the topic has no idempotent producers, or the producer left an epoch.
    """
    F = frames.engine.functions
    program = program_of(frames.plan)
    if program is None:
        return
    name = program.get("input")
    group, topic = F.lit(program.get("group")), F.lit(name)
    rows = _elements_of(frames)
    yield from _without_an_id(frames, rows, group, topic)
    settings = frames.settings(name)
    kept = settings.acks == ACKS_ALL and not settings.unclean_election
    lost = frames.state_losses
    if any(
        lost.certain(each, None) or lost.possible(each, None) for each in topics_needed(program)
    ):
        return
    if not (kept and settings.idempotence):
        return
    left = frames.rare_rows.where(F.col("f") == F.lit(PRODUCER_EPOCH)).select("client").distinct()
    acked = frames.sends.where((F.col("topic") == topic) & (F.col("type") == F.lit("ok")))
    sent = acked.where(F.col("offset").isNotNull()).join(left, on="client", how="left_anti")
    inputs = sent.select(*TP, "offset", "value", F.lit(1).alias("in_log"))
    named = rows.where(F.col("value").isNotNull())
    known = named.join(inputs, on="value", how="inner")
    known = frames.engine.materialize(known.withColumn("input_offset", F.col("offset")))
    yield from _twice(frames, known, group)
    yield from _out_of_order(frames, known, group)


def _elements_of(frames: Frames) -> Frame:
    """The elements that count: out_op, seen_ns, out_partition, position, value, error."""
    F, engine = frames.engine.functions, frames.engine
    rows = frames.history.where(F.col("f") == F.lit(OUTPUT)).select(
        F.col("op").alias("out_op"),
        F.col("invoke_ns").alias("seen_ns"),
        F.col("partition").alias("out_partition"),
        F.col("offset").alias("position"),
        "value",
        "error",
    )
    again = frames.rare_rows.where(F.col("f") == F.lit(REREAD)).agg(F.max("op").alias("last"))
    last = engine.rows(again)[0]["last"]
    return engine.materialize(rows if last is None else rows.where(F.col("out_op") > F.lit(last)))


def _unnamed(frames: Frames, rows: Frame, group: Any, topic: Any) -> Iterator[Frame]:
    """The elements that name no input."""
    F = frames.engine.functions
    sent = frames.sends.where(F.col("topic") == topic).select("value").distinct()
    invented = rows.where(F.col("value").isNotNull()).join(sent, on="value", how="left_anti")
    yield from _of_no_input(frames, ((invented, UNKNOWN, None),), group, topic)
    yield from _without_an_id(frames, rows, group, topic)


def _without_an_id(frames: Frames, rows: Frame, group: Any, topic: Any) -> Iterator[Frame]:
    """The elements without a whole id."""
    F = frames.engine.functions
    torn = rows.where(F.col("error") == F.lit(TORN_ELEMENT))
    unreadable = rows.where((F.col("error") == F.lit(UNREADABLE)) & F.col("value").isNull())
    found = ((torn, TORN, None), (unreadable, UNKNOWN, UNREADABLE))
    yield from _of_no_input(frames, found, group, topic)


def _of_no_input(
    frames: Frames, elements: Sequence[tuple[Frame, str, str | None]], group: Any, topic: Any
) -> Iterator[Frame]:
    """Evidence of elements of a kind, with an aspect."""
    F = frames.engine.functions
    for found, kind, aspect in elements:
        some = frames.none_if_empty(found)
        if some is not None:
            yield evidence(
                frames.engine,
                some,
                kind=F.lit(kind),
                aspect=F.lit(aspect),
                topic=topic,
                offset=F.col("position"),
                op=F.col("out_op"),
                invoke_ns=F.col("seen_ns"),
                complete_ns=F.col("seen_ns"),
                group=group,
            )


def _missing(frames: Frames, inputs: Frame, named: Frame, group: Any) -> Iterator[Frame]:
    """The inputs without an output."""
    F, engine = frames.engine.functions, frames.engine
    there = named.select("value").distinct()
    missing = frames.none_if_empty(inputs.join(there, on="value", how="left_anti"))
    if missing is None:
        return
    reached = inputs.join(there, on="value", how="left_semi").groupBy(*TP)
    reached = engine.materialize(reached.agg(F.max("offset").alias("reached")))
    sends = frames.sends.select("op", "client", "invoke_ns", "complete_ns", "acks", "value")
    found = left_join(engine.materialize(missing), reached, on=TP)
    found = engine.materialize(left_join(engine.materialize(found), sends, on=["value"]))
    passed = F.col("reached").isNotNull() & (F.col("offset") < F.col("reached"))
    for rows, kind in ((found.where(passed), LOST), (found.where(~passed), LATE)):
        some = frames.none_if_empty(rows)
        if some is not None:
            yield evidence(
                engine, some, kind=F.lit(kind), group=group, detail=_input(F), partition=F.lit(None)
            )


def _input(F: Any, offset: str = "offset") -> Any:
    """The place of an input in words."""
    place = F.concat(F.lit("input "), F.col("topic"), F.lit("-"), F.col("partition").cast("string"))
    return F.concat(place, F.lit(", offset "), F.col(offset).cast("string"))


def _twice(frames: Frames, known: Frame, group: Any) -> Iterator[Frame]:
    """The elements that are one too many."""
    F = frames.engine.functions
    order = frames.engine.window.partitionBy("value").orderBy("seen_ns", "out_op")
    line = known.select(
        *known.columns,
        F.row_number().over(order).alias("copy_number"),
        F.lag("position").over(order).alias("other_offset"),
        F.lag("seen_ns").over(order).alias("before_ns"),
        F.lag("out_op").over(order).alias("other_op"),
    )
    again = line.where(F.col("copy_number") > F.col("in_log"))
    yield from _elements(frames, again, TWICE, group, since=F.col("before_ns"))


def _out_of_order(frames: Frames, known: Frame, group: Any) -> Iterator[Frame]:
    """The first elements of inputs that stand behind those of later inputs of their key."""
    F, window = frames.engine.functions, frames.engine.window
    first = window.partitionBy("value").orderBy("seen_ns", "out_op")
    numbered = known.withColumn("copy_number", F.row_number().over(first))
    firsts = numbered.where(F.col("copy_number") == F.lit(1))
    firsts = firsts.withColumn("key", F.col("value") % F.lit(KEYS_OF_PARTITION))
    order = window.partitionBy(*TP, "key", "out_partition").orderBy("position")
    line = firsts.select(
        *firsts.columns,
        F.lag("input_offset").over(order).alias("before"),
        F.lag("value").over(order).alias("other_value"),
    )
    behind = line.where(F.col("input_offset") < F.col("before"))
    yield from _elements(frames, behind, OUT_OF_ORDER, group, since=F.col("seen_ns"))


def _elements(frames: Frames, rows: Frame, kind: str, group: Any, *, since: Any) -> Iterator[Frame]:
    """Evidence of elements of known inputs; since: when it began."""
    F = frames.engine.functions
    found = frames.none_if_empty(rows)
    if found is not None:
        yield evidence(
            frames.engine,
            found,
            kind=F.lit(kind),
            op=F.col("out_op"),
            offset=F.col("position"),
            invoke_ns=since,
            complete_ns=F.col("seen_ns"),
            detail=_input(F, "input_offset"),
            partition=F.lit(None),
            group=group,
        )
