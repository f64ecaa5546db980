"""Numbers that are there more than once, found without grouping by every one of them.

Values and offsets are nearly always there once each, and grouping by hundreds of millions of them
only to see that is most of the work. So they are counted in blocks of neighbours: a block has as
many numbers as different ones, or some number in it is repeated. Only those blocks need a closer
look. The answer is exact; only its cost depends on how many numbers are repeated, and how dense
they are.
"""

from collections.abc import Sequence

from checkers.engines.engine import BLOCK_BITS, Engine, Frame, block_bit


def split(
    engine: Engine, rows: Frame, number: str, within: Sequence[str] = ()
) -> tuple[Frame | None, Frame]:
    """The rows whose `number` may be there more than once among those that agree in the columns
    `within` (None: there are none), and all others, each of which is there once.

    number: a bigint column; rows where it is null are left out.
    """
    F = engine.functions
    known = rows.where(F.col(number).isNotNull())
    block = F.shiftright(number, BLOCK_BITS).alias("block")
    # Two different numbers of a block have different bits.
    told = known.select(*within, block, block_bit(engine, number).alias("bit"))
    blocks = told.groupBy(*within, "block").agg(
        F.count(F.lit(1)).alias("rows"), F.bit_count(F.bit_or("bit")).alias("different")
    )
    crowded = engine.materialize(
        blocks.where(F.col("rows") > F.col("different")).select(*within, "block")
    )
    if engine.is_empty(crowded):
        return None, known
    numbered = known.withColumn("block", F.shiftright(number, BLOCK_BITS))
    several, single = (
        numbered.join(crowded, on=[*within, "block"], how=how).select(*rows.columns)
        for how in ("left_semi", "left_anti")
    )
    return several, single
