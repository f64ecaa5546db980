"""Patterns against Python's `re`, which agrees with RE2 on this subset; and their bounds.

The names are short: on nested repetitions `re` itself needs exponential time.
"""

import re
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodes.coordinators.patterns.matching import MAX_WORK, Pattern
from nodes.coordinators.patterns.syntax import TOPIC_LETTERS, PatternError

NAMES = ["", "a", "b", "ab", "aab", "abc", "foo-1", "foo.bar", "FOO", "x_9", "aaaaa", "__c"]


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """Patterns that `re` and RE2 read alike."""
    atom = st.sampled_from(
        ["a", "b", "c", "o", "\\.", ".", "[ab]", "[^a]", "[a-c0-9]", "\\d", "\\w", "\\W", "-", "F"]
    )
    repeat = st.sampled_from(["", "", "", "*", "+", "?", "*?", "{2}", "{1,}", "{0,2}"])

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        group = st.builds("({}){}".format, inner, repeat)
        either = st.builds("(?:{}|{})".format, inner, inner)
        return st.one_of(group, either, st.builds("{}{}".format, inner, inner))

    return draw(st.recursive(st.builds("{}{}".format, atom, repeat), extend, max_leaves=5))


@given(patterns(), st.lists(st.text(sorted(TOPIC_LETTERS), max_size=5)))
@settings(deadline=None, max_examples=100)
def test_a_pattern_matches_what_re_matches(pattern: str, names: list[str]) -> None:
    """The whole name."""
    ours = Pattern(pattern)
    theirs = re.compile(pattern)
    for name in (*NAMES, *names):
        assert ours.matches(name) == bool(theirs.fullmatch(name)), name


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("foo.*", {"foo-1", "foo.bar"}),
        ("^foo-1$", {"foo-1"}),
        ("^a$|^b$", {"a", "b"}),
        (r"\Afoo\.bar\z", {"foo.bar"}),
        ("(?i)foo", {"FOO"}),
        ("(?i:f)OO|(?P<name>a)", {"FOO", "a"}),
        ("(?i)(?-i)foo", set()),
        ("(?i:f)oo", set()),
        (r"\Qfoo.bar\E", {"foo.bar"}),
        (r"\Qfoo.ba\Er*", {"foo.bar"}),
        (r"\x61\x{62}", {"ab"}),
        ("[[:alpha:]]{3}", {"aab", "abc", "FOO"}),
        ("[^[:alpha:]]+c", {"__c"}),
        ("[]a]", {"a"}),
        ("x[-_]9", {"x_9"}),
        ("a{,2}", set()),
        ("é|a", {"a"}),
        ("", {""}),
    ],
)
def test_syntax_of_re2(pattern: str, matched: set[str]) -> None:
    """What `re` has in other words, or not at all."""
    assert Pattern(pattern).matching(NAMES) == matched


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "[", "[a", "*", "a**", "(?=a)", "(?<!a)b", r"\1", r"\b", "(?P<>a)", "[b-a]"),
        *("a{2,1}", "a{501}", "(a{30}){30}", "((" * 60, "[[:no:]]", "(?m)a", r"\pL", "a" * 6000),
        *(r"\x", r"\x{}", "a$b", "a^", "(?i", "(?", "(?P<a", r"\x{1234567}", "a\\"),
    ],
)
def test_what_re2_refuses_or_we_do_not_support_is_an_error(pattern: str) -> None:
    """It is never read as something else."""
    with pytest.raises(PatternError):
        Pattern(pattern)


@given(st.text("ab01|()[]{}*+?.^$\\-:,?iPx<>!=QEdw", max_size=20))
@example("(?P<")
@settings(deadline=None, max_examples=200)
def test_any_text_is_a_pattern_or_an_error(text: str) -> None:
    """Nothing else is raised."""
    try:
        Pattern(text).matching(NAMES)
    except PatternError:
        return


def test_a_pattern_that_would_take_exponential_time_is_matched_or_refused() -> None:
    """Both stay below the bound of work."""
    assert not Pattern("(a*)*(a*)*(a*)*b").matches("a" * 249)
    assert Pattern("((((){500}){500}){500}){500}").matching(NAMES) == {""}
    hostile = Pattern("(a|b)*a(a|b){100}")
    random = Random(1)
    with pytest.raises(PatternError, match="costs too much"):
        hostile.matching("".join(random.choices("ab", k=249)) for _ in range(2_000))
    assert hostile._work <= MAX_WORK + 1_000


TEXTS = ["", "a:b", "a b", "Pay 1", "é", "É", "ü", "a\nb", "日本", "-", "\t"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("a:b", {"a:b"}),
        ("a.b", {"a:b", "a b"}),
        ("(?s)a.b", {"a:b", "a b", "a\nb"}),
        ("((?s)a.b)|(a.b)", {"a:b", "a b", "a\nb"}),
        ("(?s:-)|a.b", {"a:b", "a b", "-"}),
        ("é", {"é"}),
        ("(?i)é", {"é", "É"}),
        ("[^é]", {"É", "ü", "-", "\t"}),
        (".", {"é", "É", "ü", "-", "\t"}),
        ("..", {"日本"}),
        (r"\W", {"é", "É", "ü", "-", "\t"}),
        (r"\w+\s\w", {"a b", "a\nb", "Pay 1"}),
        (r"Pay\s[[:digit:]]", {"Pay 1"}),
        ("[!-~]+", {"a:b", "-"}),
        ("[[:^ascii:]]", {"é", "É", "ü"}),
        ("[[:cntrl:]]", {"\t"}),
    ],
)
def test_any_text_is_matched(pattern: str, matched: set[str]) -> None:
    """Transactional ids may have every letter, also some that the pattern does not name."""
    assert Pattern(pattern, any_text=True).matching(TEXTS) == matched


@pytest.mark.parametrize("pattern", ["[a-é]", r"\x{e9}", r"[\x{e9}]"])
def test_ranges_and_escapes_beyond_ascii_are_refused_for_any_text(pattern: str) -> None:
    """A wrong answer would be worse."""
    with pytest.raises(PatternError):
        Pattern(pattern, any_text=True)


@given(patterns(), st.lists(st.text(max_size=5), max_size=4))
@settings(deadline=None, max_examples=100)
def test_a_pattern_over_any_text_matches_what_re_matches(pattern: str, names: list[str]) -> None:
    """With ASCII's classes, as in RE2."""
    ours = Pattern(pattern, any_text=True)
    theirs = re.compile(pattern, re.ASCII)
    for name in (*NAMES, *names):
        assert ours.matches(name) == bool(theirs.fullmatch(name)), name
