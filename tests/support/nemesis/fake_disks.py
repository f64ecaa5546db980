"""Disks without a kernel."""

import errno
import os
from collections.abc import Callable, Mapping, Sequence

from nemesis.hosts import PowerCut, Probe


class FakeDisks:
    """Disks as dictionaries of files; writes that are tried say at once what hinders them."""

    def __init__(self, did: Callable[..., None], nodes: Sequence[int]) -> None:
        """`did` notes a call, and raises for one that fails."""
        self._did = did
        self.frozen: set[int] = set()
        self.limited: set[int] = set()
        self.ballast: set[int] = set()
        self.ailments: dict[int, str] = {}
        self.drops: dict[int, int] = {}
        self.attempts: dict[tuple[int, str], int] = {}
        self.contents: dict[int, dict[str, bytes]] = {node: {} for node in nodes}
        self.unsynced: dict[int, dict[str, int]] = {node: {} for node in nodes}
        self.copies: dict[tuple[int, str], dict[str, bytes]] = {}
        self.notes: dict[str, str] = {}

    def flush(self, node: int) -> None:
        """Noted."""
        self._did("flush", node)

    def freeze(self, node: int) -> None:
        """Stalled."""
        self._did("freeze", node)
        self.frozen.add(node)

    def thaw(self, node: int) -> None:
        """Going on."""
        self._did("thaw", node)
        self.frozen.discard(node)

    def limit(self, node: int, *, bytes_per_s: int, operations_per_s: int) -> None:
        """Slow."""
        self._did("limit", node, bytes_per_s, operations_per_s)
        self.limited.add(node)

    def unlimit(self, node: int) -> None:
        """Quick again."""
        self._did("unlimit", node)
        self.limited.discard(node)

    def is_limited(self, node: int) -> bool:
        """Whether it is slow."""
        return node in self.limited

    def fill(self, node: int) -> int:
        """Full."""
        self._did("fill", node)
        self.ballast.add(node)
        return 1 << 30

    def drain(self, node: int) -> None:
        """Room again."""
        self._did("drain", node)
        self.ballast.discard(node)

    def free_bytes(self, node: int) -> int:
        """Nothing, or plenty."""
        return 0 if node in self.ballast else 1 << 30

    def set_read_only(self, node: int) -> None:
        """Refusing writes."""
        self._did("set_read_only", node)
        self.ailments[node] = "read-only"

    def fail(self, node: int) -> None:
        """Refusing everything."""
        self._did("fail", node)
        self.ailments[node] = "failing"

    def fail_next_sync(self, node: int) -> None:
        """The node syncs at once."""
        self._did("fail_next_sync", node)
        self.drops[node] = 100

    def stop_sync_failures(self, node: int) -> None:
        """As before."""
        self._did("stop_sync_failures", node)
        self.drops.pop(node, None)

    def failed_sync_bytes(self, node: int) -> int | None:
        """What was dropped."""
        return self.drops.get(node)

    def disk_problem(self, node: int) -> str:
        """What is wrong."""
        return self.ailments.get(node, "")

    def repair(self, node: int) -> None:
        """Well again."""
        self._did("repair", node)
        self.ailments.pop(node, None)

    def cut_power(self, nodes: Sequence[int]) -> Sequence[PowerCut]:
        """What was said to be unsynced is lost."""
        self._did("cut_power", *nodes)
        return [
            PowerCut(node, 1_000_000 * at, self.unsynced[node]) for at, node in enumerate(nodes)
        ]

    def probe(self, node: int, name: str, size_bytes: int) -> None:
        """One more write."""
        self._did("probe", node, name)
        self.attempts[node, name] = size_bytes

    def probed(self, node: int, name: str) -> Probe | None:
        """What would come of it now."""
        if (node, name) not in self.attempts:
            return None
        size_bytes = self.attempts[node, name]
        if node in self.frozen:
            return Probe(size_bytes, 1000.0, done=False)
        if node in self.ballast:
            return Probe(size_bytes, 1.0, done=True, error=os.strerror(errno.ENOSPC))
        if node in self.ailments:
            number = {"read-only": errno.EROFS, "failing": errno.EIO}[self.ailments[node]]
            return Probe(size_bytes, 1.0, done=True, error=os.strerror(number))
        return Probe(size_bytes, 1000.0 if node in self.limited else 1.0, done=True)

    def end_probe(self, node: int, name: str) -> Probe | None:
        """What came of it."""
        seen = self.probed(node, name)
        self.attempts.pop((node, name), None)
        return seen

    def files(self, node: int) -> Mapping[str, int]:
        """Sizes."""
        return {path: len(content) for path, content in sorted(self.contents[node].items())}

    def read(self, node: int, path: str, offset: int, size_bytes: int) -> bytes:
        """A part."""
        return self.contents[node][path][offset : offset + size_bytes]

    def write(self, node: int, path: str, offset: int, content: bytes) -> None:
        """A part overwritten."""
        self._did("write", node, path)
        old = self.contents[node][path]
        self.contents[node][path] = old[:offset] + content + old[offset + len(content) :]

    def truncate(self, node: int, path: str, size_bytes: int) -> None:
        """A tail cut."""
        self._did("truncate", node, path)
        self.contents[node][path] = self.contents[node][path][:size_bytes]

    def keep_copy(self, node: int, name: str, paths: Sequence[str]) -> None:
        """Aside."""
        self.copies[node, name] = {path: self.contents[node][path] for path in paths}

    def restore_copy(self, node: int, name: str) -> Mapping[str, tuple[int, int]]:
        """Back."""
        self._did("restore_copy", node)
        now, old = self.contents[node], self.copies[node, name]
        changed = {path: (len(now[path]), len(c)) for path, c in old.items() if now[path] != c}
        now.update(old)
        return changed

    def forget_copy(self, node: int, name: str) -> None:
        """Gone."""
        self.copies.pop((node, name), None)

    def wipe(self, node: int) -> Mapping[str, int]:
        """Empty."""
        self._did("wipe", node)
        had: dict[str, int] = {}
        for path, content in self.contents[node].items():
            directory = path.rpartition("/")[0]
            had[directory] = had.get(directory, 0) + len(content)
        self.contents[node].clear()
        return had

    def keep_evidence(self, key: str, evidence: str) -> None:
        """Kept."""
        self.notes[key] = evidence

    def kept_evidence(self, key: str) -> str | None:
        """As kept."""
        return self.notes.get(key)
