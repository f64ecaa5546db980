"""The small text files that Kafka keeps beside its logs, in Kafka's formats.

    replication-offset-checkpoint      the high watermark of every partition of a log directory
    recovery-point-offset-checkpoint   below this offset each log was known to be on disk
    log-start-offset-checkpoint        below this offset each log's records count as deleted
    cleaner-offset-checkpoint          below this offset each compacted log is clean
    leader-epoch-checkpoint            in each log: where its leader epochs begin
    partition.metadata                 in each log: the id of its topic
    meta.properties                    which cluster and node the directory belongs to
    .kafka_cleanshutdown               the node closed its logs cleanly before it stopped

Each file is replaced completely or not at all. A file that does not parse raises CheckpointError; a
missing file reads as empty. The callers decide when to write them.
"""

import base64
import dataclasses
import json
import string
from collections.abc import Mapping, Sequence
from uuid import UUID

from nodes.ids import Epoch, NodeId, Offset, TopicPartition
from nodes.storage.disk import Disk, File, parent

REPLICATION_OFFSETS = "replication-offset-checkpoint"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_VERSION = 0
_UUID_BYTES = 22
_UUID_ALPHABET = (string.ascii_letters + string.digits + "-_").encode()
"""Of the text form of an id: see `encode_uuid`."""


class CheckpointError(Exception):
    """A checkpoint file does not parse; the text names the file and the line."""


