"""Sends that their clients cannot have repeated: they were acknowledged too soon for that.

A client repeats a request when its answer is lost, late or an error, and waits before it does
(retry.backoff.ms). Only when it is told of a new leader it does not wait (KIP-951). So what needs a
repeated request is no work of the client when the send was acknowledged before the least pause, and
its partition had the same leader all the time.
"""

from checkers.contract.conditions import ANSWERED_AT_ONCE
from checkers.engines.engine import Frame, left_join
from checkers.frames.frames import Frames
from checkers.history.history import TP
from checkers.history.settings import RETRY_PAUSE_NS

_ANSWERED = (1, -1)
"""The acks modes in which a broker answers."""


def with_answers_at_once(frames: Frames, found: Frame, sent: str = "") -> Frame:
    """Fill the aspect ANSWERED_AT_ONCE where `found` has none, and the send was acknowledged before
    its client repeats requests. Producers with idempotence are judged by their sequences.

    found: op, topic, partition, and of the send invoke_ns and complete_ns, with the prefix `sent`;
    type, if sends of unknown outcome are among them.
    """
    F, engine = frames.engine.functions, frames.engine
    if "aspect" not in found.columns:
        found = found.withColumn("aspect", F.lit(None).cast("string"))
    quick = F.col(f"{sent}complete_ns") - F.col(f"{sent}invoke_ns") < F.lit(RETRY_PAUSE_NS)
    if "type" in found.columns:
        quick = quick & (F.col("type") == F.lit("ok"))
    places = _places(frames, found)
    if not places:
        return found
    topics = F.col("topic").isin(*places)
    sends = frames.none_if_empty(found.where(quick & topics & F.col("aspect").isNull()))
    if sends is None:
        return found
    sends = sends.select("op", *TP, F.col(f"{sent}invoke_ns").alias("invoke_ns"))
    sends = frames.with_leader_change(engine.materialize(sends.distinct()))
    sends = engine.materialize(sends.where(F.col("cause_id").isNull()).select("op", *TP))
    marked = left_join(
        engine.materialize(found), sends.withColumn("at_once", F.lit(1)), ["op", *TP]
    )
    marked = marked.withColumn(
        "aspect",
        F.coalesce("aspect", F.when(F.col("at_once").isNotNull(), F.lit(ANSWERED_AT_ONCE))),
    )
    return marked.drop("at_once")


def _places(frames: Frames, found: Frame) -> list[str]:
    """Return the topics of `found` whose producers pause before retries, and are not idempotent."""
    topics = [row["topic"] for row in frames.engine.rows(found.select("topic").distinct())]
    settings = {topic: frames.settings(topic) for topic in topics}
    return [
        topic
        for topic, each in settings.items()
        if each.retries_pause and not each.idempotence and each.acks in _ANSWERED
    ]
