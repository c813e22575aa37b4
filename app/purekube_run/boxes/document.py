"""The reading of box files in YAML, with the line and column of every field for error messages.

A box file defines an operator (a box). Keys are strings as written (`on` does not become a boolean). Duplicate keys,
aliases, and values that JSON cannot represent are refused. The message of a syntax error has a hint at its usual cause:
an expression without quotes, which YAML splits.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import yaml

from purekube.apimachinery.problems import Place, index, join
from purekube.boxes.read import BoxProblem
from purekube.boxes.templates import OPENING
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import TOO_DEEP, composed, problem_in, read_text
from purekube_run.process.yaml_places import YamlPlaces

LARGEST: Final = 4_000_000
"""The maximum number of characters of a file."""
MOST_VALUES: Final = 100_000
"""The maximum number of scalars, mappings and lists of a file."""

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = frozenset(f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null"))
# An API server reads any larger whole number as a float (sigs.k8s.io/json).
_INT64: Final = range(-(2**63), 2**63)


class UnreadableFile(CommandError):
    """The error raised when a file is not valid YAML or exceeds a limit.

    `problem` has the message, and file and line of the error.
    """

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(f"{place}: {message}")
        self.problem = BoxProblem(place, message)


@attrs.frozen(eq=False)
class MarkedDocument:
    """One YAML document as JSON data, which also knows the place (file, line and column) of each of its fields."""

    file: str
    value: Any
    problems: tuple[BoxProblem, ...]
    """The problems of single fields, such as duplicate keys, and values that JSON cannot represent."""
    places: YamlPlaces = attrs.field(repr=False)

    def at(self, path: str, offset: int | None = None) -> Place:
        """Return file, line and column of the field `path`, or of the character at `offset` in the field's text.

        For a missing field, return the place of the field that would contain it.
        """
        return self.places.at(path, offset)


def read_marked(path: str) -> list[MarkedDocument]:
    """Return every non-empty YAML document in a file.

    Raises UnreadableFile if the file is not valid YAML or exceeds a limit, and CommandError if it cannot be read.
    """
    return documents_of(path, read_text(path))


def documents_of(path: str, text: str) -> list[MarkedDocument]:
    """Return every non-empty YAML document in `text`.

    Error messages name the file `path`. Raises UnreadableFile if the text is not valid YAML or exceeds a limit.
    """
    if len(text) > LARGEST:
        raise UnreadableFile(Place(file=path), f"has {len(text)} characters; a file has at most {LARGEST}")
    try:
        found = [_marked(path, text, node, scalar) for node, scalar in composed(text, MOST_VALUES)]
    except yaml.MarkedYAMLError as error:
        raise UnreadableFile(*_yaml_error(path, text, error)) from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise UnreadableFile(Place(file=path, line=line), f"not valid YAML: {error.reason}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableFile(Place(file=path), f"not valid YAML: {TOO_DEEP}") from error
    return [document for document in found if document.value is not None or document.problems]


def _yaml_error(path: str, text: str, error: yaml.MarkedYAMLError) -> tuple[Place, str]:
    mark = error.problem_mark or error.context_mark
    place = Place(file=path) if mark is None else Place("", path, mark.line + 1, mark.column + 1)
    around = text.split("\n")[max(place.line - 2, 0) : place.line] if place.line else []
    message = problem_in(error)
    return place, f"not valid YAML: {message}{_hint(message, around, place.column - 1)}"


def _hint(message: str, around: Sequence[str], at: int) -> str:
    """Return advice on a mistake in YAML that is easy to recognize, or an empty string.

    `message` is the parser's. `around` has the line of the mistake, after the line before it. The mistake is at
    the character `at` of its line.
    """
    if any(line.strip(" ").startswith("\t") for line in around):
        return ": a tab; indent with spaces"
    line = around[-1] if around else ""
    before = line[:at].strip(" -")
    if before and OPENING in line:
        return ': quote the expression: "${…}"; YAML takes it apart at {, }, a colon or a # otherwise'
    # The first token of a line, or the colon after its first word, is wrong only because of what precedes the line.
    is_first = not before or (line[at : at + 1] == ":" and before.isidentifier())
    is_indented = is_first and line.strip() and "flow" not in message
    return ": check the indentation of this line and of the one before" if is_indented else ""


def _marked(path: str, text: str, node: yaml.Node, scalar: Any) -> MarkedDocument:
    builder = _Builder(path, scalar)
    value = builder.value(node, "")
    return MarkedDocument(path, value, tuple(builder.problems), YamlPlaces(path, node, text))


@attrs.frozen(eq=False)
class _Builder:
    file: str
    scalar: Any
    problems: list[BoxProblem] = attrs.field(factory=list)

    def value(self, node: yaml.Node, path: str) -> Any:
        """Return the JSON data of a YAML node, and append problems of the node to `problems`.

        `path` is the node's path in the document.
        """
        match node:
            case yaml.MappingNode():
                return dict(self._entries(node, path))
            case yaml.SequenceNode():
                return [self.value(item, index(path, at)) for at, item in enumerate(node.value)]
            case _:
                return self._scalar(node, path)

    def _entries(self, node: yaml.MappingNode, path: str) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._problem(key, path, 'a key must be a text; quote an expression: "${…}"')
                continue
            if key.value in seen:
                self._problem(key, join(path, key.value), "the key is there twice")
                continue
            seen.add(key.value)
            if key.value == "<<" and not key.style:
                self._problem(key, path, "`<<` merges nothing here: write the fields themselves")
                continue
            yield key.value, self.value(value, join(path, key.value))

    def _scalar(self, node: yaml.Node, path: str) -> Any:
        if node.tag not in _SCALARS:
            self._problem(node, path, f"{node.tag.removeprefix(_TAG)} is no type of JSON: write a text, or no tag")
            return None
        try:
            value = self.scalar(node)
        except (ValueError, ArithmeticError, yaml.YAMLError):
            self._problem(node, path, f"is no {node.tag.removeprefix(_TAG)}: quote it if it is a text")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._problem(node, path, "JSON has no infinity and no nan: quote it if it is a text")
            return None
        if type(value) is int and value not in _INT64:
            self._problem(node, path, "the number does not fit into 64 bits: quote it if it is a text")
            return None
        return value

    def _problem(self, node: yaml.Node, path: str, message: str) -> None:
        place = Place(path, self.file, node.start_mark.line + 1, node.start_mark.column + 1)
        self.problems.append(BoxProblem(place, message))
