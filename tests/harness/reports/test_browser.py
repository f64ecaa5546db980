"""The page in a browser: it runs without complaint and without a request, and does what it says."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, sync_playwright

from harness.reports.page import write_report
from tests.support.reports.blocks import block
from tests.support.reports.lossy_run import lossy_run
from tests.support.reports.synthetic_run import killed_run
from tests.support.require import require
from tests.support.tiers import in_turn
from tests.tools.report_size import look, many_anomalies, many_operations

pytestmark = pytest.mark.slow

GRAVE = ("serious", "critical")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, once for the module."""
    require("chromium")
    with sync_playwright() as started:
        found = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of reports by outcome; KILLED: its harness was killed; EMPTY: nothing is there."""
    made: dict[str, str] = {}
    for outcome in ("VALID", "INVALID", "UNKNOWN", "KILLED", "EMPTY"):
        run = tmp_path_factory.mktemp("browser") / outcome
        match outcome:
            case "KILLED":
                killed_run(run)
            case "EMPTY":
                run.mkdir()
            case _:
                lossy_run(run, outcome, sends=12_000)
        made[outcome] = f"file://{quote(str(write_report(run)))}"
    return made


class Visit:
    """A page that is open, and whatever it complained of or asked for."""

    def __init__(self, browser: Browser, address: str, scheme: str = "light") -> None:
        self.page = browser.new_page(
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": 1180, "height": 900},
        )
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = address
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]", timeout=60_000)

    def close(self) -> None:
        """Nothing was complained of, and nothing asked for but the page itself."""
        self.page.close()
        assert self.complaints == []
        assert {url.split("#")[0] for url in self.requests} == {self.address.split("#")[0]}

    def drag(self, begin: float, end: float) -> None:
        """Over the figures, from one share of their width to another."""
        box = self.page.locator("#chart").bounding_box()
        assert box is not None
        self.page.locator("#chart").scroll_into_view_if_needed()
        box = self.page.locator("#chart").bounding_box()
        assert box is not None
        y = max(box["y"], 0) + 300
        self.page.mouse.move(box["x"] + begin * box["width"], y)
        self.page.mouse.down()
        self.page.mouse.move(box["x"] + end * box["width"], y, steps=4)
        self.page.mouse.up()

    def until(self, condition: str) -> None:
        """Wait for it. The page's policy forbids Playwright's own way, which evaluates text."""
        for _ in range(200):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never came: {condition}")

    @property
    def opened(self) -> str:
        """The title of the anomaly or operation that is open."""
        return str(self.page.locator("#opened-title").inner_text())

    @property
    def hash(self) -> str:
        """What is behind the # in the address."""
        return str(self.page.evaluate("location.hash"))


