"""EDN, the notation of Clojure's data, as far as histories need it (github.com/edn-format/edn).

Reads everything of the specification, and what Clojure prints beyond it (ratios, numbers in other
bases, patterns, vars), strictly: what is cut short or malformed raises EdnError with its line and
column. Writes what it reads, but for comments, tags and the kind of brackets.

    nil, true, false          None, True, False
    12, 12N, 0x1f, 017, 2r11  int
    1.5, 1.5M, 1/2            float, float, Fraction
    "text", \\c, #"pattern"    str
    :keyword, symbol, #'var   Keyword, Symbol (both str)
    [..], (..), #{..}         tuple; a set in the order it is written in
    {..}                      dict; a key that Python cannot tell from another, or not hash, is the
                              Symbol of its text
    #tag value                the value: `#jepsen.history.Op{..}` is the map itself

A reader of our own: the library there is takes six times as long, does not say where a text is
wrong, and lets some of it pass (a key twice, an unknown escape). One regular expression finds the
tokens, and a stack of open brackets, not the interpreter's, holds the nesting.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias

from checkers.interchange.errors import EdnError

MAX_DEPTH: Final = 200
"""More brackets inside each other than any history has."""


class Keyword(str):
    """`:name`, without the colon."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f":{self!s}"


class Symbol(str):
    """`name`."""

    __slots__ = ()


Value: TypeAlias = (
    bool | int | float | Fraction | str | tuple["Value", ...] | Mapping["Value", "Value"] | None
)
"""What EDN can say; tuples and mappings hold further values."""

_END: Final = r"""(?=[\s,;"\[\](){}]|$)"""
"""What may follow a number or a character."""

