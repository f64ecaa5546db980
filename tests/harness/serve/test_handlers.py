"""Requests and responses: the right status, safe headers, and no trust in texts of runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.serve import handlers as handlers
from harness.serve.handlers import RequestHandler
from harness.serve.paths import link
from harness.serve.responses import HEADERS, Response, is_own_host
from harness.serve.store_files import StoreFiles
from tests.support.reports.stores import add_run, fault_row, place_of

HOST = "127.0.0.1:8086"
HOSTILE = "<script>alert(1)</script>'\"&{{7*7}}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("served")
    (parent / "secret.txt").write_text("not for you")
    root = parent / "store"
    run = add_run(root, "quick", "INVALID", faults=(fault_row(label=HOSTILE, effect=HOSTILE),))
    run.update(run_id=HOSTILE, commit=HOSTILE)
    (run.path / "report.html").write_text(f"<!doctype html><p>{HOSTILE}")
    (run.path / "nodes").mkdir()
    (run.path / f"{HOSTILE.replace('/', '')}.txt").write_text(HOSTILE)
    (run.path / "out.txt").symlink_to(parent / "secret.txt")
    (root / "up").symlink_to("..")
    add_run(root, "slow", "VALID")
    return root


@pytest.fixture(scope="module")
def handler(store: Path) -> Iterator[RequestHandler]:
    with StoreFiles(store) as store_files:
        yield RequestHandler(store_files, now_s=lambda: 2e9)


@pytest.fixture(scope="module")
def places(store: Path) -> list[tuple[str, ...]]:
    return [
        next(store.glob(f"{plan}/*/run.json")).parent.relative_to(store).parts
        for plan in ("quick", "slow")
    ]


def text(answer: Response) -> str:
    return b"".join(answer.body).decode()


def test_every_page_is_found_and_escaped(
    handler: RequestHandler, places: list[tuple[str, ...]]
) -> None:
    """The server's own pages contain no unescaped text of a run."""
    quick, slow = ("/".join(place) for place in places)
    for target in (
        "/",
        "/?q=quick&state=INVALID&plan=quick&fault=kill&order=gravest&page=1",
        "/?q=" + "%3Cscript%3Ealert(1)%3C/script%3E",
        "/nights",
        f"/runs/{quick}",
        f"/runs/{slow}/",
        f"/compare?run={quick}&run={slow}",
        f"/compare?run={quick}&run={quick}",
        "/files",
        f"/files/{quick}",
        f"/log/{quick}/harness.log",
        f"/log/{quick}/harness.log?q=%3Cscript%3E",
    ):
        answer = handler.respond("GET", target, HOST)
        assert answer.status == 200, target
        page = text(answer)
        assert "<script>alert" not in page, target
        assert "</html>" in page
        assert "script-src 'self'" in answer.all_headers()["Content-Security-Policy"]
    assert "&lt;script&gt;alert" in text(handler.respond("GET", f"/runs/{quick}", HOST))


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/files/../secret.txt", 404),
        ("/files/%2e%2e/secret.txt", 404),
        ("/files/..%2fsecret.txt", 400),
        ("/files//etc/passwd", 404),
        ("/files/%00", 400),
        ("/files/up", 404),
        ("/files/up/secret.txt", 404),
        ("/runs/up", 404),
        ("/runs/" + "9" * 250, 404),
        ("/runs/" + "9" * 9000, 414),
        ("/runs", 404),
        ("/runs/quick", 404),
        ("/zip/quick", 404),
        ("/zip", 404),
        ("/live/quick", 404),
        ("/log/quick", 404),
        ("/files/no/such", 404),
        ("/compare", 400),
        ("/compare?run=quick", 400),
        ("/compare?run=a&run=b&run=c", 400),
        ("/compare?run=../x&run=up/store", 404),
        ("/static/serve.css", 200),
        ("/static/..%2f..%2fhandlers.py", 400),
        ("/static/handlers.py", 404),
        ("/static", 404),
        ("/?page=" + "9" * 100, 200),
        ("/?page=-1&order=x&state=x", 200),
    ],
)
def test_addresses_and_statuses(handler: RequestHandler, target: str, status: int) -> None:
    """Nothing outside the store is served, and each refusal is a page."""
    answer = handler.respond("GET", target, HOST)
    page = text(answer)
    assert answer.status == status
    assert "not for you" not in page
    assert "root:" not in page
    assert "Traceback" not in page


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_than_get_and_head_are_refused(handler: RequestHandler, method: str) -> None:
    """The response lists the allowed methods."""
    answer = handler.respond(method, "/", HOST)
    assert answer.status == 405
    assert answer.all_headers()["Allow"] == "GET, HEAD"


