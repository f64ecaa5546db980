"""Following a run until an alarm, until its end, or until it gets no more segments."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from harness.judging import follow, judge
from harness.recording import store
from harness.recording.journal import Journal
from harness.recording.store import StoreError
from tests.harness.cli.test_analyze import exit_code, stored
from tests.support.histories.story import ALL, Story, healthy, v


def forbidden() -> Story:
    """A story in which an idempotent producer's value is read twice."""
    story = healthy()
    story.poll(ALL, 30, {20: v(ALL, 3)})
    return story


def test_run_that_is_over_gives_the_whole_verdict_or_an_alarm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An alarm is on disk; without one the verdict is that of the whole run."""
    assert exit_code(stored(tmp_path / "well", healthy()), "--follow", "--no-report") == 0
    run_dir = stored(tmp_path / "bent", forbidden())
    capsys.readouterr()
    assert exit_code(run_dir, "--follow", "--json") == 1
    alarm = json.loads(capsys.readouterr().out)
    assert {each["kind"] for each in alarm["anomalies"]} == {"duplicate"}
    assert json.loads((Path(run_dir) / "alarm.json").read_text()) == alarm
    assert judge.check(Path(run_dir))["verdict"] == "INVALID"


def test_following_ends_when_no_segment_is_sealed_for_too_long(tmp_path: Path) -> None:
    """The run is not over, but its harness is dead."""
    run_dir = Path(stored(tmp_path, healthy()))
    with Journal.create(run_dir / "journal.jsonl", run_id="x") as journal:
        journal.record("phase")
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(StoreError, match="no segment was sealed for 60 s"):
        follow.follow(run_dir, wait=wait, clock=lambda: now[0], patience_s=60)


def test_alarm_is_sent_to_the_webhook_and_stays_on_disk_without_a_listener(tmp_path: Path) -> None:
    """Whoever is to be told gets the alarm; that nobody listens hides no alarm."""
    told: list[bytes] = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    run = store.open_run(Path(stored(tmp_path, healthy())))
    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/"
        alarm = follow.raise_alarm(run.path, (), run.path, url)
        thread.join(30)
    assert [json.loads(body) for body in told] == [alarm]
    follow.raise_alarm(run.path, (), run.path, url)
    assert (run.path / "alarm.json").is_file()
