"""Spark sessions: a local one, configured for the size of its histories, or one on a cluster.

Spark is made for queries that take minutes. For queries of milliseconds, most of the time goes into
compiling, planning again, and a task for each of 200 parts. For a long history, each part must fit
into memory. So a local session is configured by how much there is to read.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from checkers.engines.engine import EngineError

Session = Any
"""A Spark session, of this process's own JVM or of Spark Connect."""

BYTES_PER_PART = 4 << 20
"""The Parquet bytes of a history, about a million rows, that are shuffled as one part."""

LEAST_PARTS = 2
PARTS_UNTOLD = 64
"""For a history at an address, whose length is unknown."""

HALF_OF_MEMORY_MB = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 21

FOR_LITTLE: Mapping[str, str] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    # Broadcasting a few rows to this process takes a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
FOR_MUCH: Mapping[str, str] = {
    # Hashing parts of this size is faster than sorting them.
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m",
    "spark.driver.memory": f"{HALF_OF_MEMORY_MB}m",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}


def local_spark_session(runs: Iterable[str | Path] = ()) -> Session:
    """Return a quiet Spark session on all cores of this machine. runs: the directories or addresses
    of the runs to read; none: small runs. Raises EngineError."""
    settings = {
        **sized(runs),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    try:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[*]").appName("highwater")
        session = builder.config(map=settings).getOrCreate()
    except Exception as error:
        raise EngineError(
            f"Spark cannot start here ({error}); it needs Java 17: apt-get install "
            "openjdk-17-jre-headless"
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def spark_session(*, master: str | None = None, remote: str | None = None) -> Session:
    """Return a session on a cluster: master is a URL, remote is `sc://host` of a Spark Connect
    server; without both, spark-submit has set up the session. Raises EngineError."""
    try:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("highwater analyze")
        if remote is not None:
            return builder.remote(remote).getOrCreate()
        # Our driver shares its console, so it draws no progress bar; the rest is up to the cluster.
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        if master is not None:
            builder = builder.master(master).config("spark.ui.enabled", "false")
        return builder.getOrCreate()
    except Exception as error:
        where = remote or master or "here"
        lacks = "; Spark Connect needs pip install pyspark[connect]" if remote else ""
        raise EngineError(f"Spark cannot start on {where} ({error}){lacks}") from error


def sized(runs: Iterable[str | Path]) -> dict[str, str]:
    """Return Spark's settings for the longest of these runs."""
    parts = max([LEAST_PARTS, *map(_parts, runs)])
    return {
        "spark.sql.shuffle.partitions": str(parts),
        "spark.default.parallelism": str(parts),
        **(FOR_LITTLE if parts == LEAST_PARTS else FOR_MUCH),
    }


def is_address(run: str) -> bool:
    """Whether `run` is an address that only Spark reads, not a path on this machine."""
    return "://" in run


def _parts(run: str | Path) -> int:
    if is_address(str(run)):
        return PARTS_UNTOLD
    files = Path(run).glob("history/*.parquet")
    return sum(path.stat().st_size for path in files) // BYTES_PER_PART