def test_every_answer_has_safe_headers(
    handler: RequestHandler, places: list[tuple[str, ...]]
) -> None:
    """Browsers may not guess types, frame the page, or send its address to others."""
    quick = "/".join(places[0])
    for target in (
        "/",
        "/nosuch",
        f"/zip/{quick}",
        f"/files/{quick}/harness.log",
        f"/live/{quick}",
    ):
        headers = handler.respond("GET", target, HOST).all_headers()
        assert headers.items() >= HEADERS.items()
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_pages_made_by_runs_are_shown_in_a_sandbox(
    handler: RequestHandler, places: list[tuple[str, ...]]
) -> None:
    """Their scripts run, without the server's origin and without a network."""
    quick = places[0]
    report = handler.respond("GET", link("files", (*quick, "report.html")), HOST)
    policy = report.all_headers()["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "connect-src data: blob:" in policy
    plain = handler.respond("GET", link("files", (*quick, "verdict.json")), HOST)
    assert plain.kind.startswith("text/plain")
    binary = handler.respond("GET", link("files", (*quick, "faults.parquet")), HOST)
    assert binary.kind == "application/octet-stream"
    assert binary.all_headers()["Content-Disposition"].startswith("attachment")
    odd = handler.respond("GET", link("files", (*quick, f"{HOSTILE.replace('/', '')}.txt")), HOST)
    assert (odd.status, odd.kind) == (200, "text/plain; charset=utf-8")
    for answer in (report, plain, binary, odd):
        assert sum(map(len, answer.body)) == answer.length


def test_links_in_a_run_are_listed_but_not_followed(
    handler: RequestHandler, places: list[tuple[str, ...]]
) -> None:
    """Wherever they lead."""
    quick = places[0]
    assert "not followed" in text(handler.respond("GET", link("files", quick), HOST))
    assert handler.respond("GET", link("files", (*quick, "out.txt")), HOST).status == 404
    assert handler.respond("GET", link("log", (*quick, "out.txt")), HOST).status == 404


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8086", True),
        ("localhost:1", True),
        ("LOCALHOST.", True),
        ("[::1]:8086", True),
        ("::1", True),
        ("10.1.2.3:80", True),
        ("lab.example:80", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example:8086@127.0.0.1", False),
        ("", False),
        (None, False),
        ("x" * 5000, False),
    ],
)
def test_requests_for_other_host_names_are_refused(host: str | None, ours: bool) -> None:
    """A foreign page can make its own name point here, but not an IP address."""
    assert is_own_host(host, frozenset({"lab.example"})) is ours


def test_pages_show_no_secrets(handler: RequestHandler, store: Path) -> None:
    """Neither in logs nor in compared plans. Downloads are unchanged."""
    runs = [add_run(store, "secretive", broker={"sasl.password": f"hunter{n}"}) for n in (2, 3)]
    places = ["/".join(place_of(store, run)) for run in runs]
    (runs[0].path / "harness.log").write_text("INFO password=hunter2 and more\n")
    for target in (
        f"/log/{places[0]}/harness.log",
        f"/log/{places[0]}/harness.log?q=more",
        f"/compare?run={places[0]}&run={places[1]}",
    ):
        page = text(handler.respond("GET", target, HOST))
        assert "hunter" not in page
        assert "redacted" in page or "compare" in target
    assert "hunter2" in text(handler.respond("GET", f"/files/{places[0]}/harness.log", HOST))


def test_request_for_another_host_name_gets_no_data(handler: RequestHandler) -> None:
    """Not even what there is."""
    answer = handler.respond("GET", "/", "evil.example")
    assert answer.status == 421
    assert "quick" not in text(answer)


def test_internal_error_is_a_page_with_a_sentence(
    handler: RequestHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500, and no traceback."""

    def fails(*_: object) -> None:
        raise ZeroDivisionError("/root/secret/path")

    monkeypatch.setattr(handlers.filters, "select_runs", fails)
    answer = handler.respond("GET", "/", HOST)
    assert answer.status == 500
    page = text(answer)
    assert "ZeroDivisionError" in page
    assert "secret" not in page


@given(method=st.sampled_from(["GET", "HEAD"]), target=st.text(), host=st.text() | st.just(HOST))
@settings(max_examples=150)
def test_anything_is_answered(handler: RequestHandler, method: str, target: str, host: str) -> None:
    """Whatever is asked: a status that blames who asked, never us."""
    for address in (target, "/" + target, "/files/" + target, "/runs/quick/" + target):
        answer = handler.respond(method, address, host)
        assert answer.status in (200, 400, 403, 404, 414, 421)
        b"".join(answer.body)
