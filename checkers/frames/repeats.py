"""Find repeated numbers without grouping by each number.

Nearly all values and offsets are unique, and grouping by hundreds of millions of them is most of
the work. So the numbers are counted in blocks of neighbours. If a block has more numbers than
different numbers, some number in it is repeated. Only these blocks need a closer look. The result
is exact; the cost depends on how many numbers are repeated, and on how dense they are.
"""

from collections.abc import Sequence

from checkers.engines.engine import BLOCK_BITS, Engine, Frame, block_bit


def split(
    engine: Engine, rows: Frame, number: str, within: Sequence[str] = ()
) -> tuple[Frame | None, Frame]:
    """Split rows into those whose `number` may be repeated among rows with equal columns `within`
    (None without any), and those whose number is unique.

    number: a bigint column; rows where it is null are left out.
    """
    F = engine.functions
    known = rows.where(F.col(number).isNotNull())
    block = F.shiftright(number, BLOCK_BITS).alias("block")
    # Two different numbers of a block have different bits.
    bits = known.select(*within, block, block_bit(engine, number).alias("bit"))
    blocks = bits.groupBy(*within, "block").agg(
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
