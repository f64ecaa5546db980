"""Changes one operator in one of the broker's decisions, as a programmer might by mistake.

A mutation is known by its module and number, which depend on nothing but the module's source. A
test, an invariant or a checker that nobody wrote for it has to find it. The operators are those of
mutation testing (DeMillo, Lipton and Sayward, 1978; Offutt et al., 1996): boundaries and relations
of comparisons, joined and dropped conditions, dropped statements, swapped arguments, numbers that
are off by one. Errors' texts and log lines are left alone: nothing depends on them.
"""

import ast
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from harness.simulation.decisions.rewriting import (
    Undo,
    compiled,
    function_nodes,
    install,
    source_tree,
)

Edit = tuple[str, Callable[[], None]]
"""The name of an operator, and what changes the node in place."""

_RELATIONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_SWAPPED_NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LEFT_ALONE: Final = (ast.Raise, ast.JoinedStr, ast.Assert, ast.arguments)
_LOGGERS: Final = ("log", "logger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One change: what stood there, and what stands there now, as source text."""

    module: str
    number: int
    function: str
    line: int
    operator: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """What `named` takes."""
        return f"{self.module}:{self.number}"

    def text(self) -> str:
        """The mutation for people."""
        path = self.module.replace(".", "/")
        return (
            f"{path}.py:{self.line} {self.function}: {self.operator}: `{self.before}` becomes "
            f"`{self.after}`"
        )


@dataclass(frozen=True, slots=True)
class _Site:
    """A node that can be changed, and the statement it is in."""

    node: ast.AST
    statement: ast.stmt
    function: str


def mutations(module: str) -> list[Mutation]:
    """Return all mutations of a module, in the order of its source."""
    tree = source_tree(importlib.import_module(module))
    found: list[Mutation] = []
    for site in _sites(tree):
        for number in range(len(_edits(site.node))):
            found.append(_told(module, len(found), site, number))
    return found


def named(name: str) -> Mutation:
    """Return a mutation by its name. Raises ValueError if there is none."""
    module, _, number = name.rpartition(":")
    try:
        return mutations(module)[int(number)]
    except (ImportError, IndexError, ValueError) as error:
        raise ValueError(f"there is no mutation {name!r}: write MODULE:NUMBER") from error


def apply(mutation: Mutation) -> Undo:
    """Change the broker in this process; return a function that undoes it."""
    module = importlib.import_module(mutation.module)
    tree = source_tree(module)
    edits = (edit for site in _sites(tree) for _, edit in _edits(site.node))
    for number, edit in enumerate(edits):
        if number == mutation.number:
            edit()
            break
    return install(module, compiled(module, tree), {})


def _told(module: str, number: int, site: _Site, which: int) -> Mutation:
    """Return the mutation of a site; the tree is as it was afterwards."""
    before = ast.unparse(site.node)
    kept = dict(ast.iter_fields(site.node))
    lists = {name: list(value) for name, value in kept.items() if isinstance(value, list)}
    operator, edit = _edits(site.node)[which]
    edit()
    after = ast.unparse(site.node)
    for name, value in {**kept, **lists}.items():
        setattr(site.node, name, value)
    line = getattr(site.node, "lineno", site.statement.lineno)
    return Mutation(
        module=module,
        number=number,
        function=site.function,
        line=line,
        operator=operator,
        before=_short(before),
        after=_short(after),
    )


def _short(text: str) -> str:
    """Return the first line of a source text: that of a compound statement is what changes."""
    return text.partition("\n")[0]


def _sites(tree: ast.Module) -> Iterator[_Site]:
    """Yield the nodes of all functions."""
    for function, name in function_nodes(tree):
        if function.name.startswith("__"):  # makes an object: nothing is decided there
            continue
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        for statement in body:
            yield from _inside(statement, statement, name)


def _inside(node: ast.AST, statement: ast.stmt, function: str) -> Iterator[_Site]:
    if isinstance(node, _LEFT_ALONE) or _is_log_line(node):
        return
    if isinstance(node, ast.stmt):
        statement = node
    yield _Site(node, statement, function)
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "decorator_list", "pattern"):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    yield from _inside(each, statement, function)


def _is_log_line(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _LOGGERS
    return False


def _edits(node: ast.AST) -> list[Edit]:
    """Return all changes of one node."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _RELATIONS:
            return [("relation", _put(node, "ops", [each()])) for each in _RELATIONS[type(op)]]
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            dropped = (values[:at] + values[at + 1 :] for at in range(len(values)))
            return [
                ("joined otherwise", _put(node, "op", other)),
                *(
                    ("dropped condition", _put(node, "values", each if len(each) > 1 else each * 2))
                    for each in dropped
                ),
            ]
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.BoolOp):
            return [
                ("condition always true", _put(node, "test", ast.Constant(True))),
                ("condition always false", _put(node, "test", ast.Constant(False))),
            ]
        case ast.BinOp(op=ast.Add() | ast.Sub() as op):
            other_op = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
            return [("arithmetic", _put(node, "op", other_op))]
        case ast.Constant(value=bool(value)):
            return [("other truth", _put(node, "value", not value))]
        case ast.Constant(value=int(number)):
            return [("off by one", _put(node, "value", number + 1))]
        case ast.Expr(value=ast.Call() | ast.Await()):
            return [("dropped call", _put(node, "value", ast.Constant(None)))]
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self")) as target]):
            return [("dropped assignment", _put(node, "value", _loaded(target)))]
        case ast.Call(func=ast.Name(id=name)) if name in _SWAPPED_NAMES:
            return [("other extreme", _put(node, "func", _name(_SWAPPED_NAMES[name])))]
        case ast.Call(func=func, args=[first, second, *others]) if _may_swap(func, first, second):
            return [("swapped arguments", _put(node, "args", [second, first, *others]))]
    return []


def _may_swap(func: ast.expr, first: ast.expr, second: ast.expr) -> bool:
    """Whether both orders are a call that somebody might write."""
    of_types = isinstance(func, ast.Name) and func.id in ("isinstance", "getattr", "cast")
    alike = type(first) is type(second) and not isinstance(first, ast.Starred)
    return alike and not of_types and ast.dump(first) != ast.dump(second)


def _loaded(target: ast.Attribute) -> ast.expr:
    return ast.Attribute(target.value, target.attr, ast.Load())


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _put(node: ast.AST, field: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(node, field, value)
