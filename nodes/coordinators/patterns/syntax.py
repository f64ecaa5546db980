"""From a regular expression to a nondeterministic automaton over an alphabet.

A class of letters is a set of letters of the alphabet. What is not in it can never match. Topic
names have few letters. Any other text has ASCII's, those that the pattern names, and one that
stands for all others. So of letters beyond ASCII a pattern can have single ones, no ranges.
"""

import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

TOPIC_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "._-")
OTHER: Final = "\U0010ffff"
"""Stands for each letter that is not in the alphabet."""
MAX_STATES: Final = 500
"""RE2/J has no such limit for a whole pattern; for repetitions it has 1,000."""
MAX_DEPTH: Final = 100
MAX_LENGTH: Final = 5_000
"""Characters of a pattern."""

_ASCII: Final = frozenset(map(chr, range(128)))
_LETTERS_AND_DIGITS: Final = frozenset(string.ascii_letters + string.digits)
_CLASSES: Final = {
    "d": frozenset(string.digits),
    "w": _LETTERS_AND_DIGITS | {"_"},
    "s": frozenset("\t\n\f\r "),
}
_POSIX: Final = {
    "alnum": _LETTERS_AND_DIGITS,
    "alpha": frozenset(string.ascii_letters),
    "ascii": _ASCII,
    "blank": frozenset(" \t"),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": frozenset(string.digits),
    "graph": frozenset(map(chr, range(33, 127))),
    "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))),
    "punct": frozenset(string.punctuation),
    "space": frozenset("\t\n\v\f\r "),
    "upper": frozenset(string.ascii_uppercase),
    "word": _CLASSES["w"],
    "xdigit": frozenset(string.hexdigits),
}
_COUNTS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class PatternError(Exception):
    """The regular expression is invalid, too large, or of syntax that is not supported."""


@dataclass(slots=True)
class Automaton:
    """States by number. A state steps by a letter of its class, or has steps without a letter."""

    classes: list[frozenset[str]] = field(default_factory=list)
    """For each state the letters that lead on to `target`; empty if none does."""
    target: list[int] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=list)
    """For each state the states that it reaches without a letter."""
    start: int = 0
    end: int = 0

    def state(self, letters: frozenset[str] = frozenset(), target: int = -1) -> int:
        """Add a state. Raises PatternError if there are too many."""
        if len(self.classes) >= MAX_STATES:
            raise PatternError("the pattern is too large")
        self.classes.append(letters)
        self.target.append(target)
        self.free.append([])
        return len(self.classes) - 1


_Build = Callable[[Automaton, int], int]
"""Adds a part of a pattern that leads to a state; returns the state where the part begins."""


def text_letters(pattern: str) -> frozenset[str]:
    """The alphabet for any text, as far as a pattern can tell letters apart."""
    return _ASCII | set(pattern) | set(pattern.lower()) | set(pattern.upper()) | {OTHER}


def parse(pattern: str, letters: frozenset[str]) -> Automaton:
    """The automaton of a pattern over an alphabet. Raises PatternError."""
    if len(pattern) > MAX_LENGTH:
        raise PatternError("the pattern is too long")
    parser = _Parser(pattern, letters)
    build = parser.alternatives()
    if not parser.at_end():
        raise PatternError("unexpected )")
    automaton = Automaton()
    automaton.end = automaton.state()
    automaton.start = build(automaton, automaton.end)
    return automaton


def _letters(letters: frozenset[str]) -> _Build:
    return lambda a, then: a.state(letters, then)


def _nothing(automaton: Automaton, then: int) -> int:
    return then


def _sequence(parts: list[_Build]) -> _Build:
    def build(automaton: Automaton, then: int) -> int:
        for part in reversed(parts):
            then = part(automaton, then)
        return then

    return build


def _either(parts: list[_Build]) -> _Build:
    if len(parts) == 1:
        return parts[0]

    def build(automaton: Automaton, then: int) -> int:
        fork = automaton.state()
        automaton.free[fork] += [part(automaton, then) for part in parts]
        return fork

    return build


def _repeated(part: _Build, least: int, most: int | None) -> _Build:
    def build(automaton: Automaton, then: int) -> int:
        if most is None:
            loop = automaton.state()
            automaton.free[loop] += [part(automaton, loop), then]
            begin = loop
        else:
            begin = then
            for _ in range(most - least):
                skip = automaton.state()
                automaton.free[skip] += [part(automaton, begin), then]
                begin = skip
        for _ in range(least):
            before, begin = begin, part(automaton, begin)
            if begin == before:  # an empty part: to repeat it changes nothing
                break
        return begin

    return build


