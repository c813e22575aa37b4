"""Statements inside the functions of the core: what mutants change, and which of them a test reaches.

A site is the head of a statement (of `if left > 0:` the line, not its block) or a case of a `match`. What runs at
import (tables, classes, signatures) is no site: a test module that has been imported cannot be given another one.
"""

import ast
import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

ROOT: Final = Path(__file__).parents[2]
CORE: Final = ROOT / "core"
REACHED: Final = "__reached__"
"""The name under which a module with probes has the bytes that they set."""

Node: TypeAlias = ast.stmt | ast.match_case
Block: TypeAlias = list[ast.stmt]


@attrs.frozen
class Site:
    """A statement's head or a case; `block` is the list of statements, or of cases, that contains it.

    `probe` is the number of the site whose statement is reached when this one is: of a case, that of its `match`.
    """

    node: Node
    block: list[Any]
    function: str
    probe: int

    @property
    def line(self) -> int:
        """The first line."""
        return self.node.pattern.lineno if isinstance(self.node, ast.match_case) else self.node.lineno

    @property
    def lines(self) -> range:
        """The lines of the head."""
        parts = [part for part in own_nodes(self.node) if isinstance(part, ast.expr | ast.pattern | ast.keyword)]
        return range(self.line, 1 + max([part.end_lineno or 0 for part in parts], default=self.line))

    @property
    def text(self) -> str:
        """The head as Python writes it."""
        return head_text(self.node)


@cache
def modules() -> tuple[Path, ...]:
    """Return the modules of the core, in order."""
    return tuple(sorted(path for package in CORE.iterdir() if package.is_dir() for path in package.rglob("*.py")))


def room_of(path: Path) -> str:
    """Return the room that a module belongs to."""
    parts = path.relative_to(CORE).parts
    return parts[1] if len(parts) > 2 else parts[0]


def parsed(path: Path) -> ast.Module:
    """Return the module's tree: a new one each time, since mutations change it."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def sites_of(tree: ast.Module) -> list[Site]:
    """Return the sites of a module, in the order of its text."""
    sites: list[Site] = []
    for node in tree.body:
        _outside(node, (), sites)
    return sites


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a head: lambdas and comprehensions count to it, blocks and cases do not."""
    for name, value in ast.iter_fields(node):
        if name in ("body", "orelse", "finalbody", "handlers", "cases") and isinstance(value, list):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child
                yield from own_nodes(child)


def head_text(node: Node) -> str:
    """Return the head of a statement, or a case, as Python writes it."""
    if isinstance(node, ast.match_case):
        guard = f" if {ast.unparse(node.guard)}" if node.guard is not None else ""
        return f"case {ast.unparse(node.pattern)}{guard}:"
    if not isinstance(getattr(node, "body", None), list) and not isinstance(node, ast.Match):
        return ast.unparse(node)
    head = copy.copy(node)
    for name in ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list"):
        if hasattr(head, name):
            setattr(head, name, [ast.Pass()] if name == "body" else [])
    if isinstance(head, ast.Try):
        return "try:"
    return ast.unparse(head).splitlines()[0]


def with_probes(tree: ast.Module, offset: int) -> ast.Module:
    """Put a probe before each statement, which sets the byte of its number, counted from `offset`."""
    for number, site in reversed(list(enumerate(sites_of(tree), offset))):
        if isinstance(site.node, ast.stmt):
            index = next(index for index, node in enumerate(site.block) if node is site.node)
            site.block.insert(index, _probe(site.node, number))
    return tree


def _probe(statement: ast.stmt, number: int) -> ast.stmt:
    place = ast.Subscript(ast.Name(REACHED, ast.Load()), ast.Constant(number), ast.Store())
    return ast.fix_missing_locations(ast.copy_location(ast.Assign([place], ast.Constant(1)), statement))


def _outside(node: ast.stmt, names: tuple[str, ...], sites: list[Site]) -> None:
    """Add the sites of functions below a statement that runs at import."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            _inside(node.body, (*names, node.name), sites)
        case ast.ClassDef():
            for child in node.body:
                _outside(child, (*names, node.name), sites)
        case ast.If() | ast.Try() | ast.With():
            for block in _blocks(node):
                for child in block:
                    _outside(child, names, sites)
        case _:
            pass


def _inside(block: Block, names: tuple[str, ...], sites: list[Site]) -> None:
    """Add the sites of a block inside a function."""
    function = ".".join(names)
    for node in block:
        if _says_nothing(node):
            continue
        number = len(sites)
        sites.append(Site(node, block, function, number))
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                _outside(node, names, sites)
            case ast.Match():
                for case in node.cases:
                    sites.append(Site(case, node.cases, function, number))
                    _inside(case.body, names, sites)
            case _:
                for inner in _blocks(node):
                    _inside(inner, names, sites)


def _blocks(node: ast.stmt) -> Iterator[Block]:
    for name in ("body", "orelse", "finalbody"):
        if getattr(node, name, []):
            yield getattr(node, name)
    yield from (handler.body for handler in getattr(node, "handlers", []))


def _says_nothing(node: ast.stmt) -> bool:
    """Return whether a statement does nothing at run time, or says that it is never reached."""
    match node:
        case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.Nonlocal() | ast.Global() | ast.Assert():
            return True
        case ast.Expr(ast.Constant()):  # a docstring, or the dots of an interface
            return True
        case ast.Expr(ast.Call(ast.Name("assert_never"))) | ast.Raise(ast.Call(ast.Name("AssertionError"))):
            return True
        case _:
            return False