_TOKEN: Final = re.compile(
    rf"""
      (?P<blank>(?:[\s,]+|;[^\n]*)+)
    | (?P<open>\#\{{|[\[({{])
    | (?P<close>[\])}}])
    | (?P<discard>\#_)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<pattern>\#"(?:[^"\\]|\\.)*")
    | (?P<char>\\(?:newline|return|space|tab|formfeed|backspace
                  |u[0-9A-Fa-f]{{4}}|o[0-3]?[0-7]{{1,2}}|\S)){_END}
    | (?P<int>[+-]?(?:0|[1-9][0-9]*))N?{_END}
    | (?P<based>[+-]?0[xX][0-9A-Fa-f]+|[+-]?0[0-7]+|[+-]?[1-9][0-9]?[rR][0-9A-Za-z]+)N?{_END}
    | (?P<ratio>[+-]?[0-9]+/[0-9]+){_END}
    | (?P<float>[+-]?[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+|(?=M)))M?{_END}
    | (?P<keyword>::?[^\s,;"\[\](){{}}\\:^@`~][^\s,;"\[\](){{}}\\^@`~]*)
    | (?P<tag>\#[A-Za-z:][^\s,;"\[\](){{}}\\]*)
    | (?P<symbol>(?:\#')?[^\s,;"\[\](){{}}\\:\#0-9^@`~][^\s,;"\[\](){{}}\\^@`~]*)
    | (?P<special>\#\#(?:Inf|-Inf|NaN))
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSES: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_NAMED: Final[Mapping[str, Value]] = {"nil": None, "true": True, "false": False}
_SPECIAL: Final = {"##Inf": float("inf"), "##-Inf": float("-inf"), "##NaN": float("nan")}
_CHARS: Final = {
    "newline": "\n",
    "return": "\r",
    "space": " ",
    "tab": "\t",
    "formfeed": "\f",
    "backspace": "\b",
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|[0-3]?[0-7]{1,2}|.)", re.DOTALL)

MOST_DIGITS: Final = 4000
"""Of a number; Python converts no more in one go, and no history has such."""


@dataclass(slots=True)
class _Frame:
    """An open bracket. pending: how many of the values to come are discarded; tagged: whether a
    tag waits for its value."""

    bracket: str
    at: int
    items: list[Value] = field(default_factory=list)
    pending: int = 0
    tagged: bool = False


def read_all(text: str) -> Iterator[Value]:
    """Every value of the text at its top level, one after the other. Raises EdnError."""
    top = _Frame("", 0)
    stack = [top]
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise EdnError(f"{_place(text, at)}: {_unreadable(text, at)}")
        kind, token = str(match.lastgroup), match.group()
        match kind:
            case "blank":
                pass
            case "open":
                stack.append(_Frame(token, at))
                if len(stack) > MAX_DEPTH:
                    raise EdnError(f"{_place(text, at)}: more than {MAX_DEPTH} brackets are open")
            case "close":
                frame = stack.pop() if len(stack) > 1 else None
                if frame is None or _CLOSES[frame.bracket] != token:
                    raise EdnError(f"{_place(text, at)}: {token!r} closes nothing that is open")
                _put(stack[-1], _closed(text, frame))
            case "discard":
                stack[-1].pending += 1
            case "tag":
                stack[-1].tagged = True
            case _:
                _put(stack[-1], _atom(text, at, kind, match.group(kind)))
        at = match.end()
        if len(stack) == 1 and top.items:
            yield from top.items
            top.items.clear()
    if len(stack) > 1:
        frame = stack[-1]
        raise EdnError(
            f"{_place(text, frame.at)}: {frame.bracket!r} is never closed; the text is cut short"
        )
    if top.pending or top.tagged:
        raise EdnError(f"{_place(text, at)}: the text ends where a value is expected")


def _put(frame: _Frame, value: Value) -> None:
    frame.tagged = False
    if frame.pending:
        frame.pending -= 1
    else:
        frame.items.append(value)


def _closed(text: str, frame: _Frame) -> Value:
    """What a pair of brackets holds."""
    if frame.pending or frame.tagged:
        raise EdnError(f"{_place(text, frame.at)}: these brackets end where a value is expected")
    if frame.bracket != "{":
        return tuple(frame.items)
    if len(frame.items) % 2:
        raise EdnError(f"{_place(text, frame.at)}: this map has a key without a value")
    keys, values = frame.items[::2], frame.items[1::2]
    try:
        made = dict(zip(keys, values, strict=True))
    except TypeError:
        made = {}  # a key is a map
    return made if len(made) == len(keys) else _by_text(text, frame, keys, values)


def _by_text(
    text: str, frame: _Frame, keys: Sequence[Value], values: Sequence[Value]
) -> Mapping[Value, Value]:
    """A map with keys that Python cannot hash, or not tell apart (1, 1.0 and true; :a and "a")."""
    if len(set(map(write, keys))) != len(keys):
        raise EdnError(f"{_place(text, frame.at)}: this map has a key twice")
    made: dict[Value, Value] = {}
    for key, value in zip(keys, values, strict=True):
        known = not isinstance(key, Mapping | tuple) and key not in made
        made[key if known else Symbol(write(key))] = value
    return made


def _atom(text: str, at: int, kind: str, token: str) -> Value:
    match kind:
        case "int":
            return int(token) if len(token) <= MOST_DIGITS else Symbol(token)
        case "based" | "ratio":
            return _number(text, at, kind, token)
        case "float":
            return float(token)
        case "pattern":
            return token[2:-1]
        case "keyword":
            return Keyword(token[1:])
        case "symbol":
            return _NAMED[token] if token in _NAMED else Symbol(token)
        case "special":
            return _SPECIAL[token]
        case "char":
            name = token[1:]
            if len(name) > 1 and name not in _CHARS:
                return chr(int(name[1:], 16 if name[0] == "u" else 8))
            return _CHARS.get(name, name)
        case _:
            return _unescaped(text, at, token)


def _number(text: str, at: int, kind: str, token: str) -> Value:
    """A ratio, or a whole number in another base than ten."""
    if len(token) > MOST_DIGITS:
        return Symbol(token)
    try:
        if kind == "ratio":
            ratio = Fraction(token)
            return ratio.numerator if ratio.denominator == 1 else ratio
        sign, digits = (-1 if token[0] == "-" else 1), token.lstrip("+-").lower()
        if "r" in digits:
            base, _, digits = digits.partition("r")
            return sign * int(digits, int(base))
        return sign * int(digits, 16 if digits.startswith("0x") else 8)
    except (ValueError, ZeroDivisionError) as error:
        raise EdnError(f"{_place(text, at)}: {token!r} is no number: {error}") from None


def _unescaped(text: str, at: int, token: str) -> str:
    def escape(match: re.Match[str]) -> str:
        name = match.group(1)
        if len(name) == 5:
            return chr(int(name[1:], 16))
        if name[0] in "01234567":
            return chr(int(name, 8))
        if name not in _ESCAPES:
            raise EdnError(f"{_place(text, at)}: this string has an unknown escape \\{name}")
        return _ESCAPES[name]

    return _ESCAPE.sub(escape, token[1:-1]) if "\\" in token else token[1:-1]


def _unreadable(text: str, at: int) -> str:
    if text[at] == '"':
        return "this string is never closed; the text is cut short"
    line = text[at : at + 20].split("\n")[0]
    return f"{line!r} is no EDN"


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return f"line {line}, column {column}"


def write(value: Value) -> str:
    """The value as EDN on one line; tuples become vectors. NaN and infinities are `##` symbols."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case Keyword():
            return f":{value!s}"
        case Symbol():
            return str(value)
        case str():
            return '"' + "".join(_WRITTEN.get(c, c) for c in value) + '"'
        case int():
            return str(value)
        case Fraction():
            return f"{value.numerator}/{value.denominator}"
        case float():
            return next((s for s, f in _SPECIAL.items() if repr(f) == repr(value)), repr(value))
        case tuple():
            return "[" + " ".join(map(write, value)) + "]"
        case _:
            return "{" + ", ".join(f"{write(k)} {write(v)}" for k, v in value.items()) + "}"


_WRITTEN: Final = {char: f"\\{name}" for name, char in _ESCAPES.items()}
