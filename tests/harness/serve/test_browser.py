"""The pages in a browser: no errors, no request to anywhere else, for everybody's eyes."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright import sync_api as playwright

from tests.harness.serve.test_live import Growing
from tests.harness.serve.test_server import Served
from tests.support.reports.stores import add_run, fault_row, place_of
from tests.support.require import require

pytestmark = pytest.mark.slow

PATIENCE_MS = 30_000


class Eyes:
    """A page of a browser that notes what went wrong, and who was asked for what."""

    def __init__(self, browser: playwright.Browser, port: int) -> None:
        self.home = f"http://127.0.0.1:{port}"
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page = browser.new_page(color_scheme="dark", viewport={"width": 1200, "height": 800})
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", lambda sentence: self.complaints.append(sentence.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def look(self, target: str) -> playwright.Page:
        self.page.goto(self.home + target)
        return self.page

    def assert_calm(self) -> None:
        assert self.complaints == []
        assert [u for u in self.asked if not u.startswith((self.home, "data:", "blob:"))] == []


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("browsed") / "store"
    add_run(root, "orders", "VALID", faults=(fault_row(),))
    add_run(root, "orders", "INVALID", faults=(fault_row(),), seed=8)
    return root


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[Served]:
    made = Served(store)
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    require("chromium")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield made
        made.close()


@pytest.fixture
def eyes(browser: playwright.Browser, served: Served) -> Iterator[Eyes]:
    made = Eyes(browser, served.port)
    yield made
    made.page.close()


def test_runs_are_found_filtered_and_compared(eyes: Eyes) -> None:
    """By the form alone; two runs have to be marked, no fewer and no more."""
    page = eyes.look("/?plan=orders")
    assert page.locator("#compare tbody tr").count() == 2
    compare = page.get_by_role("button", name="Compare")
    marks = page.locator("input[name=run]")
    assert compare.is_disabled()
    marks.nth(0).check()
    marks.nth(1).check()
    assert compare.is_enabled()
    compare.click()
    page.wait_for_url("**/compare?**")
    assert "lost-write forbidden" in page.inner_text("main")
    page = eyes.look("/?plan=orders")
    page.get_by_label("Verdict").select_option("INVALID")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**state=INVALID**")
    assert page.locator("#compare tbody tr").count() == 1
    page.locator("#compare tbody th a").click()
    page.wait_for_url("**/runs/**")
    assert "INVALID" in page.inner_text("h1")
    eyes.assert_calm()


def test_a_run_that_goes_on_is_shown_as_it_goes(eyes: Eyes, store: Path) -> None:
    """The numbers grow without a reload; when it is over, the page says what it came to."""
    growing = Growing(store)
    growing.sends(3)
    page = eyes.look("/runs/" + "/".join(growing.place))
    counted = page.locator("#live-topics td.n").first
    playwright.expect(counted).to_have_text("3", timeout=PATIENCE_MS)
    growing.sends(4)
    playwright.expect(counted).to_have_text("7", timeout=PATIENCE_MS)
    growing.close()
    heading = page.locator("h1 .state")
    playwright.expect(heading).to_contain_text("cut", timeout=PATIENCE_MS)
    eyes.assert_calm()


def test_a_page_of_a_run_cannot_reach_us(eyes: Eyes, store: Path) -> None:
    """Its script runs, in an origin of its own, and no request leaves it."""
    run = add_run(store, "hostile")
    (run.path / "report.html").write_text(
        "<!doctype html><title>-</title><script>document.title = self.origin;"
        "fetch('/nights').then(() => { document.title = 'reached' }).catch(() => {});"
        "</script><img src='http://198.51.100.1/x.png'>"
    )
    page = eyes.look("/files/" + "/".join((*place_of(store, run), "report.html")))
    playwright.expect(page).to_have_title("null", timeout=PATIENCE_MS)
    page.wait_for_timeout(200)
    assert page.title() == "null"
    assert all("Content Security Policy" in sentence for sentence in eyes.complaints)
    assert eyes.complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_used_by_everybody(
    browser: playwright.Browser, served: Served, store: Path, scheme: str
) -> None:
    """axe-core finds nothing serious: contrast, names, structure."""
    axe = Axe()
    run = "/".join(sorted(store.glob("orders/*"))[0].relative_to(store).parts)
    # The checker's own script is not ours: our policy would not let it in.
    with browser.new_context(bypass_csp=True, color_scheme=scheme) as context:
        page = context.new_page()
        targets = ["/", f"/runs/{run}", f"/compare?run={run}&run={run}"]
        if scheme == "light":  # what they are made of is the same in the dark
            targets += ["/nights", "/files", f"/files/{run}", f"/log/{run}/harness.log", "/no"]
        for target in targets:
            page.goto(f"http://127.0.0.1:{served.port}{target}")
            found = axe.run(page).response["violations"]
            grave = [v for v in found if v["impact"] in ("serious", "critical")]
            sentence = [f"{v['id']}: {v['nodes'][0]['html']}" for v in grave]
            assert sentence == [], target
