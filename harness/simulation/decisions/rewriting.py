"""Puts new code into the functions of a module, from its rewritten source, and takes it out again.

A function keeps its identity: whoever imported it, or holds a bound method, runs the new code at
the next call. So nothing in the broker knows of this, and it costs nothing when it is not used.
"""

import ast
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from nodes.sources import use_sources

Undo = Callable[[], None]
Place = tuple[str, int]
"""A function's qualified name, and the line where its code begins."""
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Codes = Mapping[Place, CodeType]


def source_tree(module: ModuleType) -> ast.Module:
    """Return the parsed source of a module. Raises CompiledModuleError."""
    if not str(module.__file__).endswith(".py"):
        use_sources()
    return ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))


def function_nodes(tree: ast.AST, prefix: str = "") -> Iterator[tuple[FunctionNode, str]]:
    """Yield the functions of a module's tree and of its classes, with their qualified names."""
    for each in ast.iter_child_nodes(tree):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield each, prefix + each.name
        elif isinstance(each, ast.ClassDef):
            yield from function_nodes(each, f"{prefix}{each.name}.")


def compiled(module: ModuleType, tree: ast.Module) -> Codes:
    """Return the code of the functions of a rewritten tree; each is on the line it had before."""
    code = compile(ast.fix_missing_locations(tree), str(module.__file__), "exec")
    return {_place(each): each for each in _codes(code)}


def install(module: ModuleType, codes: Codes, names: Mapping[str, Any]) -> Undo:
    """Give the module's functions other code, and the module these global names.

    Return a function that undoes it.
    """
    before: list[tuple[FunctionType, CodeType]] = []
    vars(module).update(names)
    for function in functions(module):
        code = codes.get(_place(function.__code__))
        if code is not None and code != function.__code__:
            before.append((function, function.__code__))
            function.__code__ = code

    def undo() -> None:
        for function, code in before:
            function.__code__ = code
        for name in names:
            del vars(module)[name]

    return undo


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions of a module and of its classes, without what decorates them."""
    for value in list(vars(module).values()):
        if inspect.isclass(value) and value.__module__ == module.__name__:
            for member in list(vars(value).values()):
                yield from _undecorated(member, module)
        else:
            yield from _undecorated(value, module)


def _undecorated(value: Any, module: ModuleType) -> Iterator[FunctionType]:
    if isinstance(value, property):
        accessors: tuple[Any, ...] = (value.fget, value.fset)
    elif isinstance(value, (staticmethod, classmethod)):
        accessors = (value.__func__,)
    elif isinstance(value, functools.cached_property):
        accessors = (value.func,)
    else:
        accessors = (value,)
    for each in accessors:
        found = inspect.unwrap(each) if callable(each) else None
        if isinstance(found, FunctionType) and found.__module__ == module.__name__:
            yield found


def _place(code: CodeType) -> Place:
    return code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a module's functions; those inside of functions come with these."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            if not each.co_flags & inspect.CO_OPTIMIZED:  # of a class
                yield from _codes(each)
