"""The reading of single keywords of a schema, and the reporting of unreadable ones."""

from collections.abc import Mapping
from typing import Any

import attrs

from purekube.regex import Pattern, PatternError, compile_pattern
from purekube.schema.node import JsonType, ListType, SchemaProblem


@attrs.define
class KeywordReader:
    """A reader of keywords that collects the problems."""

    problems: list[SchemaProblem] = attrs.field(factory=list)

    def type_of(self, raw: Mapping[str, Any], path: str) -> JsonType:
        """Return the type of a structural node, which must have one."""
        kind = self.json_type(raw, path)
        if kind is JsonType.ANY and raw.get("type"):
            return kind
        known = raw.get("x-kubernetes-int-or-string") or raw.get("x-kubernetes-preserve-unknown-fields")
        if kind is JsonType.ANY and not known:
            self.problem(f"{path}.type", "must not be empty for specified fields and items")
        if kind is JsonType.ARRAY and raw.get("items") is None:
            self.problem(f"{path}.items", "must be specified")
        return kind

    def json_type(self, raw: Mapping[str, Any], path: str) -> JsonType:
        """Return the value of `type`; ANY if it is absent or no JSON type."""
        text = raw.get("type") or ""
        try:
            return JsonType(text)
        except ValueError:
            self.problem(f"{path}.type", f"{text!r} is none of {', '.join(filter(None, JsonType))}")
            return JsonType.ANY

    def list_type(self, raw: Mapping[str, Any], path: str) -> ListType:
        """Return the value of `x-kubernetes-list-type`; ATOMIC if it is absent or unknown."""
        text = raw.get("x-kubernetes-list-type", "atomic")
        try:
            return ListType(text)
        except ValueError:
            self.problem(f"{path}.x-kubernetes-list-type", f"{text!r} is none of {', '.join(ListType)}")
            return ListType.ATOMIC

    def pattern(self, text: str, path: str) -> Pattern | None:
        """Return the compiled pattern of a string; None for an invalid one."""
        try:
            return compile_pattern(text)
        except PatternError as error:
            self.problem(f"{path}.pattern", f"must be a valid regular expression, but isn't: {error}")
            return None

    def mapping(self, raw: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any]:
        """Return the object under `key` of the schema; {} if there is none."""
        value = raw.get(key) or {}
        if isinstance(value, Mapping):
            return value
        self.problem(f"{path}.{key}", "must be an object")
        return {}

    def refuse_unstructural(self, raw: Mapping[str, Any], path: str) -> None:
        """Report the keywords that no structural schema may have."""
        for keyword in ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems"):
            if raw.get(keyword) is not None:
                self.problem(f"{path}.{keyword}", "is not supported")
        if raw.get("uniqueItems"):
            self.problem(f"{path}.uniqueItems", "cannot be set to true since the runtime complexity becomes quadratic")
        if raw.get("x-kubernetes-preserve-unknown-fields") is False:
            self.problem(f"{path}.x-kubernetes-preserve-unknown-fields", "must be true or undefined")

    def problem(self, path: str, message: str) -> None:
        """Report what is wrong at `path`."""
        self.problems.append(SchemaProblem(path.removeprefix("."), message))
