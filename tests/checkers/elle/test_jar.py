"""Elle's jar in a process of its own: what is believed of it, and what is not."""

import sys
from pathlib import Path

import pytest

from checkers.elle.jar import run_elle

FAKE = """\
import sys, time
answer, code, wait = sys.argv[1:4]
assert sys.argv[4] == "-jar" and "--consistency-models" in sys.argv, sys.argv
time.sleep(float(wait))
print("WARNING: a word of the logger")
if answer != "silence":
    for each in answer.split(","):
        print(sys.argv[-1], "\\t", each)
print("java.lang.Oops: out of luck", file=sys.stderr)
sys.exit(int(code))
"""


@pytest.mark.parametrize(
    ("answer", "code", "outcome", "said"),
    [
        ("true", 0, "VALID", "Elle found nothing wrong"),
        ("false", 1, "INVALID", "forbids"),
        ("false", 0, "INVALID", "forbids"),
        ("unknown", 0, "UNKNOWN", "exit code 0 and the answer 'unknown'"),
        (":unknown", 0, "UNKNOWN", "the answer 'unknown'"),
        ("silence", 0, "UNKNOWN", "exit code 0 and no answer"),
        ("silence", 1, "UNKNOWN", "out of luck"),
        ("silence", 255, "UNKNOWN", "exit code 255"),
        ("true", 1, "UNKNOWN", "exit code 1 and the answer 'true'"),
        ("true", 255, "UNKNOWN", "exit code 255"),
        ("false", 255, "UNKNOWN", "exit code 255"),
        ("true,false", 1, "UNKNOWN", "no answer"),
        ("maybe", 0, "UNKNOWN", "'maybe'"),
    ],
)
def test_only_true_or_false_counts_as_answer(
    tmp_path: Path, answer: str, code: int, outcome: str, said: str
) -> None:
    """Answer and exit code have to fit; everything else is unknown, with the last words."""
    script = tmp_path / "java.py"
    script.write_text(FAKE)
    java = (sys.executable, str(script), answer, str(code), "0")
    verdict = run_elle(tmp_path / "elle.jar", tmp_path / "h.json", timeout_s=60, java=java)
    assert verdict.outcome.value == outcome
    assert said in verdict.reasons[0]
    assert verdict.checker.startswith("elle.jar")


def test_does_not_wait_forever(tmp_path: Path) -> None:
    """One that does not answer in time is ended."""
    script = tmp_path / "java.py"
    script.write_text(FAKE)
    java = (sys.executable, str(script), "true", "0", "600")
    verdict = run_elle(tmp_path / "elle.jar", tmp_path / "h.json", timeout_s=0.5, java=java)
    assert (verdict.outcome.value, verdict.reasons) == (
        "UNKNOWN", ("Elle did not answer within 0.5 s",)
    )  # fmt: skip


def test_needs_java(tmp_path: Path) -> None:
    """Without a Java machine there is no answer."""
    java = (str(tmp_path / "no java"),)
    verdict = run_elle(tmp_path / "elle.jar", tmp_path / "h.json", timeout_s=5, java=java)
    assert verdict.outcome.value == "UNKNOWN"
    assert "cannot be started" in verdict.reasons[0]


def test_missing_jar_is_unknown(tmp_path: Path) -> None:
    """The real Java machine, where there is one, refuses a file that is no jar."""
    jar = tmp_path / "elle.jar"
    jar.write_text("no jar")
    verdict = run_elle(jar, tmp_path / "h.json", timeout_s=60)
    assert verdict.outcome.value == "UNKNOWN"
    assert jar.name in verdict.checker
