"""The reading of YAML files, and the output of YAML or JSON. Every problem names the file and the line.

A text is checked before values are built from it: aliases, which let a few lines expand to gigabytes, and nesting that
would crash the parser are refused.

Scalars have the types that they have in kubectl: PyYAML alone would read an unquoted time as a date and `12:30` as a
number in base sixty, and would print the string `y` without quotes, which kubectl reads as true.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from purekube.apimachinery.secret_material import visible
from purekube_run.process.command_line import CommandError

STDIN = ("-", "/dev/stdin")
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float"))
_FLOAT_PATTERN = re.compile(
    r"^(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_DEEPEST = 100
"""The maximum nesting of mappings and lists. libyaml before PyYAML 6.0.4 has no limit, and crashes at some 50,000."""
TOO_DEEP: Final = "it is nested too deeply"
_MOST_VALUES = 20_000
"""The maximum number of scalars, mappings and lists in a string from the cluster: each takes more memory than text."""
_LONGEST_NUMBER = 80
"""The maximum number of characters of an integer: 64 bits in base two take 66."""
# kubectl reads YAML by sigs.k8s.io/yaml and go.yaml.in/yaml/v2, where `0777` is octal and there is no base sixty
# (resolve.go).
_INT_PATTERN = re.compile(r"^[-+]?(?:0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")


class Format(StrEnum):
    """The formats in which a command can print data: YAML and JSON."""

    YAML = "yaml"
    JSON = "json"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe YAML loader that refuses duplicate keys. It uses libyaml if installed, which is many times faster."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and the type are PyYAML's
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("bool", "null", "merge")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return super().construct_mapping(node, deep)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
                raise _unfit(key, f"the key {key.value!r} is there twice")
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else "")
        self.flatten_mapping(node)
        # Not by PyYAML, for which the keys 1 and true are the same.
        return {self._key(key): self.construct_object(value, deep=deep) for key, value in node.value}

    def _key(self, node: yaml.Node) -> str:
        """Return a key as it is in JSON. Raises ConstructorError for a key that kubectl refuses."""
        # sigs.k8s.io/yaml, convertToJSONableObject: numbers and booleans become texts, and null is refused.
        match self.construct_object(node, deep=True):
            case str() as key:
                return key
            case bool() as key:
                return str(key).lower()
            case int() | float() as key:
                return str(key)
        raise _unfit(node, "a key is not a text: put it in quotes")

    def refuse_tag(self, node: yaml.Node) -> Any:
        """Raise ConstructorError: the tag of the node is of a type that JSON, and so Kubernetes, does not have."""
        raise _unfit(node, f"the tag !!{node.tag.rpartition(':')[2]} is of a type that Kubernetes does not have")


def _unfit(node: Any, problem: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


for _tag in ("binary", "timestamp", "set", "omap", "pairs"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Loader.refuse_tag)
_Loader.add_implicit_resolver(_INT, _INT_PATTERN, list("-+0123456789"))
_Loader.add_implicit_resolver(_FLOAT, _FLOAT_PATTERN, list("-+0123456789."))


class _TextLoader(_Loader):
    """A safe YAML loader that leaves every scalar as its text, except null."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and the type are PyYAML's
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("null", "merge")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def files_in(path: Path) -> list[Path]:
    """Return the YAML and JSON files in a folder and its subfolders in order, or `path` alone if it is no folder."""
    return sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES) if path.is_dir() else [path]


