"""Manifests with conditions and loops, written as a Go template of YAML.

A manifest is plain data, as everywhere. A part that depends on values is one of the classes below, and a text may
contain `⟦an expression⟧`. No other construct of the template language is used, so that all templates have the same
style.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import attrs
import yaml

_EXPRESSION: Final = re.compile(r"⟦([^⟧]*)⟧")


@attrs.frozen
class When:
    """A key of a mapping that is present if the condition holds."""

    condition: str
    key: str


@attrs.frozen
class Spread:
    """A placeholder for a key: the entries of a mapping among the values, if it has any."""

    expression: str


@attrs.frozen
class Yaml:
    """A value that is inserted as a whole, as YAML."""

    expression: str


@attrs.frozen
class Number:
    """A value that is a number."""

    expression: str


@attrs.frozen
class Guard:
    """Items of a list, or whole documents, that are present if the condition holds."""

    condition: str
    items: Sequence[Any]


@attrs.frozen
class Rest:
    """A placeholder for an item: the items of a list among the values."""

    expression: str


@attrs.frozen
class Each:
    """Items of a list, or whole documents, repeated for each of several values.

    `begin` sets variables in each round.
    """

    head: str
    items: Sequence[Any]
    begin: Sequence[str] = ()


def template(documents: Iterable[Any], begin: Sequence[str] = ()) -> str:
    """Return the documents as the text of a template."""
    return "\n".join([*(f"{{{{- {line} }}}}" for line in begin), *_documents(documents)]) + "\n"


def _documents(documents: Iterable[Any]) -> Iterator[str]:
    for document in documents:
        match document:
            case Guard(condition, items):
                yield from (f"{{{{- if {condition} }}}}", *_documents(items), "{{- end }}")
            case Each(head, items, begin):
                yield f"{{{{- range {head} }}}}"
                yield from (f"{{{{- {line} }}}}" for line in begin)
                yield from (*_documents(items), "{{- end }}")
            case _:
                yield "---"
                yield from _mapping(document, 0)


def _mapping(entries: Mapping[Any, Any], depth: int) -> Iterator[str]:
    for key, value in entries.items():
        match key:
            case When(condition, name):
                yield f"{' ' * depth}{{{{- if {condition} }}}}"
                yield from _entry(name, value, depth)
                yield f"{' ' * depth}{{{{- end }}}}"
            case Spread(expression):
                yield f"{' ' * depth}{{{{- with {expression} }}}}"
                yield f"{' ' * depth}{{{{- toYaml . | nindent {depth} }}}}"
                yield f"{' ' * depth}{{{{- end }}}}"
            case _:
                yield from _entry(key, value, depth)


def _entry(key: str, value: Any, depth: int) -> Iterator[str]:
    name = f"{' ' * depth}{_plain(key)}:"
    match value:
        case Yaml(expression):
            yield name
            yield f"{' ' * (depth + 2)}{{{{- toYaml {expression} | nindent {depth + 2} }}}}"
        case Number(expression):
            yield f"{name} {{{{ {expression} }}}}"
        case Mapping() if value:
            yield name
            yield from _mapping(value, depth + 2)
        case list() | tuple() if value:
            yield name
            yield from _items(value, depth + 2)
        case _:
            yield f"{name} {_scalar(value)}"


def _items(items: Sequence[Any], depth: int) -> Iterator[str]:
    pad = " " * depth
    for item in items:
        match item:
            case Guard(condition, inner):
                yield from (f"{pad}{{{{- if {condition} }}}}", *_items(inner, depth), f"{pad}{{{{- end }}}}")
            case Rest(expression):
                yield f"{pad}{{{{- with {expression} }}}}"
                yield f"{pad}{{{{- toYaml . | nindent {depth} }}}}"
                yield f"{pad}{{{{- end }}}}"
            case Each(head, inner, ()):
                yield from (f"{pad}{{{{- range {head} }}}}", *_items(inner, depth), f"{pad}{{{{- end }}}}")
            case Mapping() if item:
                first, *others = _mapping(item, depth + 2)
                yield f"{pad}- {first[depth + 2 :]}"
                yield from others
            case _:
                yield f"{pad}- {_scalar(item)}"


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return _plain(value)
    literals, expressions = _EXPRESSION.split(value)[::2], _EXPRESSION.findall(value)
    if not expressions:
        return _plain(value)
    if len(expressions) == 1 and not any(literals):
        return f"{{{{ {expressions[0]} | quote }}}}"
    form = "%v".join(text.replace("%", "%%") for text in literals)
    given = " ".join(each if re.fullmatch(r"[$.\w]+", each) else f"({each})" for each in expressions)
    return f'{{{{ printf "{form}" {given} | quote }}}}'


def _plain(value: Any) -> str:
    """Return a value as YAML on one line, in its shortest form."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True).strip()
    text = text.removesuffix("...").strip()
    if "\n" in text:
        text = json.dumps(value, ensure_ascii=False)
    # Double braces in a manifest's own text must not be evaluated as a template: they are quoted.
    return f"{{{{ {json.dumps(value, ensure_ascii=False)} | quote }}}}" if "{{" in text else text


def with_texts(document: Any, texts: Mapping[str, str]) -> Any:
    """Return the document with some of its texts replaced."""
    match document:
        case Mapping():
            return {key: with_texts(value, texts) for key, value in document.items()}
        case list():
            return [with_texts(item, texts) for item in document]
        case str():
            return texts.get(document, document)
        case _:
            return document


# --- two manifests as one --------------------------------------------------------------------------------------------


def either(condition: str, positive: Any, negative: Any) -> Any:
    """Return one manifest that is `positive` if the condition holds, else `negative`."""
    match positive, negative:
        case Mapping(), Mapping():
            return {
                name: value
                for key in _keys(positive, negative)
                for name, value in _of_key(condition, key, positive, negative)
            }
        case list(), list():
            return list(_of_items(condition, positive, negative))
        case _ if positive == negative:
            return positive
        case _:
            raise ValueError(f"differ under {condition}: {positive!r} and {negative!r}")


def _keys(positive: Mapping[str, Any], negative: Mapping[str, Any]) -> list[str]:
    return [*positive, *(key for key in negative if key not in positive)]


def _of_key(
    condition: str, key: str, positive: Mapping[str, Any], negative: Mapping[str, Any]
) -> Iterator[tuple[Any, Any]]:
    if key not in negative:
        yield When(condition, key), positive[key]
    elif key not in positive:
        yield When(_not(condition), key), negative[key]
    elif isinstance(positive[key], str) and positive[key] != negative[key]:
        yield When(condition, key), positive[key]
        yield When(_not(condition), key), negative[key]
    else:
        yield key, either(condition, positive[key], negative[key])


def _of_items(condition: str, positive: list[Any], negative: list[Any]) -> Iterator[Any]:
    told = [repr(item) for item in positive], [repr(item) for item in negative]
    for tag, one, two, three, four in SequenceMatcher(None, *told, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from positive[one:two]
            continue
        pairs = list(zip(positive[one:two], negative[three:four], strict=False))
        if two - one == four - three and all(isinstance(part, Mapping) for pair in pairs for part in pair):
            yield from (either(condition, *pair) for pair in pairs)
            continue
        if two > one:
            yield Guard(condition, positive[one:two])
        if four > three:
            yield Guard(_not(condition), negative[three:four])


def _not(condition: str) -> str:
    return f"not {condition}" if re.fullmatch(r"[$.\w]+", condition) else f"not ({condition})"
