"""`highwater analyze --follow`: judges a running run segment by segment until an alarm.

The alarm is written to disk (alarm.json in the run's directory, or in another folder) before it is
sent anywhere. Without an alarm the whole run is judged when it is over, with the verdict of
`highwater check`.
"""

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from checkers.following.follow import Follower
from checkers.history.history import HistoryError, load_plan
from checkers.verdict import Anomaly
from harness.judging.growing_run import FollowedRun
from harness.recording import store
from harness.recording.store import StoreError

log = logging.getLogger(__name__)

READ_EVERY_S: Final = 2.0
PATIENCE_S: Final = 3_600.0
"""How long a run that is not over may seal nothing. After that its harness counts as dead."""
WEBHOOK_TIMEOUT_S: Final = 10.0


def follow(
    run_dir: Path,
    *,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    patience_s: float = PATIENCE_S,
) -> tuple[Anomaly, ...]:
    """Follow a run until it is over or has a violation. Return the violations.

    Raises StoreError when the directory is no run, cannot be read, or gets no new segment for
    `patience_s`.
    """
    run = store.open_run(run_dir)
    try:
        followed = FollowedRun(run.path)
        follower = Follower(plan=load_plan(run.path), live=followed.sources)
        changed_s = clock()
        while clock() - changed_s < patience_s:
            followed.read_new()  # before the history: segments that are sealed later are read later
            over = followed.over
            segments = follower.segments
            found = follower.look(run.history_dir) or (follower.finish() if over else ())
            if found or over:
                return found
            if follower.segments != segments:
                changed_s = clock()
            wait(READ_EVERY_S)
    except HistoryError as error:
        raise StoreError(str(error)) from error
    raise StoreError(
        f"{run_dir}: the run is not over, but no segment was sealed for {patience_s:g} s; only a "
        "run with --rotate can be followed, and `highwater check` ends the run of a dead harness"
    )


def raise_alarm(
    run_dir: Path, found: Sequence[Anomaly], folder: Path, webhook: str | None
) -> dict[str, Any]:
    """Write alarm.json into `folder`, then send it to the webhook; return its content.

    A webhook that cannot be reached is only logged, because the alarm is on disk.
    """
    alarm = {"run": str(run_dir), "anomalies": [each.as_json() for each in found]}
    text = json.dumps(alarm, indent=2, sort_keys=True) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    store.write_atomic(folder / "alarm.json", text)
    if webhook is not None:
        request = urllib.request.Request(
            webhook, data=text.encode(), headers={"Content-Type": "application/json"}
        )
        try:
            urllib.request.urlopen(request, timeout=WEBHOOK_TIMEOUT_S).close()
        except (OSError, urllib.error.URLError) as error:
            log.warning("webhook %s cannot be reached: %s", webhook, error)
    return alarm
