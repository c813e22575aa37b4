"""The line and column of each field in a YAML file, found by the field's path, for error messages."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

import attrs
import yaml

from purekube.apimachinery.problems import Place, index, join

_ESCAPES: Final[Mapping[str, int]] = {"x": 4, "u": 6, "U": 10}
"""The letters after a backslash that begin an escape of more than two characters, with the length of the escape."""


@attrs.frozen
class _Field:
    """The place of one field of a YAML document: the line and column for messages, and the syntax node of its value."""

    mark: yaml.Mark
    value: yaml.Node


@attrs.define
class YamlPlaces:
    """A lookup of line and column of the fields in one YAML document.

    A missing field has the place of the field that would contain it.
    """

    file: str
    root: yaml.Node
    text: str
    """The text of the whole file."""

    def at(self, path: str, offset: int | None = None) -> Place:
        """Return file, line and column of the field at `path`.

        With `offset`, return the position of the character at `offset` in the field's text instead.
        """
        field = next(field for name in _outwards(path) if (field := self._fields.get(name)) is not None)
        if offset is not None and path in self._fields and isinstance(field.value, yaml.ScalarNode):
            line, column = self._inside(field.value, offset)
        else:
            line, column = field.mark.line, field.mark.column
        return Place(path, self.file, line + 1, column + 1)

    def _inside(self, node: yaml.ScalarNode, offset: int) -> tuple[int, int]:
        """Return line and column in the file, counted from 0, of the character at `offset` in a string.

        For a folded string, return line and column of the string's start.
        """
        line, column = node.start_mark.line, node.start_mark.column
        if node.style == "|":
            return self._in_block(node, offset)
        if node.end_mark.line != line or node.style == ">":
            return line, column
        match node.style:
            case "'":
                return line, column + 1 + offset + node.value[:offset].count("'")
            case '"':
                return line, column + 1 + self._escaped(node, offset)
            case _:
                return line, column + offset

    def _in_block(self, node: yaml.ScalarNode, offset: int) -> tuple[int, int]:
        before = node.value[:offset]
        line = node.start_mark.line + 1 + before.count("\n")
        lines = self.text.split("\n")
        written = lines[line].removesuffix("\r") if line < len(lines) else ""
        margin = max(len(written) - len(node.value.split("\n")[before.count("\n")]), 0)
        return line, margin + len(before) - before.rfind("\n") - 1

    def _escaped(self, node: yaml.ScalarNode, offset: int) -> int:
        """Return how many characters of the file encode the first `offset` characters of a double-quoted string."""
        raw = self.text[node.start_mark.index + 1 : node.end_mark.index]
        at = 0
        for _ in range(offset):
            at += _ESCAPES.get(raw[at + 1 : at + 2], 2) if raw[at : at + 1] == "\\" else 1
        return at

    @cached_property
    def _fields(self) -> dict[str, _Field]:
        return dict(_walk("", _Field(self.root.start_mark, self.root)))


def _walk(path: str, field: _Field) -> Iterator[tuple[str, _Field]]:
    pending = [(path, field)]
    while pending:
        path, field = pending.pop()
        yield path, field
        match field.value:
            case yaml.MappingNode(value=pairs):
                for key, value in pairs:
                    if isinstance(key, yaml.ScalarNode):
                        mark = value.start_mark if isinstance(value, yaml.ScalarNode) else key.start_mark
                        pending.append((join(path, key.value), _Field(mark, value)))
            case yaml.SequenceNode(value=items):
                pending += [
                    (index(path, position), _Field(item.start_mark, item)) for position, item in enumerate(items)
                ]


def _outwards(path: str) -> Iterator[str]:
    """Yield a field's path, then the paths of the fields that enclose it, and last "" for the document."""
    while path:
        yield path
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    yield ""
