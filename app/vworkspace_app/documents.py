"""YAML files in, YAML or JSON out. Every problem names the file and the line."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from vworkspace_app.problems import CommandError

__all__ = ["Format", "dump", "read_documents"]


_STDIN = ("-", "/dev/stdin")


class Format(StrEnum):
    """How a command prints data."""

    YAML = "yaml"
    JSON = "json"


def read_documents(paths: Sequence[str]) -> list[Mapping[str, Any]]:
    """Every object in the files (`-` or `/dev/stdin` is standard input), `List`s taken apart.

    Raises CommandError naming file, line and what is wrong: unreadable file, broken YAML, no object.
    """
    return [item for path in paths for document in _documents(path) for item in _items(document)]


def _documents(path: str) -> Iterator[Mapping[str, Any]]:
    text = _read(path)
    shown = "standard input" if path in _STDIN else path
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        values = list(yaml.safe_load_all(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        what = " ".join(part for part in (error.context, error.problem) if part)
        raise CommandError(f"{shown}:{line}: not valid YAML: {what}") from error
    except yaml.YAMLError as error:
        raise CommandError(f"{shown}: not valid YAML: {' '.join(str(error).split())}") from error
    for node, value in zip(nodes, values, strict=True):
        if value is None:
            continue
        if not isinstance(value, Mapping) or "kind" not in value or "apiVersion" not in value:
            line = node.start_mark.line + 1 if node is not None else 1
            raise CommandError(f"{shown}:{line}: not a Kubernetes object: apiVersion and kind are missing")
        yield value


def _read(path: str) -> str:
    try:
        return sys.stdin.read() if path in _STDIN else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _items(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """`kubectl get -o yaml` prints a List; its items are what is meant."""
    items = document.get("items")
    if str(document["kind"]).endswith("List") and isinstance(items, list):
        yield from (item for item in items if isinstance(item, Mapping))
    else:
        yield document


class _Dumper(yaml.SafeDumper):
    """Block style, no aliases: what is printed is to be read and applied."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump(documents: Sequence[Any], form: Format) -> str:
    """The documents as one YAML stream, or as JSON lines for more than one."""
    if form is Format.JSON:
        return "".join(json.dumps(document, indent=2, default=str) + "\n" for document in documents)
    return yaml.dump_all(
        [_plain(document) for document in documents],
        Dumper=_Dumper,
        sort_keys=False,
        explicit_start=len(documents) > 1,
        width=120,
        allow_unicode=True,
    )


def _plain(value: Any) -> Any:
    """Mappings and sequences of any class, and string enums, as what YAML knows."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value