class _Parser:
    def __init__(self, pattern: str, letters: frozenset[str]) -> None:
        self._pattern = pattern
        self._all = letters
        self._at = 0
        self._depth = 0
        self._fold = False
        self._dot_all = False

    def at_end(self) -> bool:
        return self._at >= len(self._pattern)

    def _peek(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _next(self) -> str:
        if self.at_end():
            raise PatternError("the pattern ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _until(self, text: str) -> str:
        end = self._pattern.find(text, self._at)
        if end < 0:
            raise PatternError(f"{text} is missing")
        found = self._pattern[self._at : end]
        self._at = end + len(text)
        return found

    def alternatives(self) -> _Build:
        flags = self._fold, self._dot_all
        parts = [self._concatenation()]
        while self._take("|"):
            parts.append(self._concatenation())
        self._fold, self._dot_all = flags
        return _either(parts)

    def _concatenation(self) -> _Build:
        parts: list[_Build] = []
        ended = False
        while not self.at_end() and not self._peek("|") and not self._peek(")"):
            if self._take("^") or self._take("\\A"):
                if parts:
                    raise PatternError("^ is supported at the begin only")
                continue
            if self._take("$") or self._take("\\z"):
                ended = True
                continue
            if ended:
                raise PatternError("$ is supported at the end only")
            if self._take("\\Q"):
                parts += [self._literal(each) for each in self._quoted()]
            else:
                parts.append(self._atom())
            while parts and (counts := self._counts()) is not None:
                parts[-1] = _repeated(parts[-1], *counts)
        return _sequence(parts)

    def _quoted(self) -> str:
        if "\\E" in self._pattern[self._at :]:
            return self._until("\\E")
        found, self._at = self._pattern[self._at :], len(self._pattern)
        return found

    def _counts(self) -> tuple[int, int | None] | None:
        """How often the part before is repeated; None if nothing is said."""
        mark = next((each for each in _COUNTS if self._take(each)), None)
        counts = self._braces() if mark is None else _COUNTS[mark]
        if counts is None:
            return None
        self._take("?")  # lazy: the same names match
        if self._peek("*") or self._peek("+") or self._peek("?"):
            raise PatternError("a repetition is repeated")
        return counts

    def _braces(self) -> tuple[int, int | None] | None:
        if not self._peek("{"):
            return None
        inner, closed, _ = self._pattern[self._at + 1 :].partition("}")
        low, comma, high = inner.partition(",")
        if not closed or not _is_number(low) or (high and not _is_number(high)):
            return None  # a literal {
        self._at += len(inner) + 2
        least = int(low)
        most = least if not comma else int(high) if high else None
        if max(least, most or 0) > MAX_STATES or (most is not None and most < least):
            raise PatternError("invalid repetition")
        return least, most

    def _atom(self) -> _Build:
        match self._next():
            case "(":
                return self._group()
            case "[":
                return _letters(self._class())
            case ".":
                return _letters(self._all if self._dot_all else self._all - {"\n"})
            case "\\":
                return _letters(self._cased(self._escape()))
            case "*" | "+" | "?":
                raise PatternError("nothing to repeat")
            case letter:
                return self._literal(letter)

    def _literal(self, letter: str) -> _Build:
        return _letters(self._cased(frozenset(letter)))

    def _cased(self, letters: frozenset[str]) -> frozenset[str]:
        if self._fold:
            letters |= {each.lower() for each in letters} | {each.upper() for each in letters}
        return letters & self._all

    def _group(self) -> _Build:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PatternError("the pattern is nested too deeply")
        outer = self._fold, self._dot_all
        if self._take("?P<") or self._take("?<"):
            name = self._until(">")
            if not name or not set(name) <= _CLASSES["w"]:
                raise PatternError("an invalid group name")
        elif self._take("?"):
            flags = ""
            while not self._peek(":") and not self._peek(")"):
                flags += self._next()
            self._set_flags(flags)
            if self._take(")"):
                self._depth -= 1
                return _nothing
            self._take(":")
        build = self.alternatives()
        if not self._take(")"):
            raise PatternError(") is missing")
        self._fold, self._dot_all = outer
        self._depth -= 1
        return build

    def _set_flags(self, flags: str) -> None:
        on, _, off = flags.partition("-")
        if not set(on + off) <= {"i", "s"} or ("-" in flags and not off):
            raise PatternError(f"(?{flags}) is not supported")
        if "i" in on + off:
            self._fold = "i" in on
        if "s" in on + off:
            self._dot_all = "s" in on

    def _escape(self) -> frozenset[str]:
        letter = self._next()
        if letter.lower() in _CLASSES:
            found = _CLASSES[letter.lower()]
            return found if letter.islower() else self._all - found
        return frozenset(self._known(self._escaped_letter(letter)))

    def _known(self, letter: str) -> str:
        """The letter. Raises PatternError if the alphabet has another one for it."""
        if OTHER in self._all and letter not in self._all - {OTHER}:
            raise PatternError("escapes of letters beyond ASCII are not supported")
        return letter

    def _escaped_letter(self, letter: str) -> str:
        if letter == "x":
            digits = self._until("}") if self._take("{") else self._next() + self._next()
            if not digits or not set(digits) <= set(string.hexdigits) or len(digits) > 6:
                raise PatternError("an invalid escape")
            return chr(min(int(digits, 16), 0x10FFFF))
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in _CLASSES["w"] and letter != "_":
            raise PatternError(f"\\{letter} is not supported")
        return letter

    def _class(self) -> frozenset[str]:
        negated = self._take("^")
        found: set[str] = set()
        first = True
        while first or not self._take("]"):
            first = False
            if self._take("[:"):
                inverse = self._take("^")
                name = self._until(":]")
                if name not in _POSIX:
                    raise PatternError(f"[:{name}:] is unknown")
                found |= self._all - _POSIX[name] if inverse else _POSIX[name]
                continue
            low = self._class_letters()
            range_follows = self._peek("-") and self._pattern[self._at + 1 : self._at + 2] != "]"
            if len(low) != 1 or not range_follows:
                found |= low
                continue
            self._take("-")
            high = self._class_letters()
            if len(high) != 1 or max(low) > max(high):
                raise PatternError("an invalid range")
            if OTHER in self._all and not max(high).isascii():
                raise PatternError("ranges of letters beyond ASCII are not supported")
            found |= {each for each in self._all if max(low) <= each <= max(high)}
        letters = self._cased(frozenset(found))
        return self._all - letters if negated else letters

    def _class_letters(self) -> frozenset[str]:
        letter = self._next()
        return self._escape() if letter == "\\" else frozenset(letter)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
