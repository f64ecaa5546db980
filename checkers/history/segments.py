"""The files of a table, and the segments of a long stream: names, order, and what is missing.

A table of a run is the file `<name>.parquet`, or the files in the folder `<name>/`, or both. Files
in the folder are named after their writers; a stream that is cut into segments adds their numbers:

    cluster.parquet  cluster.arrows       sealed; still written, or left by a killed harness
    history/monitor.parquet               one writer of several
    cluster/cluster-000000.parquet        segments: all but a writer's last one have ended in order
    cluster/cluster-000001.arrows

A sealed file stands for the stream that it was made of, as long as both are there.
"""

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

STREAM: Final = ".arrows"
SEALED: Final = ".parquet"
_NUMBERED: Final = re.compile(r"(?P<writer>.+)-(?P<number>\d{6})")


def irregular(run_dir: Path) -> Path | None:
    """Return a path of a run that is neither a file nor a directory, such as a pipe; None without
    any. Opening a pipe may block for ever."""
    folders = [run_dir, *(run_dir / name for name in ("history", "cluster", "faults"))]
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.exists() and not path.is_file() and not path.is_dir():
                return path
    return None


def irregular_told(path: Path) -> str:
    """Return the error message for such a path."""
    return f"{path}: is no regular file; put back the run's own, or remove it"


def segment_path(path: Path, number: int) -> Path:
    """Return the path of the segment with this number; segments sort by their names."""
    return path.with_name(f"{path.stem}-{number:06d}{path.suffix}")


def segment_of(stem: str) -> tuple[str, int] | None:
    """Return writer and number of a segment, from its file name without suffix; None for a stream
    without segments."""
    found = _NUMBERED.fullmatch(stem)
    return None if found is None else (found["writer"], int(found["number"]))


def table_files(run_dir: Path, name: str) -> list[Path]:
    """Return the files of a table in the order of their names; files in the folder come first.

    Streams are listed before sealed files, so a stream that is sealed meanwhile is not missed.
    """
    streams, sealed = (_of_kind(run_dir, name, kind) for kind in (STREAM, SEALED))
    done = {path.with_suffix("") for path in sealed}
    left = [path for path in streams if path.with_suffix("") not in done]
    return sorted([*left, *sealed], key=lambda path: (path.parent == run_dir, path))


def table_streams(run_dir: Path, name: str) -> list[Path]:
    """Return the streams of a table in the order of their names; those in the folder come first."""
    return _of_kind(run_dir, name, STREAM)


def _of_kind(run_dir: Path, name: str, kind: str) -> list[Path]:
    return [*sorted((run_dir / name).glob(f"*{kind}")), *run_dir.glob(f"{name}{kind}")]


def followed_by_another(files: Iterable[Path]) -> list[Path]:
    """Return the files in one folder whose writers have begun another segment, in order."""
    numbered = {segment: path for path in files if (segment := segment_of(path.stem)) is not None}
    last = dict(sorted(numbered))  # the greatest number of a writer is set last
    return [numbered[each] for each in sorted(numbered) if each[1] < last[each[0]]]


def segment_missing(where: object) -> str:
    """Return the error message for a missing segment."""
    return f"{where}: is missing, and other segments of its stream are there; put it back"


def segment_torn(where: object) -> str:
    """Return the message for a segment that was cut although another segment came after it."""
    return f"{where}: its end is lost, and other segments came after it; put back a whole one"


def lacking(stems: Collection[str], followed: Collection[str]) -> list[str]:
    """Return the segments that are missing among `stems`, by the numbers of the others.

    followed: the segments after which another one is known to have come.
    """
    last: dict[str, int] = {}
    for stem in stems:
        if (segment := segment_of(stem)) is not None:
            writer, number = segment
            last[writer] = max(last.get(writer, 0), number + (stem in followed))
    named = (f"{writer}-{n:06d}" for writer in sorted(last) for n in range(last[writer] + 1))
    return [stem for stem in named if stem not in stems]
