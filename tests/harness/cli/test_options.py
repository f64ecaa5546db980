"""Options that several commands share: their help texts, and how their values are read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from harness.admin.errors import BadRequest
from harness.cli.main import app, main
from harness.cli.options import broker_numbers, comma_separated, key_values, zoo_module
from harness.zoo import mutants


def commands(group: Any, path: tuple[str, ...] = ("highwater",)) -> Iterator[tuple[str, Any]]:
    """Yield every command with its words."""
    yield " ".join(path), group
    if hasattr(group, "list_commands"):
        for name in group.list_commands(None):
            yield from commands(group.get_command(None, name), (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_and_parameter_has_a_help_text(words: str) -> None:
    """A help text begins with a capital, an option or an example."""
    command = COMMANDS[words]
    assert command.help, words
    for parameter in command.params:
        if parameter.name != "help":
            assert getattr(parameter, "help", ""), f"{words}: {parameter.name}"


def test_option_with_the_same_declaration_has_the_same_help_everywhere() -> None:
    """An option of these names means the same in every command that has it."""
    for name in ("--debug", "--store", "--broker-module", "--kafka-home", "--expect", "--jobs"):
        texts = {
            parameter.help
            for command in COMMANDS.values()
            for parameter in command.params
            if name in parameter.opts
        }
        assert len(texts) == 1, (name, texts)


def test_every_administrative_command_takes_the_options_that_choose_a_cluster() -> None:
    administrative = [
        command
        for words, command in COMMANDS.items()
        if words.startswith("highwater cluster ") and not hasattr(command, "list_commands")
        if words.split()[2] not in ("up", "down")
    ]
    assert len(administrative) > 15
    for command in administrative:
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--bootstrap-servers", "--run", "--name", "--json", "--debug"} <= options


@pytest.mark.parametrize("name", mutants.NAMES)
def test_bare_name_of_a_zoo_entry_becomes_its_module(name: str) -> None:
    assert zoo_module(name) == f"harness.zoo.mutants.{name}"


@pytest.mark.parametrize("name", [None, "nodes", "my.isr_of_one", "isr_of_two", "no way", ""])
def test_other_broker_modules_stay_as_they_are(name: str | None) -> None:
    assert zoo_module(name) == name


def test_module_of_the_working_directory_goes_before_a_zoo_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a changed copy of the zoo entry."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "isr_of_one.py").touch()
    assert zoo_module("isr_of_one") == "isr_of_one"
    assert zoo_module("votes_in_memory") == "harness.zoo.mutants.votes_in_memory"


def test_command_line_accepts_the_bare_name_of_a_zoo_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The replaced name is in the plan, as the message about a contradiction shows."""
    monkeypatch.chdir(tmp_path)
    for system in ("kafka", "external"):
        arguments = ["run", "--system", system, "--broker-module", "isr_of_one", "--dry-run"]
        if system == "external":
            arguments += ["--bootstrap-servers", "h:1"]
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 254
        assert "harness.zoo.mutants.isr_of_one" in capsys.readouterr().err


def test_comma_separated_texts_lose_blanks_and_empty_parts() -> None:
    assert comma_separated(" a, b ,,c") == ["a", "b", "c"]
    assert comma_separated("") == []


def test_broker_numbers_are_read_from_a_comma_separated_text() -> None:
    assert broker_numbers("--broker-list", "3, 1") == [3, 1]
    assert broker_numbers("--broker-list", "") == []
    for text, message in (("1,x", "'x' is no broker number"), ("1,1", "named twice")):
        with pytest.raises(BadRequest, match=message):
            broker_numbers("--broker-list", text)


def test_value_of_a_setting_may_contain_an_equals_sign() -> None:
    assert key_values("--config", ["a.b=1=2", " c = d "]) == {"a.b": "1=2", "c": "d"}
    assert key_values("--config", None) == {}


@pytest.mark.parametrize("text", ["a", "=1", " =1"])
def test_setting_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"--property .* is no KEY=VALUE"):
        key_values("--property", [text])