def read_documents(paths: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return every object in the files.

    A `List` is replaced by its items, and `-` and `/dev/stdin` mean standard input. Raises CommandError with file,
    and problem for an unreadable file, broken YAML, or a value that is not an object.
    """
    return [document for path in paths for place, value in read_values(path) for document in _items(value, place)]


def read_values(path: str, *, as_texts: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield a pair for every non-empty document of a YAML file: its place (`FILE:LINE`) and its value.

    With `as_texts` numbers and booleans are the strings of the file, such as `1.10`. Raises CommandError with file,
    line and problem for an unreadable file or broken YAML.
    """
    text, shown = read_text(path), "standard input" if path in STDIN else path
    try:
        for node, value in _parse(text, loaded_by=_TextLoader if as_texts else _Loader):
            if value is not None:
                yield f"{shown}:{node.start_mark.line + 1}", value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise CommandError(f"{shown}:{line}: not valid YAML: {problem_in(error)}") from error
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise CommandError(f"{shown}:{line}: not valid YAML: {error.reason}") from error
    except RecursionError as error:
        raise CommandError(f"{shown}: not valid YAML: {TOO_DEEP}") from error


def problem_in(error: yaml.MarkedYAMLError) -> str:
    """Return the message of a YAML error, without file and line.

    For a string that is nested too deeply, the message is always the constant `TOO_DEEP`, whether PyYAML or its C
    library libyaml parsed the text.
    """
    if error.problem == "exceeded maximum nesting depth":
        return TOO_DEEP
    return " ".join(part for part in (error.context, error.problem) if part)


def parse_yaml(text: str) -> Any:
    """Return the value of the only document in `text`.

    Raises ValueError for invalid YAML, or if there is not exactly one document. The message quotes nothing of the text.
    """
    try:
        values = [value for _, value in _parse(text, most=_MOST_VALUES) if value is not None]
    except (yaml.YAMLError, RecursionError):
        raise ValueError("not valid YAML, or with aliases, nested too deeply or with too many values") from None
    if len(values) != 1:
        raise ValueError(f"holds {len(values)} YAML documents, not one")
    return values[0]


def _check_limits(text: str, most: int | None) -> None:
    """Raise MarkedYAMLError for a YAML text that is not safe to parse into values.

    Such a string has aliases, deep nesting, huge numbers, or more than `most` values.
    """
    depth = values = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            problem = f"the alias *{event.anchor} stands for a value given elsewhere: write the value itself"
            raise _refused(event, problem)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and _is_huge(event):
            raise _refused(event, f"a number of {len(event.value)} digits: an API server takes at most 64 bits")
        values += isinstance(event, yaml.NodeEvent)
        if depth > _DEEPEST:
            raise _refused(event, TOO_DEEP)
        if most is not None and values > most:
            raise _refused(event, f"it has more than {most} values")


def _is_huge(event: yaml.ScalarEvent) -> bool:
    """Report whether a scalar is an integer that is too long for an API server.

    Python refuses some thousand digits, too.
    """
    is_plain = event.implicit[0] and len(event.value) > _LONGEST_NUMBER
    return is_plain and _INT_PATTERN.match(event.value) is not None


def _refused(event: yaml.Event, problem: str) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark  # the class differs with and without libyaml
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def composed(text: str, most: int | None = None) -> Iterator[tuple[yaml.Node, Callable[[yaml.Node], Any]]]:
    """Yield a pair for each YAML document: its syntax tree, which has line numbers, and a function that builds values
    of it.

    Raises yaml.YAMLError for broken YAML, and for aliases, deep nesting and more than `most` values.
    """
    _check_limits(text, most)
    loader = _Loader(text)
    try:
        while loader.check_node():
            yield loader.get_node(), partial(_built, loader.construct_object)
    finally:
        loader.dispose()


def _parse(
    text: str, most: int | None = None, *, loaded_by: type[_Loader] = _Loader
) -> Iterator[tuple[yaml.Node, Any]]:
    """Yield a pair for each YAML document: its syntax tree, which has line numbers, and its value."""
    _check_limits(text, most)
    loader = loaded_by(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            yield node, _built(loader.construct_document, node)
    finally:
        loader.dispose()


def _built(build: Callable[[Any], Any], node: Any) -> Any:
    """Return the value of a node. Raises ConstructorError, also where a tag does not fit its text, as in `!!int x`."""
    try:
        return build(node)
    except (ValueError, LookupError, AttributeError):  # from PyYAML's constructors of these tags
        raise _unfit(node, "a value does not fit its tag") from None


def read_text(path: str) -> str:
    """Return the text of a file, or of standard input for `-`.

    Raises CommandError if the file cannot be read or is not UTF-8.
    """
    try:
        data = sys.stdin.buffer.read() if path in STDIN else Path(path).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _items(document: Any, place: str) -> Iterator[Mapping[str, Any]]:
    """Yield the Kubernetes object in a document.

    If the object is a List, as `kubectl get -o yaml` prints it, yield the List's items instead.
    """
    if not _is_object(document):
        raise CommandError(f"{place}: not a Kubernetes object: apiVersion and kind are missing")
    items = document.get("items")
    if not document["kind"].endswith("List") or not isinstance(items, list):
        yield document
        return
    for number, item in enumerate(items):
        if not _is_object(item):
            raise CommandError(f"{place}: items[{number}] is not a Kubernetes object: apiVersion and kind are missing")
        yield item


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(name), str) for name in ("apiVersion", "kind"))


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes no aliases, since people read and apply the output."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# Texts that other parsers would read as another type are quoted.
_Dumper.add_implicit_resolver(_BOOL, re.compile(r"^[yYnN]$"), list("yYnN"))
_Dumper.add_implicit_resolver(_FLOAT, _FLOAT_PATTERN, list("-+0123456789."))


def dump(documents: Sequence[Any], form: Format) -> str:
    """Return the documents as text in the format `form`: one YAML stream, or one JSON text after another."""
    if form is Format.JSON:
        return "".join(json.dumps(_plain(document), indent=2) + "\n" for document in documents)
    plain = [_plain(document) for document in documents]
    text = _as_yaml(plain, allow_unicode=True)
    # Terminal control characters are escaped, which needs quotes; the value stays the same for a parser.
    return text if visible(text) == text else _as_yaml(plain, allow_unicode=False)


def _as_yaml(documents: Sequence[Any], *, allow_unicode: bool) -> str:
    text: str = yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        explicit_start=len(documents) > 1,
        width=120,
        allow_unicode=allow_unicode,
    )
    return text


def _plain(value: Any) -> Any:
    """Return a value with its mappings, sequences and string enums converted to `dict`, `list` and `str`."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value
