"""Where the fields of a YAML document stand: paths as messages write them, lines and columns of the file."""

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import attrs
import yaml

from vworkspace_core.apimachinery.places import Place
from vworkspace_core.apimachinery.problems import index, join

_BLOCK: Final = ("|", ">")
_QUOTES: Final = ("'", '"')


@attrs.frozen
class _Field:
    """Where a field is named, and its value."""

    mark: yaml.Mark
    value: yaml.Node


@attrs.define
class YamlPlaces:
    """The places of one document of a file. A field that is not there is where the one around it is."""

    file: str
    root: yaml.Node
    text: str
    """Of the whole file."""

    def at(self, path: str, offset: int | None = None) -> Place:
        """The place of the field at `path`, or of a character of its text."""
        field = next(field for name in _outwards(path) if (field := self._fields.get(name)) is not None)
        if offset is not None and path in self._fields and isinstance(field.value, yaml.ScalarNode):
            line, column = self._inside(field.value, offset)
        else:
            line, column = field.mark.line, field.mark.column
        return Place(path, self.file, line + 1, column + 1)

    def _inside(self, node: yaml.ScalarNode, offset: int) -> tuple[int, int]:
        """Line and column of a character of a text. In quotes with escapes it is where it would be without them."""
        before = node.value[:offset]
        if node.style not in _BLOCK:
            return node.start_mark.line, node.start_mark.column + (node.style in _QUOTES) + len(before)
        first = node.start_mark.line + 1
        written = next((line for line in self.text.splitlines()[first:] if line.strip()), "")
        margin = len(written) - len(written.lstrip(" "))
        return first + before.count("\n"), margin + len(before) - (before.rfind("\n") + 1)

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
    """A path and those around it, the document last."""
    while path:
        yield path
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    yield ""