class OffsetCheckpoint:
    """An offset per partition; `path` is one of the four offset checkpoint files."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._writes = 0

    def read(self) -> dict[TopicPartition, Offset]:
        """Every partition's offset."""
        offsets = {}
        for fields in _read_table(self._disk, self._path, columns=3):
            topic, partition, offset = fields
            key = TopicPartition(topic, _number(self._path, partition))
            offsets[key] = Offset(_number(self._path, offset))
        return offsets

    def write(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the file; blocks until that is durable."""
        self._writes += 1
        self._disk.write_atomic(self._path, _offset_table(offsets))

    async def write_off_loop(self, offsets: Mapping[TopicPartition, Offset]) -> bool:
        """Like `write`, without blocking the loop; false if a newer `write` happened meanwhile.

        The content of the newer `write` stays. Not for two callers at once.
        """
        self._writes += 1
        number = self._writes
        temporary = self._path + ".tmp"
        if self._disk.exists(temporary):
            self._disk.unlink(temporary)
        file = self._disk.open(temporary, create=True)
        try:
            file.append(_offset_table(offsets))
            await self._disk.sync(file)
        finally:
            file.close()
        if number == self._writes:  # otherwise a newer write replaced both files
            self._disk.rename(temporary, self._path)
            await self._disk.sync(parent(self._path))
        return number == self._writes


class LeaderEpochCheckpoint:
    """The leader epochs of one log, whose directory is given.

    A write is not synced (as in Kafka since KAFKA-15046, because the sync stalled whole brokers).
    The log's next flush syncs it, so that the file has every epoch below the recovery point.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{LEADER_EPOCHS}"
        self._content: list[tuple[Epoch, Offset]] | None = None
        self._written = 0
        self._syncing = 0
        self._synced = 0

    def read(self) -> list[tuple[Epoch, Offset]]:
        """The epochs and their start offsets in the file."""
        self._content = None
        self._content = [
            (Epoch(_number(self._path, epoch)), Offset(_number(self._path, start)))
            for epoch, start in _read_table(self._disk, self._path, columns=2)
        ]
        return self._content.copy()

    def write(self, entries: Sequence[tuple[Epoch, Offset]]) -> None:
        """Replace the file."""
        rows = [f"{epoch} {start}" for epoch, start in entries]
        self._disk.write_atomic(self._path, _table(rows), durable=False)
        self._content = list(entries)
        self._written += 1

    def says(self, entries: Sequence[tuple[Epoch, Offset]]) -> bool:
        """Whether the file, as last read or written, has exactly these entries."""
        return self._content == list(entries)

    def unsynced(self) -> File | None:
        """The open file, if it was written since the last sync; the caller syncs and closes it,
        and syncs its directory.
        """
        self._syncing = self._written
        return self._disk.open(self._path) if self._synced < self._written else None

    def synced(self) -> None:
        """The file of the last `unsynced` is on disk, and its name."""
        self._synced = self._syncing


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """The topic id of a partition's directory; a later topic may have the same name (KIP-516)."""

    topic_id: UUID

    @classmethod
    def read(cls, disk: Disk, directory: str) -> "PartitionMetadata | None":
        """Read the directory's file; None without one, or if a power loss left it empty or cut it
        short. Raises CheckpointError.
        """
        path = f"{directory}/{PARTITION_METADATA}"
        if not disk.exists(path) or _is_cut_short(disk.read(path)):
            return None
        fields = dict(line.partition(": ")[::2] for line in _text(disk, path).splitlines())
        if fields.get("version") != str(_VERSION):
            raise CheckpointError(f"{path}: version {fields.get('version')!r}, not {_VERSION}")
        return cls(topic_id=decode_uuid(path, fields.get("topic_id", "")))

    def write(self, disk: Disk, directory: str, *, durable: bool = True) -> None:
        """Write the file; blocks when `durable`."""
        text = f"version: {_VERSION}\ntopic_id: {encode_uuid(self.topic_id)}\n"
        disk.write_atomic(f"{directory}/{PARTITION_METADATA}", text.encode(), durable=durable)


def _is_cut_short(data: bytes) -> bool:
    """Whether these are the first bytes of a partition.metadata file, perhaps with zeros behind."""
    left = data.rstrip(b"\0")
    before_id = f"version: {_VERSION}\ntopic_id: ".encode()
    topic_id = left.removeprefix(before_id)
    begun = left.startswith(before_id) and len(topic_id) < _UUID_BYTES
    return before_id.startswith(left) or (begun and not topic_id.strip(_UUID_ALPHABET))


def encode_uuid(uuid: UUID) -> str:
    """Kafka's text form of an id: its 16 bytes in URL-safe base 64, without padding."""
    return base64.urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def decode_uuid(path: str, text: str) -> UUID:
    """Parse an id in the form of `encode_uuid`. Raises CheckpointError, which names `path`."""
    try:
        return UUID(bytes=base64.b64decode(f"{text}==", altchars=b"-_", validate=True))
    except ValueError:
        raise CheckpointError(f"{path}: {text!r} is no id") from None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The owner of a log directory; a node refuses a directory of another (KIP-631, KIP-858)."""

    cluster_id: str
    node_id: NodeId
    directory_id: str | None = None
    """The text of `encode_uuid`."""

    @classmethod
    def read(cls, disk: Disk) -> "MetaProperties | None":
        """The directory's properties; None if it was never formatted."""
        if not disk.exists(META_PROPERTIES):
            return None
        properties = {}
        for line in _text(disk, META_PROPERTIES).splitlines():
            name, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                properties[name.strip()] = value.strip()
        if properties.get("version") != "1":
            raise CheckpointError(f"{META_PROPERTIES}: version {properties.get('version')}, not 1")
        try:
            return cls(
                cluster_id=properties["cluster.id"],
                node_id=NodeId(_number(META_PROPERTIES, properties["node.id"])),
                directory_id=properties.get("directory.id"),
            )
        except KeyError as error:
            raise CheckpointError(f"{META_PROPERTIES}: {error.args[0]} is missing") from None

    def write(self, disk: Disk) -> None:
        """Write the directory's properties; blocks until they are durable."""
        lines = ["version=1", f"cluster.id={self.cluster_id}", f"node.id={self.node_id}"]
        if self.directory_id is not None:
            lines.append(f"directory.id={self.directory_id}")
        disk.write_atomic(META_PROPERTIES, "".join(f"{line}\n" for line in lines).encode())


class CleanShutdown:
    """The file that a node writes after it closed every log, and removes before it opens one."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def write(self, broker_epoch: int) -> None:
        """Write the file, with the epoch of the broker's registration (KIP-966)."""
        mark = {"version": _VERSION, "brokerEpoch": broker_epoch}
        self._disk.write_atomic(CLEAN_SHUTDOWN, json.dumps(mark, separators=(",", ":")).encode())

    def take(self) -> int | None:
        """Remove the file and return its broker epoch, -1 if it has none; None without the file.

        The removal is durable on return, before any log is loaded: a crash during the loading must
        not look like a clean shutdown to the next start (KAFKA-10471).
        """
        if not self._disk.exists(CLEAN_SHUTDOWN):
            return None
        try:
            mark = json.loads(self._disk.read(CLEAN_SHUTDOWN))
            epoch = int(mark["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            epoch = -1  # Kafka before 3.7 wrote an empty file
        self._disk.unlink(CLEAN_SHUTDOWN)
        self._disk.sync_dir("")
        return epoch


def _text(disk: Disk, path: str) -> str:
    try:
        return disk.read(path).decode()
    except UnicodeDecodeError:
        raise CheckpointError(f"{path}: not text") from None


def _read_table(disk: Disk, path: str, *, columns: int) -> list[list[str]]:
    """Kafka's checkpoint table: a version line, a line with the number of rows, the rows."""
    try:
        text = _text(disk, path)
    except FileNotFoundError:
        return []
    if not text.endswith("\n"):
        raise CheckpointError(f"{path}: it does not end with a line's end")  # half written
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != str(_VERSION):
        raise CheckpointError(f"{path}: no version {_VERSION} and row count in its first two lines")
    rows = [line.split(" ") for line in lines[2:]]
    if len(rows) != _number(path, lines[1]):
        raise CheckpointError(f"{path}: {len(rows)} rows, its second line says {lines[1]}")
    for row in rows:
        if len(row) != columns:
            raise CheckpointError(f"{path}: {' '.join(row)!r} has not {columns} fields")
    return rows


def _offset_table(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    return _table([f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()])


def _table(rows: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (str(_VERSION), str(len(rows)), *rows)).encode()


def _number(path: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise CheckpointError(f"{path}: {text!r} is not a number") from None
