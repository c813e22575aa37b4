"""Check the English of docstrings, comments and pages: `python -m tools.plain_english [PATH…]`.

A docstring of a function begins with a verb, any other with a noun, none with a relative or a pronoun. Words that
need a second reading have plainer ones. Docstrings of attributes (a string right after the attribute) are read, too.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOMS: Final = ("core", "adapters", "app", "kit", "contrib", "tools", "bench", "docs", "examples", "deploy")
_PAGES: Final = ("README.md", "CONTRIBUTING.md", "SECURITY.md")

_RELATIVES: Final = frozenset(
    {"Those", "Whose", "What", "That", "As", "Its", "Of", "Where", "Who", "By", "How", "It", "Which", "Whom", "Whether"}
    | {"When", "If", "Nothing", "None", "They"}
)
_NOUN_PHRASES: Final = frozenset(
    {"The", "A", "An", "Each", "Every", "All", "Any", "No", "One", "Both", "Some", "Two", "Three", "Our", "These"}
    | {"This", "There"}
)
_PLAINER: Final = {
    "but for": "except", "anew": "again", "behind": "after", "beside": "next to", "besides": "also",
    "by itself": "automatically", "by themselves": "automatically", "somebody": "a name for who it is",
    "nobody": "no …, with a noun", "anybody": "any …, with a noun", "whoever": "the …, with a noun",
    "told": "reported", "stands": "is",
}  # fmt: skip
_WORDS: Final = re.compile(rf"\b({'|'.join(_PLAINER)})\b", re.IGNORECASE)
_PROPERTY: Final = re.compile(r"(^|[._])(property|fixture)\b")


def main(arguments: Sequence[str]) -> int:
    """Print each sentence to rewrite; return 1 if there is one."""
    findings = [finding for path in _files(arguments) for finding in _findings(path)]
    print("\n".join(findings), end="\n" if findings else "")
    return bool(findings)


def _files(arguments: Sequence[str]) -> Iterator[Path]:
    folders = [Path(argument) for argument in arguments] or [Path(room) for room in (*ROOMS, *_PAGES)]
    for folder in folders:
        yield from [folder] if folder.is_file() else sorted([*folder.rglob("*.py"), *folder.rglob("*.md")])


def _findings(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        for number, sentence in enumerate(source.splitlines(), start=1):
            yield from _words(path, number, sentence)
        return
    for line, text, is_function in _docstrings(ast.parse(source)):
        first = re.split(r"\W", text.lstrip(), maxsplit=1)[0]
        if first in _RELATIVES:
            yield f"{path}:{line}: a docstring begins with {first!r}: begin with a {'verb' if is_function else 'noun'}"
        elif is_function and first in _NOUN_PHRASES:
            yield f"{path}:{line}: a function's docstring begins with {first!r}: begin with a verb"
        yield from _words(path, line, text)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from _words(path, token.start[0], token.string)


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield the line of each docstring, its text, and whether a function has it that is no property."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for before, statement in zip([None, *node.body], node.body, strict=False):
            documented = before is None or (not is_function and isinstance(before, ast.Assign | ast.AnnAssign))
            match statement:
                case ast.Expr(ast.Constant(str() as text)) if documented:
                    yield statement.lineno, text, is_function and not _is_property(node)


def _is_property(node: ast.AST) -> bool:
    decorators = getattr(node, "decorator_list", ())
    return any(_PROPERTY.search(ast.unparse(decorator)) for decorator in decorators)


def _words(path: Path, line: int, text: str) -> Iterator[str]:
    for match in _WORDS.finditer(text):
        yield f"{path}:{line}: {match[0]!r}: write {_PLAINER[match[0].lower()]!r}, or say it otherwise"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
