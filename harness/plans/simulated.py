"""The table `[simulated]` of a plan."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


_Delay = Annotated[float, Field(ge=0, le=3_600_000)]
DelayRange = tuple[_Delay, _Delay]
"""Least and greatest, in milliseconds."""


class Simulated(_Frozen):
    """Delays of simulated networks and disks while no fault is in force, and requests that only
    simulated clients make."""

    latency_ms: DelayRange = (0.1, 0.6)
    """Each link draws its minimal latency of a packet from this range."""
    jitter_ms: DelayRange = (0.02, 0.4)
    """Each link draws the largest addition to its latency from this range."""
    sync_ms: DelayRange = (0.2, 2.0)
    """How long an fsync takes, without the time for the bytes that it writes."""
    lookups_per_s: float = Field(default=0.0, ge=0, le=1_000)
    """How often a client asks for offsets by time, on average; 0 means never. The answers are
    judged, and are not part of the history."""
    group_members: int = Field(default=0, ge=0, le=100)
    """The number of members at a time of each of two consumer groups, one of the classic protocol
    and one of KIP-848. They come and go, and commit offsets. What they commit is judged, and is not
    part of the history."""
    transactional_producers: int = Field(default=0, ge=0, le=100)
    """The number of transactional producers, which write to a topic of their own. What is seen of
    their transactions is judged, and is not part of the history."""
    impatient_producers: int = Field(default=0, ge=0, le=100)
    """The number of transactional producers that speak the first version of the protocol, as
    clients before Kafka 4.0 do. They give a batch up after a short time, and abort. They write to
    the topic of `transactional_producers`, and are judged as those are."""
    compacting_producers: int = Field(default=0, ge=0, le=100)
    """The number of producers that write and delete keys of a compacted topic of their own. The
    last values of the keys and what compaction removes are judged, and are not part of the
    history."""

    offset_keepers: int = Field(default=0, ge=0, le=100)
    """The number of clients that commit, read and delete offsets of a group without members, some
    of them in transactions. What they read is judged, and is not part of the history."""
    unusual_producers: int = Field(default=0, ge=0, le=100)
    """The number of producers that send batches of unusual forms, and wrong ones, to a topic of
    their own. The answers and what is in the topic are judged, and are not part of the history."""
    repeats: bool = False
    """Members of `group_members` and `transactional_producers` send some requests again when they
    are over, as a network does that delivers them late."""
    pauses: bool = False
    """Members of `group_members` and `transactional_producers` sometimes pause between two
    requests, also for longer than their session or transaction may take."""
    broker_keys: bool = False
    """One of the `compacting_producers` also writes the keys that the broker's own records have."""

    failover_at_end: bool = False
    """When all faults are healed and the cluster has settled, a leader is killed. Others must lead
    soon after its session is over. This is judged, and is not part of the history."""
    administration_at_end: bool = False
    """When all faults are healed and the cluster has settled, an administrator creates, moves,
    changes and deletes a topic. The answers are judged, and are not part of the history."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for name in ("latency_ms", "jitter_ms", "sync_ms"):
            least, most = getattr(self, name)
            if least > most:
                raise ValueError(
                    f"{name} is [least, greatest], and {least:g} is more than {most:g}"
                )
        return self
