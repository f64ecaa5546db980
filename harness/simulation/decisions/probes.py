"""Adds probes to decisions: each call of a function notes which of its branches it took.

A probe sets a bit of a local number. There is a bit for each outcome of an `if`, `while`, `match`
and conditional expression, for each further operand of `and` and `or`, and for an ordering
comparison (<, <=, >, >=) whose sides were equal, where mistakes by one hide. When the function
ends, its bits go into a set. So a state is one combination of the relations that the function asked
about: of roles, epochs, log ends, and of who is a member of what.
"""

import ast
from dataclasses import dataclass
from typing import Any, Final

from harness.simulation.decisions.rewriting import FunctionNode, function_nodes

BITS: Final = "_highwater_bits"
LEAVE: Final = "_highwater_leave"
_TEXT: Final = "highwater_text"
_ORDERING: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_OWN_SCOPE: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Probe:
    """An outcome that a call can have: where it is decided, and what happens."""

    module: str
    line: int
    function: str
    decided: str
    outcome: str


@dataclass(frozen=True, slots=True)
class ProbedFunction:
    """A function with probes; its n-th probe sets bit n."""

    module: str
    name: str
    probes: tuple[Probe, ...]


def add_probes(
    tree: ast.Module, module: str, first: int
) -> tuple[ast.Module, list[ProbedFunction]]:
    """Return the tree with probes, and its functions, numbered from `first` on."""
    found: list[ProbedFunction] = []
    for function, name in list(function_nodes(tree)):
        writer = _Writer(module, name)
        writer.rewrite(function, first + len(found))
        found.append(ProbedFunction(module, name, tuple(writer.probes)))
    return tree, found


def _has_yield(function: FunctionNode) -> bool:
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(function))


class _Writer(ast.NodeTransformer):
    """Writes the probes of one function."""

    def __init__(self, module: str, name: str) -> None:
        self.probes: list[Probe] = []
        self._module = module
        self._name = name
        self._compared = 0
        self._number = 0
        self._yields = False

    def rewrite(self, function: FunctionNode, number: int) -> None:
        """Rewrite the body of a function, which gets this number."""
        self._number = number
        self._yields = _has_yield(function)
        for each in ast.walk(function):
            if isinstance(each, (ast.expr, ast.pattern)):
                vars(each)[_TEXT] = ast.unparse(each)  # as it is in the source, without probes
        body = [self.visit(each) for each in function.body]
        body = [each for made in body for each in (made if isinstance(made, list) else [made])]
        start = 1 if ast.get_docstring(function) is not None else 0
        begin, leave = ast.Assign([_store(BITS)], ast.Constant(1)), self._leave(ast.Constant(None))
        if self._yields:
            body[start:] = [begin, ast.Try(body[start:], [], [], [ast.Expr(leave)])]
        else:
            body.insert(start, begin)
            if not isinstance(body[-1], (ast.Return, ast.Raise)):
                body.append(ast.Expr(leave))
        function.body = body

    def visit(self, node: ast.AST) -> Any:
        """Functions inside of a function have names of their own: they get no probes."""
        return node if isinstance(node, _OWN_SCOPE) else super().visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        """Both ways."""
        test = node.test
        self.generic_visit(node)
        node.body.insert(0, self._statement(test, "true"))
        node.orelse.insert(0, self._statement(test, "false"))
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        """That it begins."""
        test = node.test
        self.generic_visit(node)
        node.body.insert(0, self._statement(test, "true"))
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        """That there is something to go through."""
        iterated = node.iter
        self.generic_visit(node)
        node.body.insert(0, self._statement(iterated, "not empty"))
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """That a case is this one."""
        self.generic_visit(node)
        node.body.insert(0, self._statement(node.pattern, "matched"))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Both ways."""
        test = node.test
        self.generic_visit(node)
        node.body = _and(self._mark(test, "true"), node.body)
        node.orelse = _and(self._mark(test, "false"), node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """That the operands before did not decide."""
        before = list(node.values)
        self.generic_visit(node)
        outcome = "true" if isinstance(node.op, ast.And) else "false"
        for number in range(1, len(node.values)):
            mark = self._mark(before[number - 1], outcome)
            node.values[number] = _and(mark, node.values[number])
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """That both sides of an ordering comparison are equal."""
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], _ORDERING):
            return node
        left, right = (f"{BITS}_{side}{self._compared}" for side in "lr")
        self._compared += 1
        equal = ast.Compare(
            ast.NamedExpr(_store(left), node.left),
            [ast.Eq()],
            [ast.NamedExpr(_store(right), node.comparators[0])],
        )
        mark = self._mark(node, "equal")
        noted = ast.BoolOp(ast.And(), [equal, mark, ast.Constant(False)])
        again = ast.Compare(_load(left), node.ops, [_load(right)])
        return ast.BoolOp(ast.Or(), [noted, again])

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """What is gone through must not assign names: it keeps its code."""
        node.ifs = [self.visit(each) for each in node.ifs]
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        """The value first: it may have probes."""
        self.generic_visit(node)
        if self._yields:
            return node
        node.value = self._leave(node.value or ast.Constant(None))
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.stmt | list[ast.stmt]:
        """An error ends a call too."""
        self.generic_visit(node)
        if self._yields:
            return node
        return [ast.Expr(self._leave(ast.Constant(None))), node]

    def _statement(self, node: ast.AST, outcome: str) -> ast.stmt:
        return ast.Expr(self._mark(node, outcome))

    def _mark(self, node: ast.AST, outcome: str) -> ast.expr:
        """Return an expression that sets the bit of a new probe, and is true."""
        line, text = getattr(node, "lineno", 0), vars(node)[_TEXT]
        self.probes.append(Probe(self._module, line, self._name, text, outcome))
        bit = ast.Constant(1 << len(self.probes))
        return ast.NamedExpr(_store(BITS), ast.BinOp(_load(BITS), ast.BitOr(), bit))

    def _leave(self, value: ast.expr) -> ast.expr:
        return ast.Call(_load(LEAVE), [value, ast.Constant(self._number), _load(BITS)], [])


def _and(mark: ast.expr, value: ast.expr) -> ast.expr:
    return ast.BoolOp(ast.And(), [mark, value])


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())