@pytest.mark.parametrize(
    ("outcome", "scheme"),
    [("VALID", "light"), ("INVALID", "light"), ("INVALID", "dark"), ("UNKNOWN", "dark"),
     ("KILLED", "light"), ("EMPTY", "light")],
)  # fmt: skip
def test_opens_without_complaint_and_accessibly(
    browser: Browser, reports: dict[str, str], outcome: str, scheme: str
) -> None:
    """No console message, no request, and no serious finding of axe-core."""
    axe = Axe()
    visit = Visit(browser, reports[outcome], scheme)
    found = axe.run(visit.page).response["violations"]
    grave = [
        (each["id"], [node["html"][:200] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in GRAVE
    ]
    visit.close()
    assert grave == []


def test_zooms_by_dragging_and_by_keys(browser: Browser, reports: dict[str, str]) -> None:
    """All figures share the span, the address has it, and the way back is short."""
    visit = Visit(browser, reports["INVALID"])
    note = visit.page.locator("#figure-note")
    assert note.inner_text().startswith("From 0.000 s to")
    visit.drag(0.3, 0.5)
    span = re.search(r"z=([\d.]+)\.\.([\d.]+)", visit.hash)
    assert span is not None
    assert 20 < float(span[1]) < float(span[2]) < 50
    assert note.inner_text().startswith(f"From {float(span[1]):.3f} s to")
    visit.page.locator("#figure").focus()
    visit.page.keyboard.press("+")
    assert visit.hash != f"#{span[0]}"
    visit.page.keyboard.press("0")
    assert "z=" not in visit.hash
    visit.page.keyboard.press("ArrowRight")
    assert "p99" in visit.page.locator("#spoken").inner_text()
    visit.close()


def test_wall_clocks_are_drawn_and_read_out(browser: Browser, reports: dict[str, str]) -> None:
    """A line for each that was set; what is shown of a moment names those that are apart."""
    visit = Visit(browser, f"{reports['VALID']}#z=36..40")
    page = visit.page
    assert page.locator("g.clocks path.line").count() == 2
    assert "60 s" in (page.locator("g.clocks").text_content() or "")
    page.locator("#figure").focus()
    page.keyboard.press("ArrowRight")
    said = page.locator("#spoken").inner_text()
    assert "clock of node 2 60 s ahead, clock of node 3 9 s behind" in said
    visit.close()


def test_filters_what_is_drawn_and_listed(browser: Browser, reports: dict[str, str]) -> None:
    """By partition, client, acks, anomaly and cause; the fault's own link too."""
    visit = Visit(browser, reports["INVALID"])
    page = visit.page
    page.locator("#filter-acks").select_option("-1")
    assert page.locator("g.latency").count() == 1
    page.locator("#filter-partition").select_option("acks-all/1")
    assert page.locator("g.lane").count() - page.locator("#opened g.lane").count() == 1
    page.locator("#filter-clear").click()
    assert page.locator("#chart g.latency").count() == 3
    page.locator("#filter-kind").select_option("permitted")
    rows = page.locator("#anomaly-rows tr")
    assert {"permitted"} == set(
        re.findall(r"forbidden|permitted", " ".join(rows.all_inner_texts()))
    )
    page.locator("[data-fault='3']").click()
    assert set(page.locator("#anomaly-rows tr td:last-child").all_inner_texts()) == {"fault 3"}
    assert "fault=3" in visit.hash
    client = page.locator("#filter-client option").nth(1).get_attribute("value")
    page.locator("#filter-client").select_option(client)
    assert f"client={client}" in visit.hash
    visit.close()


def test_jumps_to_the_first_error_and_on(browser: Browser, reports: dict[str, str]) -> None:
    """It says what was lost, by which fault, on which leader and epoch; n and p go on and back."""
    visit = Visit(browser, reports["INVALID"])
    page = visit.page
    assert page.evaluate("scrollY") == 0, "the verdict comes first"
    assert visit.hash == ""
    page.locator("[data-first-error]").first.click()
    visit.until("scrollY > 1000")
    assert visit.opened.startswith("Anomaly 1: lost-write")
    text = page.locator("#opened").inner_text()
    for said in (
        "and got the acknowledgement at", "did not find", "node 3 replaced node 2 as leader",
        "Every replica around the offset", "Leader epochs", "node 2 truncated its log to",
        "operation of this partition in this span is drawn",
    ):  # fmt: skip
        assert said in text, said
    assert "≠" in page.locator("#opened .log").inner_text()
    assert page.locator("#opened .because a").get_attribute("href") == "#fault-1"
    page.keyboard.press("n")
    assert visit.opened.startswith("Anomaly 2:")
    page.keyboard.press("p")
    assert visit.opened.startswith("Anomaly 1:")
    page.keyboard.press("n")
    page.go_back()
    visit.until("document.querySelector('#opened-title').innerText.startsWith('Anomaly 1:')")
    visit.close()


def test_an_address_shows_the_same_again(browser: Browser, reports: dict[str, str]) -> None:
    """A view in the address, and an anchor for each operation."""
    visit = Visit(browser, reports["INVALID"])
    operation = visit.page.locator("#opened .evidence a").first
    name = operation.inner_text()
    operation.click()
    assert visit.opened == f"Operation {name}"
    assert f"op={name}" in visit.hash
    assert "It is in anomaly" in visit.page.locator("#opened").inner_text()
    visit.close()
    again = Visit(browser, f"{reports['INVALID']}#z=20..30&acks=-1&op={name}")
    assert again.opened == f"Operation {name}"
    assert again.page.locator("#figure-note").inner_text().startswith("From 20.000 s to 30.000 s")
    assert again.page.locator("#filter-acks").input_value() == "-1"
    again.close()


def test_light_and_dark_and_paper(browser: Browser, reports: dict[str, str]) -> None:
    """As the system has it, unless told; paper is always light, and everything is unfolded."""
    visit = Visit(browser, reports["INVALID"], "dark")
    page = visit.page
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.locator("#theme").click()
    light = page.evaluate(paper)
    assert dark != light
    page.locator("#theme").click()
    assert page.evaluate(paper) == dark
    page.emulate_media(media="print")
    assert page.evaluate(paper) == light
    assert page.locator("#theme").is_hidden()
    visit.close()


@pytest.mark.parametrize(
    "much",
    in_turn(
        "harness/reports/test_browser.py::test_a_large_run_is_small_and_quick",
        ["operations", "anomalies"],
        of=2,
    ),
)
def test_a_large_run_is_small_and_quick(browser: Browser, tmp_path: Path, much: str) -> None:
    """A million operations or ten thousand anomalies: at most 8 MB, and opened, zoomed, filtered
    and searched within 3 s of processor time, which does not depend on who else is busy."""
    make, number = {
        "operations": (many_operations, 1_000_000), "anomalies": (many_anomalies, 10_000),
    }[much]  # fmt: skip
    report = make(tmp_path / "run", number)
    assert report.stat().st_size <= 8_000_000
    kept = block(report.read_text(), much)
    many = len(kept["columns"]["kind"] if much == "operations" else kept["instances"]["group"])
    assert many >= number
    page = browser.new_page()
    took = look(page, f"file://{quote(str(report))}")
    page.close()
    assert took["processor"] < 3.0, took
