"""Addresses, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.serve.paths import Address, BadAddress, link, place_of, read

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1)
PLACES = st.lists(
    NAMES.filter(lambda name: name not in (".", "..") and len(name.encode()) < 200), max_size=5
).map(tuple)


@pytest.mark.parametrize(
    ("target", "page", "place"),
    [
        ("/", "", ()),
        ("/nights", "nights", ()),
        ("/files/", "files", ()),
        ("/files/a/b%20c", "files", ("a", "b c")),
        ("/runs/a/b/", "runs", ("a", "b")),
        ("/files/%2e%2e%2e", "files", ("...",)),
        ("/files/a%252e", "files", ("a%2e",)),
    ],
)
def test_addresses(target: str, page: str, place: tuple[str, ...]) -> None:
    """Names are decoded once."""
    assert read(target) == Address(page=page, place=place)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/files/../x", 404),
        ("/files/%2e%2e/x", 404),
        ("/files/.%2E/x", 404),
        ("/files/a/./b", 404),
        ("/files//etc/passwd", 404),
        ("/files/a%2f..%2fb", 400),
        ("/files/a%00b", 400),
        ("/files/a%0ab", 400),
        ("/files/%zz", 400),
        ("/files/%ff", 400),
        ("/files/" + "x" * 300, 404),
        ("/files/" + "x/" * 50, 404),
        ("/" + "x" * 5000, 414),
        ("/nosuch", 404),
        ("/%2e%2e", 404),
        ("http://elsewhere/", 400),
        ("*", 400),
        ("", 400),
        ("/?" + "&".join(f"a{n}=1" for n in range(30)), 400),
        ("/?q=%ff", 400),
    ],
)
def test_bad_addresses_are_refused(target: str, status: int) -> None:
    """Each is refused with the status that HTTP has for it."""
    with pytest.raises(BadAddress) as caught:
        read(target)
    assert caught.value.status == status


@given(st.text())
def test_any_text_is_an_address_or_is_refused(text: str) -> None:
    """And no other error; no name of a place leads anywhere but down."""
    for target in (text, "/" + text, "/files/" + text):
        try:
            found = read(target)
        except BadAddress:
            continue
        assert all(name not in ("", ".", "..") and "/" not in name for name in found.place)


@given(PLACES)
def test_a_link_leads_to_its_place(place: tuple[str, ...]) -> None:
    """Whatever its names are."""
    assert read(link("files", place)) == Address(page="files", place=place)


@pytest.mark.parametrize("text", ["", "/a", "a//b", "../a", "a/..", "a\0b", "a/" * 50 + "a"])
def test_bad_places_are_refused(text: str) -> None:
    """What a form sends is checked like an address."""
    with pytest.raises(BadAddress):
        place_of(text)
