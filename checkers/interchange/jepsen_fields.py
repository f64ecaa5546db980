"""What operations say of groups and transactions beyond Jepsen's own form, read and written.

Jepsen's checker passes over fields and operations that it does not know.

    :group "readers"                  the group of the consumer, of a copy, or of a commit
    :generation 2                     of the member that commits
    :transactional-id "orders-1"      of the producer
    :isolation :read-uncommitted      at which a consumer reads
    :copies {97 [1 40]}               the record 97 was made from the record 40 of key 1
    :commits {1 30}                   offsets that were committed (in this transaction)

`:rebalance-log` is Jepsen's: the callbacks that a consumer was given. Ours says with each callback
from where an assigned member goes on, and in which generation:

    [{:type :assigned, :keys [1], :positions {1 30}, :generation 2}]

Three operations are ours: `:commit` has committed offsets alone, `:committed` what a coordinator
has after the run (nil: nothing), `:init-producer` takes over a transactional id. A `:crash` with a
group is the end of a member: all that it did is recorded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from checkers.interchange.errors import InterchangeError
from checkers.interchange.jepsen_values import MAX_OFFSET, Key, expect, items, key_of, natural

COMMITS: Final = ("commit", "committed")
"""Operations whose value is offsets by key."""
OURS: Final = (*COMMITS, "init-producer")
"""Operations that Jepsen does not know."""

CALLBACKS: Final = ("assigned", "revoked", "lost")
_ISOLATIONS: Final = ("read-uncommitted", "read-committed")
_MAX_GENERATION: Final = (1 << 31) - 1
_MAX_NAME: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """What a member of a group was told. type: of CALLBACKS. positions: the offsets from which an
    assigned member goes on, by key, where they are known."""

    type: str
    keys: tuple[Key, ...]
    positions: tuple[tuple[Key, int], ...] = ()
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A sent value, and the key and value of the record that it was made from."""

    value: int
    key: Key
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """What an operation says beyond Jepsen's form. isolation: 0 read_uncommitted, 1 read_committed.
    commits: offsets by key; None: the group has none."""

    group: str | None = None
    generation: int | None = None
    transactional_id: str | None = None
    isolation: int | None = None
    copies: tuple[Copy, ...] = ()
    commits: tuple[tuple[Key, int | None], ...] = ()
    callbacks: tuple[Callback, ...] = ()


NOTHING: Final = Fields()


def fields_of(raw: Mapping[Any, Any]) -> Fields:
    """The fields of an operation's map. Raises InterchangeError."""
    group = _name(raw, "group")
    commits = raw.get("value") if raw.get("f") in COMMITS else raw.get("commits")
    isolation = raw.get("isolation")
    if isolation is not None and isolation not in _ISOLATIONS:
        known = " or ".join(_ISOLATIONS)
        raise InterchangeError(f"its :isolation is {isolation!r}; expected {known}")
    fields = Fields(
        group=group,
        generation=_generation(raw),
        transactional_id=_name(raw, "transactional-id"),
        isolation=None if isolation is None else _ISOLATIONS.index(isolation),
        copies=tuple(_copies(raw.get("copies"))),
        commits=tuple(_offsets(commits, "a committed offset")),
        callbacks=() if group is None else tuple(_callbacks(raw.get("rebalance-log"))),
    )
    return NOTHING if fields == NOTHING else fields


def _name(raw: Mapping[Any, Any], field: str) -> str | None:
    name = raw.get(field)
    fits = name is None or (isinstance(name, str) and len(name) <= _MAX_NAME)
    expect(fits, f"its :{field}", f"a text of at most {_MAX_NAME} characters", name)
    return None if name is None else str(name)


def _generation(raw: Mapping[Any, Any]) -> int | None:
    found = raw.get("generation")
    return None if found is None else natural(found, "a :generation", _MAX_GENERATION)


def _copies(found: Any) -> Iterator[Copy]:
    if not isinstance(found, Mapping):
        return
    for value, source in found.items():
        match list(items(source, "a copied record")):
            case [key, copied]:
                yield Copy(
                    value=natural(key_of(value), "a copy"),
                    key=key_of(key),
                    source=natural(copied, "a copied value"),
                )
            case _:
                raise InterchangeError(f"a copied record is {source!r}; expected [key value]")


def _offsets(found: Any, what: str) -> Iterator[tuple[Key, int | None]]:
    if isinstance(found, Mapping):
        for key, offset in found.items():
            yield key_of(key), None if offset is None else natural(offset, what, MAX_OFFSET)


def _callbacks(log: Any) -> Iterator[Callback]:
    for event in items(log or (), "its :rebalance-log"):
        if isinstance(event, Mapping) and event.get("type") in CALLBACKS:
            positions = _offsets(event.get("positions"), "a position")
            yield Callback(
                type=str(event["type"]),
                keys=tuple(map(key_of, items(event.get("keys") or (), "a rebalance's :keys"))),
                positions=tuple((key, at) for key, at in positions if at is not None),
                generation=_generation(event),
            )


def raw_fields(f: str, fields: Fields, word: type[str]) -> dict[str, Any]:
    """The fields of a map, without those of which nothing is said. `word` makes what EDN calls a
    keyword."""
    isolation = fields.isolation
    copies = {each.value: (each.key, each.source) for each in fields.copies}
    found = {
        "group": fields.group,
        "generation": fields.generation,
        "transactional-id": fields.transactional_id,
        "isolation": None if isolation is None else word(_ISOLATIONS[isolation]),
        "copies": copies or None,
        "commits": None if f in COMMITS else dict(fields.commits) or None,
        "rebalance-log": tuple(_raw_callback(each, word) for each in fields.callbacks) or None,
    }
    return {name: each for name, each in found.items() if each is not None}


def _raw_callback(callback: Callback, word: type[str]) -> dict[str, Any]:
    found: dict[str, Any] = {word("type"): word(callback.type), word("keys"): callback.keys}
    if callback.positions:
        found[word("positions")] = dict(callback.positions)
    if callback.generation is not None:
        found[word("generation")] = callback.generation
    return found
