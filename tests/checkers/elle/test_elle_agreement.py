"""The comparison with Elle: what is asked, and what counts as a different answer."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.tools.elle_agreement import FORBIDDEN, differences, judge, main, violated

FAKE = """\
import json, sys
answers = json.loads({answers!r})
assert sys.argv[1:5] == ["--model", "list-append", "--format", "json"], sys.argv
files = sys.argv[sys.argv.index("serializable") + 1:]
for file in files:
    assert isinstance(json.load(open(file)), list)
    print("WARNING: a word of the logger")
    print(json.dumps(answers[files.index(file)], indent=1))
"""
SEEDS = range(6)


def ask(tmp_path: Path, answers: list[dict[str, object]]) -> int:
    """The exit code, when Elle answers so."""
    script = tmp_path / "elle.py"
    script.write_text(FAKE.format(answers=json.dumps(answers)))
    command = shlex.join([sys.executable, str(script)])
    return main(["--elle", command, "--count", str(len(SEEDS))])


def answer(tmp_path: Path, seed: int) -> dict[str, object]:
    """What Elle says when it agrees."""
    models = sorted(violated(judge(seed, tmp_path / "h.json")))
    return {"valid?": not models, "not": models[:1], "also-not": models[1:]}


def test_equal_answers_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Elle names the weakest violated models and all stronger ones apart."""
    assert ask(tmp_path, [answer(tmp_path, seed) for seed in SEEDS]) == 0
    said = capsys.readouterr().out
    assert "6 histories" in said
    assert said.endswith("0 answers differ\n")


def test_different_answer_is_named_with_its_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever of the two found more."""
    answers = [answer(tmp_path, seed) for seed in SEEDS]
    wrong = next(seed for seed in SEEDS if answers[seed]["not"])
    answers[wrong] = {"valid?": True}
    assert ask(tmp_path, answers) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"seed {wrong}: ")
    assert "1 answers differ" in said


def test_missing_answer_is_no_agreement(tmp_path: Path) -> None:
    """Elle died on the way."""
    script = tmp_path / "elle.py"
    script.write_text("print('{}')")
    with pytest.raises(SystemExit, match="1 answers to 6 histories"):
        main(["--elle", shlex.join([sys.executable, str(script)]), "--count", "6"])


def test_reads_of_failed_sends_are_compared_in_one_model(tmp_path: Path) -> None:
    """Elle has no ww edge over such a record."""
    verdicts = [judge(seed, tmp_path / "h.json") for seed in range(40)]
    aborted = next(each for each in verdicts if any(a.name == "G1a" for a in each.anomalies))
    assert differences(aborted, FORBIDDEN, {"read-committed"}) == frozenset()
    assert differences(aborted, FORBIDDEN, ()) == {"read-committed"}
