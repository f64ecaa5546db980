"""EDN read and written: everything of the specification, and nothing else."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.interchange.edn import MAX_DEPTH, Keyword, Symbol, Value, read_all, write
from checkers.interchange.errors import EdnError

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.fractions().filter(lambda each: each.denominator > 1)
    | st.text()
    | st.from_regex(r"[a-z][a-z0-9*+!?<>=.-]{0,8}\??", fullmatch=True).map(Keyword)
)
VALUES: st.SearchStrategy[Value] = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple) | st.dictionaries(ATOMS, inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", ()),
        ("nil true false", (None, True, False)),
        ("12 -3 +4 5N", (12, -3, 4, 5)),
        ("1.5 2.0M 1e3 -0.5", (1.5, 2.0, 1000.0, -0.5)),
        ("##Inf ##-Inf", (float("inf"), float("-inf"))),
        (r'"a\n\"\\é" ""', ('a\n"\\é', "")),
        (r"\a \newline \u0041", ("a", "\n", "A")),
        (":ok :seek-to-beginning? :a/b", ("ok", "seek-to-beginning?", "a/b")),
        ("[1, 2] (3 4)", ((1, 2), (3, 4))),
        ("#{1 2}", ((1, 2),)),
        ("{:a 1, [2 3] nil}", ({"a": 1, (2, 3): None},)),
        ("1 ; two\n3 #_4 5 #_ #_ 6 7 8", (1, 3, 5, 8)),
        ("#jepsen.history.Op{:index 0}", ({"index": 0},)),
        ('#inst "2026-01-01"', ("2026-01-01",)),
        ("[[][]]", (((), ()),)),
        ("1/2 -3/6 4/2 +1/3", (Fraction(1, 2), Fraction(-1, 2), 2, Fraction(1, 3))),
        ("0x1 -0XfF 0x1N 017 0 -0 36rZZ 2r101 16Rff", (1, -255, 1, 15, 0, 0, 1295, 5, 255)),
        (r"\o101 \u00e9 \( \, \x", ("A", "é", "(", ",", "x")),
        (r'"\101\0\u0041"', ("A\0A",)),
        (r"""#"a\d+\"" #'clojure.core/map""", (r"a\d+\"", "#'clojure.core/map")),
        (
            '#object[java.lang.Thread 0x5d6f64b1 "Thread[main,5,main]"]',
            (("java.lang.Thread", 0x5D6F64B1, "Thread[main,5,main]"),),
        ),
        ("#:jepsen{:a 1} ::auto", ({"a": 1}, ":auto")),
        ("{{:a 1} 2, [{}] 3}", ({"{:a 1}": 2, "[{}]": 3},)),
        ('{:a 1, "a" 2}', ({"a": 1, '"a"': 2},)),
        ("{1 :a, true :b, 1.0 :c}", ({1: "a", "true": "b", "1.0": "c"},)),
    ],
)
def test_reads(text: str, values: tuple[Value, ...]) -> None:
    """Each form becomes its value."""
    assert tuple(read_all(text)) == values


def test_keywords_and_symbols_differ_from_strings() -> None:
    """Keywords and symbols are texts of a kind of their own."""
    keyword, symbol, text = read_all(':a a "a"')
    assert [type(each) for each in (keyword, symbol, text)] == [Keyword, Symbol, str]
    assert repr(keyword) == ":a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{:a 1", "line 1, column 1: '{' is never closed; the text is cut short"),
        ("[1\n {:b", "line 2, column 2: '{' is never closed"),
        ("[1 2)", "line 1, column 5: ')' closes nothing that is open"),
        ("]", "line 1, column 1: ']' closes nothing"),
        ('{:a "x', "line 1, column 5: this string is never closed"),
        ('"\\q"', "unknown escape \\q"),
        ("{:a}", "a key without a value"),
        ("{:a 1 :a 2}", "a key twice"),
        ("{{} 1 {} 2}", "a key twice"),
        ("1/0", "line 1, column 1: '1/0' is no number"),
        ("2r5 ", "'2r5' is no number"),
        ("99r1", "'99r1' is no number"),
        ("0x", "'0x' is no EDN"),
        ("08", "'08' is no EDN"),
        ("12x", "line 1, column 1: '12x' is no EDN"),
        ("a:b @", "'@' is no EDN"),
        ("[#_]", "end where a value is expected"),
        ("#op", "the text ends where a value is expected"),
        ("[" * (MAX_DEPTH + 1), "brackets are open"),
    ],
)
def test_refuses(text: str, said: str) -> None:
    """What is cut or malformed is told with its place."""
    with pytest.raises(EdnError) as refused:
        list(read_all(text))
    assert said in str(refused.value)


@given(st.lists(VALUES, max_size=4))
def test_values_survive_writing_and_reading(values: list[Value]) -> None:
    """Written and read again, values are the same."""
    assert list(read_all("\n".join(map(write, values)))) == values


@given(st.text(alphabet='[](){}#_;"\\:a1./x0r ,\n', max_size=30))
def test_fails_in_one_way_only(text: str) -> None:
    """Whatever the text, it is read or refused."""
    with contextlib.suppress(EdnError):
        list(read_all(text))


def test_reads_a_number_of_any_length() -> None:
    """One that Python does not convert in one go is a symbol."""
    assert list(read_all("9" * 5000)) == ["9" * 5000]
