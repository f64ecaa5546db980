"""Makes the pictures of docs/report.md from a run that is INVALID:

highwater run quick --broker-module harness.zoo.mutants.ack_before_replication
python -m tests.tools.report_pictures RUN docs/images
"""

import shutil
import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

from harness.reports.page import write_report

WIDTH = 1120
SETTLED_MS = 800
AROUND_S = (0.7, 0.2)
"""Seconds before the start and after the end of the fault in the zoomed picture."""


def main(run: Path, images: Path) -> None:
    """Write all pictures."""
    address = f"file://{quote(str(write_report(run).resolve()))}"
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = opened(browser, address)
        picture(page, "section.verdict", 780, images / "report-verdict.png")
        picture(page, "#time", 800, images / "report-time.png")
        picture(page, "#faults", 420, images / "report-faults.png")
        span = zoomed(page)
        page.locator("[data-first-error]").first.click()
        page.wait_for_selector("#opened-title")
        picture(page, "#opened", 1000, images / "report-anomaly.png")
        page.locator("#opened summary").last.click()
        picture(page, "h4:has-text('Every replica')", 700, images / "report-evidence.png")
        dark = opened(browser, f"{address}#z={span}&acks=-1", "dark")
        picture(dark, "#time", 760, images / "report-zoom.png")
        browser.close()


def opened(browser: Browser, address: str, scheme: str = "light") -> Page:
    """Open the page and wait until it is drawn."""
    page = browser.new_page(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": WIDTH, "height": 900},
    )
    page.goto(address)
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    return page


def zoomed(page: Page) -> str:
    """Return the time span around the first fault, in the form of addresses."""
    started, healed = (
        float(page.locator(f"#fault-0 td >> nth={place}").inner_text().split(" s")[0])
        for place in (3, 4)
    )
    return f"{started - AROUND_S[0]:.1f}..{healed + AROUND_S[1]:.1f}"


def picture(page: Page, selector: str, height: int, path: Path) -> None:
    """Take a picture of the window, from the top of an element on."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    found = page.locator(selector).first
    page.wait_for_timeout(SETTLED_MS)  # an opened anomaly scrolls into view by itself
    found.evaluate("element => element.scrollIntoView({behavior: 'instant'})")
    page.wait_for_timeout(SETTLED_MS)
    page.screenshot(path=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
