"""The documentation says what is true: commands, plans, links, tables, and code that runs."""

import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.main

from checkers.history.history import SCHEMAS
from harness.cli.main import app
from harness.plans.plan import build
from harness.run.prepare import prepare
from tests.support.histories.golden import ALL_GOLDEN
from tests.tools import reference_pages
from tests.tools.anomaly_reports import examples, write_run

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *(path for path in ROOT.glob("*.md")),
        *(path for path in (ROOT / "docs").rglob("*.md")),
    ]
)
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>\w+) -->\n)?```(?P<kind>[^\n]*)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
"""A code block; a comment above it marks what is run: a `plan`, or Python that asks a `run`."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(mark or else language, text) of every code block."""
    for found in BLOCK.finditer(page.read_text()):
        yield found["mark"] or found["kind"].strip(), found["text"]


def commands(page: Path) -> Iterator[list[str]]:
    """Every `highwater` command of a page's code blocks and tables, as its arguments."""
    text = page.read_text()
    lines = [
        line
        for kind, block in blocks(page)
        if kind in ("", "sh", "bash", "text")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    lines += re.findall(r"`(highwater [^`]*)`", BLOCK.sub("", text))
    for line in lines:
        found = re.match(r"\s*(?:sudo |\$ |NODES=3 vagrant up && )*highwater (.*)", line)
        if found:
            yield shlex.split(found[1].split(" # ")[0].split(" && ")[0], comments=True)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_and_option_in_the_documentation_exists(page: Path) -> None:
    for arguments in commands(page):
        command = typer.main.get_command(app)
        words = [word.rstrip(",.;:") for word in arguments]
        context = typer.Context(command)
        while words and words[0] in getattr(command, "list_commands", lambda _: ())(context):
            command = command.get_command(context, words.pop(0))
            context = typer.Context(command)
        if hasattr(command, "commands") and words and re.fullmatch("[a-z-]+", words[0]):
            assert words[0].startswith("-"), f"no command {arguments}"
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        for word in words:
            if word.startswith("--"):
                assert word.split("=")[0] in known | {"--help"}, f"{arguments}: no option {word}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_module_that_the_documentation_starts_exists(page: Path) -> None:
    for module in re.findall(r"python -m ([a-z_.]+[a-z_])", page.read_text()):
        if module.split(".")[0] in (
            "tests",
            "highwater",
            "nodes",
            "harness",
            "nemesis",
            "checkers",
        ):
            assert find_spec(module), module


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", page.read_text())):
        if "://" in link or link.startswith(("#", "mailto:")):
            continue
        path = page.parent / link.split("#")[0]
        assert path.exists() or "anomalies/reports/" in str(path.resolve()), link


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_plan_in_the_documentation_is_accepted(page: Path) -> None:
    for kind, text in blocks(page):
        if kind == "plan":
            prepare(build(tomllib.loads(text), where=name_of(page)))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_example_runs(page: Path, tmp_path: Path) -> None:
    """It finds a stored run in RUN."""
    for number, (kind, text) in enumerate(blocks(page)):
        if kind != "run":
            continue
        run_dir = write_run(tmp_path / str(number), ALL_GOLDEN["replica_has_other_bytes"])
        script = tmp_path / f"example{number}.py"
        script.write_text(text)
        runpy.run_path(str(script), init_globals={"RUN": str(run_dir)})


def test_pages_that_are_made_from_the_code_are_up_to_date() -> None:
    """`python -m tests.tools.reference_pages` writes them."""
    for path, text in reference_pages.pages().items():
        assert path.read_text() == text, f"{name_of(path)} is out of date"


def test_every_key_of_a_plan_has_a_meaning() -> None:
    page = (ROOT / "docs" / "reference" / "plan.md").read_text()
    bare = re.findall(r"^\| `(\w+)` \| [^|]*(?:\\\|[^|]*)*\| [^|]* \|\s+\|", page, re.MULTILINE)
    assert not bare, f"keys without a docstring: {bare}"


def test_every_example_of_the_plan_reference_is_accepted() -> None:
    for model, keys in reference_pages.EXAMPLES.items():
        for key in keys:
            assert (model, key) not in reference_pages.NOT_WRITTEN


def test_the_data_dictionary_has_every_column() -> None:
    page = (ROOT / "docs" / "reference" / "data.md").read_text()
    for table, schema in SCHEMAS.items():
        missing = [field.name for field in schema if f"`{field.name}`" not in page]
        assert not missing, f"{table}: {missing}"


def test_the_encyclopedia_has_every_anomaly() -> None:
    page = (ROOT / "docs" / "anomalies" / "index.md").read_text()
    for kind, _ in examples():
        assert f"### {kind}\n" in page, kind
        assert f"(reports/{kind}.html)" in page, kind


def test_the_site_has_every_page() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in navigation, name_of(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_path_that_the_documentation_names_exists(page: Path) -> None:
    for path in re.findall(
        r"`((?:nodes|harness|nemesis|checkers|tests|docs)/[\w./-]*)`", page.read_text()
    ):
        assert (ROOT / path).exists(), path
