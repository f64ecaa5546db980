"""Which of the nodes' files must have been read."""

from collections.abc import Iterator

from checkers.completeness.collected import Collected, Partition, listed, named, some
from checkers.history.history import METADATA_TOPIC
from checkers.history.settings import compacted_topics


def no_files(e: Collected) -> Iterator[str]:
    """A cluster whose files cannot be read has no files here."""
    if e.ends:
        yield (
            f"the plan says that the nodes' files cannot be read, but {len(e.ends)} replicas were "
            "read"
        )


def replica_ends(e: Collected) -> Iterator[str]:
    """Every assigned replica was read."""
    missing = []
    for partition in e.partitions:
        wanted = e.assigned.get(partition, frozenset()) - _may_lack_files(e, partition)
        missing += [
            f"{named(partition)} of node {node}"
            for node in sorted(wanted)
            if (node, *partition) not in e.ends
        ]
    if missing:
        yield f"the files of {len(missing)} replicas were not read: {some(missing)}"


def enough_replicas(e: Collected) -> Iterator[str]:
    """As many replicas were read as the plan has."""
    few = []
    for topic, partition in e.partitions:
        factor = int(e.topics[topic].get("replication_factor") or 0)
        nodes = e.ends_of.get((topic, partition), {}).keys()
        if len(nodes | _may_lack_files(e, (topic, partition))) < factor:
            few.append(f"{named((topic, partition))} ({len(nodes)} of {factor})")
    if few:
        yield f"fewer replicas were read than the plan has: {some(few)}"


def _may_lack_files(e: Collected, partition: Partition) -> frozenset[int]:
    """Return the nodes that may have no files of a partition.

    A broker may make the directory of a log when it writes the first record, as the built-in one
    does. So a partition without any record in the end needs no directory on a node that never had
    one, or that lost its disk or its power since.
    """
    if partition not in e.empty:
        return e.absent
    return e.absent | (e.bereft if partition in e.written else e.nodes)


def metadata(e: Collected) -> Iterator[str]:
    """Every node's copy of the metadata log was read, or every ZooKeeper server's log."""
    if e.plan.get("control_plane") == "zookeeper":
        servers, read = int(e.plan.get("zookeepers") or 0), set(e.run.zookeeper_logs or ())
        if len(read) < servers:
            yield f"the logs of {servers - len(read)} of {servers} ZooKeeper nodes were not read"
        return
    nodes = {node for node, *_ in e.ends}
    copies = {node for node, topic, _ in e.ends if topic == METADATA_TOPIC}
    if without := sorted(nodes - copies):
        yield f"the metadata log of nodes {some(without)} was not read"


def whole(e: Collected) -> Iterator[str]:
    """The batches of each replica reach from its start to its end without a gap.

    Where Kafka has cleaned a compacted topic there may be gaps, also at the start: a batch of which
    no record stays is gone. The built-in broker writes a batch without records there.
    """
    torn = []
    cleaned = set(compacted_topics(e.plan))
    for replica, end in e.ends.items():
        batches = e.batches.get(replica)
        if not 0 <= end["start_offset"] <= end["end_offset"] or end["high_watermark"] < 0:
            covered = False
        elif batches is None:
            covered = end["end_offset"] == end["start_offset"]
        else:
            length = batches["last"] + 1 - batches["first"]
            covered = batches["last"] + 1 == end["end_offset"] and batches["records"] == length
            covered = covered and batches["first"] <= end["start_offset"]
            if replica[1] in cleaned:
                covered = batches["last"] + 1 == end["end_offset"]
        if not covered:
            torn.append(replica)
    torn += [replica for replica in e.batches if replica not in e.ends]
    if torn:
        replicas = [f"{named((topic, p))} of node {node}" for node, topic, p in sorted(torn)]
        yield f"the batches of {len(torn)} replicas do not reach their ends: {some(replicas)}"


def ends_reached(e: Collected) -> Iterator[str]:
    """Some replica has all records that the final reads returned."""
    rows = e.frames.engine.rows(e.frames.read_ends)
    short = []
    for row in rows:
        place = row["topic"], row["partition"]
        ends = [end["end_offset"] for end in e.ends_of.get(place, {}).values()]
        if ends and row["reached"] is not None and max(ends) < row["reached"]:
            short.append(place)
    if short:
        yield f"every replica ends before what the final reads returned: {listed(sorted(short))}"


def committed_read(e: Collected) -> Iterator[str]:
    """The final reads that came to an end returned all that any replica knows to be committed."""
    known: dict[tuple[str, int], int] = {}
    for (_, topic, partition), end in e.ends.items():
        place = topic, partition
        known[place] = max(known.get(place, 0), end["high_watermark"])
    rows = e.frames.engine.rows(e.frames.complete)
    short = [
        (row["topic"], row["partition"])
        for row in rows
        if row["end_offset"] < known.get((row["topic"], row["partition"]), 0)
    ]
    if short:
        yield f"replicas know of committed records beyond the final reads: {listed(sorted(short))}"
