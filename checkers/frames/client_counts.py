"""How many rows each client recorded, and when: one pass over a history."""

from checkers.engines.engine import BLOCK_BITS, Engine, Frame, block_bit
from checkers.history.history import OP_BITS


def counts(engine: Engine, history: Frame) -> Frame:
    """Return client, f, type, topic, partition, acks, rows; first_ns, latest_ns: when the first and
    the latest row began; last_ns: the last time in any row; backwards: rows that end before they
    begin, or begin before the run; open: rows that never completed; isolation: the least one."""
    F = engine.functions
    impossible = (F.col("complete_ns") < F.col("invoke_ns")) | (F.col("invoke_ns") < F.lit(0))
    return engine.materialize(
        history.groupBy("client", "f", "type", "topic", "partition", "acks").agg(
            F.count(F.lit(1)).alias("rows"),
            F.min("invoke_ns").alias("first_ns"),
            F.max("invoke_ns").alias("latest_ns"),
            F.max(F.coalesce(F.col("complete_ns"), F.col("invoke_ns"))).alias("last_ns"),
            F.count(F.when(impossible, F.lit(1))).alias("backwards"),
            F.count(F.when(F.col("complete_ns").isNull(), F.lit(1))).alias("open"),
            F.min("isolation").alias("isolation"),
        )
    )


def client_totals(engine: Engine, counts: Frame) -> Frame:
    """Return client, f, type, rows, first_ns, latest_ns, last_ns, backwards: `counts`, summed over
    all partitions."""
    F = engine.functions
    return engine.materialize(
        counts.groupBy("client", "f", "type").agg(
            F.sum("rows").cast("bigint").alias("rows"),
            F.min("first_ns").alias("first_ns"),
            F.max("latest_ns").alias("latest_ns"),
            F.max("last_ns").alias("last_ns"),
            F.sum("backwards").cast("bigint").alias("backwards"),
        )
    )


def numbering(engine: Engine, history: Frame) -> Frame:
    """Return writer; numbers: how many operation numbers of the writer exist; last: the greatest
    number (they start at writer << 40); repeated: how many sends have the number of another send.
    """
    F = engine.functions
    bit = block_bit(engine, "op")
    sent = F.col("f") == F.lit("send")
    blocks = history.groupBy(F.shiftright("op", BLOCK_BITS).alias("block")).agg(
        F.bit_or(bit).alias("all"),
        F.bit_or(F.when(sent, bit).otherwise(F.lit(0))).alias("sent"),
        F.count(F.when(sent, F.lit(1))).alias("sends"),
        F.max("op").alias("last"),
    )
    writer = F.shiftright("block", OP_BITS - BLOCK_BITS).alias("writer")
    return engine.materialize(
        blocks.groupBy(writer).agg(
            F.sum(F.bit_count("all")).cast("bigint").alias("numbers"),
            F.max("last").alias("last"),
            F.sum(F.col("sends") - F.bit_count("sent")).cast("bigint").alias("repeated"),
        )
    )


def client_lifetimes(engine: Engine, totals: Frame) -> Frame:
    """Return client, ended (1: it has an end row), last_ns (the last time that it recorded), astray
    (1: it sent or polled before its start row, or after its end row)."""
    F = engine.functions
    ended = F.max(F.when(F.col("f") == F.lit("end"), F.lit(1)).otherwise(F.lit(0)))
    works = F.col("f").isin("send", "poll")
    start = F.min(F.when(F.col("f") == F.lit("start"), F.col("first_ns")))
    end = F.max(F.when(F.col("f") == F.lit("end"), F.col("latest_ns")))
    early = F.min(F.when(works, F.col("first_ns"))) < start
    late = F.max(F.when(works, F.col("latest_ns"))) > end
    return engine.materialize(
        totals.groupBy("client").agg(
            ended.alias("ended"),
            F.max("last_ns").alias("last_ns"),
            F.when(early | late, F.lit(1)).otherwise(F.lit(0)).alias("astray"),
        )
    )
