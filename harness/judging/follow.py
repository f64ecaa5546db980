"""`highwater analyze --follow`: a run that goes on, judged segment by segment until an alarm.

The alarm is on disk (alarm.json in the run's directory, or where it is wanted) before anybody is
told of it. Without an alarm the run is judged as a whole once it is over; that verdict is the one
of `highwater check`.
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

LOOK_EVERY_S: Final = 2.0
PATIENCE_S: Final = 3_600.0
"""How long nothing may be sealed in a run that is not over: longer, and its harness is dead."""
WEBHOOK_TIMEOUT_S: Final = 10.0


def follow(
    run_dir: Path,
    *,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    patience_s: float = PATIENCE_S,
) -> tuple[Anomaly, ...]:
    """Follow a run until something forbidden is seen, which is returned, or until it is over.

    Raises StoreError when the directory is no run, cannot be read, or nothing happens any more.
    """
    run = store.open_run(run_dir)
    try:
        followed = FollowedRun(run.path)
        follower = Follower(plan=load_plan(run.path), live=followed.sources)
        changed_s = clock()
        while clock() - changed_s < patience_s:
            followed.look()  # first: what is sealed later is seen later
            over = followed.over
            taken = follower.segments
            found = follower.look(run.history_dir) or (follower.finish() if over else ())
            if found or over:
                return found
            if follower.segments != taken:
                changed_s = clock()
            wait(LOOK_EVERY_S)
    except HistoryError as error:
        raise StoreError(str(error)) from error
    raise StoreError(
        f"{run_dir}: the run is not over, but nothing was sealed for {patience_s:g} s; it can be "
        "followed only with --rotate, and `highwater check` ends what a dead harness left"
    )


def raise_alarm(
    run_dir: Path, found: Sequence[Anomaly], folder: Path, webhook: str | None
) -> dict[str, Any]:
    """Write alarm.json into `folder`, then tell the webhook; returns what it says.

    A webhook that cannot be told is noted in the log: the alarm is on disk all the same.
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
            log.warning("webhook %s could not be told: %s", webhook, error)
    return alarm
