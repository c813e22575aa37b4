"""The source text of a kind's module, made from a given CRD: classes of spec and status, and their `resource`."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.definitions import Column
from purekube.apimachinery.manifest import Kind, Manifest, get_path
from purekube.apimachinery.problems import ValidationProblems, join
from purekube.apimachinery.structuring import structure
from purekube.reconcilers.crd_classes import FREE, RULES, Classes, Note, normal, rule_call, split_rules
from purekube.reconcilers.resource import ENGINE_FIELDS, check_columns, check_names, plural_of, standard_columns
from purekube.reconcilers.source_text import Group, Node, Text, call, docstring, imported, laid_out, literal

_ROOT: Final = frozenset(("apiVersion", "kind", "metadata", "spec", "status"))
_IN_A_ROOT: Final = frozenset(("type", "description", "properties", "required", RULES))
_IN_A_VERSION: Final = frozenset(
    ("name", "served", "storage", "schema", "subresources", "additionalPrinterColumns", "deprecated")
)
_IN_A_COLUMN: Final = frozenset(("name", "type", "jsonPath", "priority", "description"))
_FROM: Final = {
    "collections.abc": {"Mapping"},
    "typing": {"Any", "ClassVar", "Literal", "TypeAlias"},
    "purekube.reconcilers": {"Column", "Object", "resource", "rule", "schema_field"},
}

_OUR_COLUMNS: Final = {column.name: column.json_path for column in standard_columns(())}


class UnfitCrd(ValueError):
    """The error for a CRD from which no module can be made. The message begins with the path of the problem."""


@attrs.frozen
class KindSource:
    """The source text of a kind's module, and notes about the parts of the CRD that the module does not express."""

    kind: Kind
    text: str
    notes: Sequence[Note]


def constant_of(kind: str) -> str:
    """Return the name of the constant that holds the Resource of a kind; the name differs from the class's name."""
    return f"{kind}_KIND" if kind.isupper() else kind.upper()


@attrs.frozen
class _Names:
    kind: str
    plural: str
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@attrs.frozen
class _Version:
    name: str
    additional_printer_columns: tuple[Column, ...] = ()
    subresources: Mapping[str, Any] = attrs.field(factory=dict)
    schema: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class _Conversion:
    strategy: str = "None"


@attrs.frozen
class _CrdSpec:
    """The spec of a CRD."""

    group: str
    names: _Names
    versions: tuple[_Version, ...]
    scope: str = "Namespaced"
    conversion: _Conversion = _Conversion()


def kind_source(crd: Manifest, version: str) -> KindSource:
    """Return the source of a Python module for one version of a CRD whose schema is structural. Raises UnfitCrd for a
    kind that `resource` cannot make.
    """
    try:
        spec = structure(_CrdSpec, crd["spec"])
    except ValidationProblems as error:
        raise UnfitCrd(f"spec.{error.problems[0]}") from error
    index = next(place for place, each in enumerate(spec.versions) if each.name == version)
    path = f"spec.versions[{index}].schema.openAPIV3Schema"
    root = normal(spec.versions[index].schema.get("openAPIV3Schema") or {})
    kind = Kind(spec.group, version, spec.names.kind, spec.names.plural, spec.scope != "Cluster")
    try:
        check_names(kind, spec.names.short_names)
        check_columns(spec.versions[index].additional_printer_columns)
    except ValueError as error:
        raise UnfitCrd(f"spec: {error}") from error
    if not root:
        raise UnfitCrd(f"{path}: is missing")
    if not _is_object(get_path(root, "properties", "spec")):
        raise UnfitCrd(f"{path}.properties.spec: a kind in Python has a spec that is an object")
    return _Module(kind, spec, spec.versions[index], crd["spec"]["versions"][index], root).source()


@attrs.frozen
class _Module:
    kind: Kind
    spec: _CrdSpec
    version: _Version
    given: Manifest
    """The version, an item of `spec.versions`, as the CRD has it."""
    root: Mapping[str, Any]

    def source(self) -> KindSource:
        kind = self.kind.kind
        constant, spec, status = constant_of(kind), f"{kind}Spec", f"{kind}Status"
        classes = Classes({kind, constant, spec, status})
        properties = self.root["properties"]
        classes.add(spec, {"description": f"The spec of a {kind}.", **properties["spec"]}, "spec")
        classes.add(
            status, _own_status({"description": f"The status of a {kind}.", **self._status()}), "status", status=True
        )
        made = laid_out(f"{constant} = ", call("resource", *self._arguments(spec, status), **self._options()))
        lines = [
            *classes.lines(), "", "",
            *laid_out(f"{kind}: TypeAlias = ", Group("Object[", [("", spec), ("", status)], "]")),
            *made,
        ]  # fmt: skip
        about = self.root.get("description") or f"The kind {kind}."
        text = "\n".join((*docstring(about), "", *_imports("\n".join(lines)), *lines, ""))
        return KindSource(self.kind, text, (*self._notes(), *classes.notes))

    def _status(self) -> Mapping[str, Any]:
        status = self.root["properties"].get("status")
        return status if _is_object(status) else {}

    def _arguments(self, spec: str, status: str) -> Iterator[Node]:
        yield from (Text(self.kind.group), Text(self.kind.version), Text(self.kind.kind), spec, status)

    def _options(self) -> dict[str, Node]:
        names, plural = self.spec.names, self.kind.plural
        rules, _ = split_rules(self.root)
        options: dict[str, Node | None] = {
            "plural": Text(plural) if plural != plural_of(self.kind.kind) else None,
            "short_names": literal(names.short_names) if names.short_names else None,
            "categories": literal(names.categories) if names.categories else None,
            "namespaced": None if self.kind.namespaced else "False",
            "columns": _listed([_column_call(column) for column in self._columns()]),
            "rules": _listed([rule_call(rule) for rule in rules]),
        }
        return {name: node for name, node in options.items() if node is not None}

    def _columns(self) -> list[Column]:
        return [column for column in self.version.additional_printer_columns if column.name not in _OUR_COLUMNS]

    # --- what the module does not express ----------------------------------------------------------------------------

    def _notes(self) -> Iterator[Note]:
        yield from (Note(path, message) for path, message in (*self._of_crd(), *self._of_version(), *self._of_root()))

    def _of_crd(self) -> Iterator[tuple[str, str]]:
        names, kind = self.spec.names, self.kind.kind
        ours = {"singular": (names.singular, kind.lower()), "listKind": (names.list_kind, f"{kind}List")}
        for name, (given, made) in ours.items():
            if given not in ("", made):
                yield f"spec.names.{name}", f"becomes {made}, not {given}"
        if others := [one.name for one in self.spec.versions if one is not self.version]:
            yield "spec.versions", f"only the stored one, {self.kind.version}, becomes classes, not {', '.join(others)}"
        if self.spec.conversion.strategy != "None":
            yield "spec.conversion", "is left out: `conversion` converts between versions"

    def _of_version(self) -> Iterator[tuple[str, str]]:
        left = [key for key, value in self.given.items() if value and key not in _IN_A_VERSION]
        left += [f"subresources.{name}" for name in self.version.subresources if name != "status"]
        yield from ((f"spec.versions.{key}", "is left out") for key in left)
        for column in self.version.additional_printer_columns:
            path = _OUR_COLUMNS.get(column.name, column.json_path)
            if path != column.json_path:
                yield join("additionalPrinterColumns", column.name), f"becomes {path}"
        for given in self.given.get("additionalPrinterColumns") or ():
            if more := given.keys() - _IN_A_COLUMN:
                yield join("additionalPrinterColumns", given["name"]), f"{', '.join(sorted(more))}: is left out"

    def _of_root(self) -> Iterator[tuple[str, str]]:
        properties = self.root["properties"]
        untyped = [name for name in ("spec", "status") if name in properties and "type" not in properties[name]]
        yield from ((name, "may be any value, but is an object here") for name in untyped)
        if "spec" not in self.root.get("required", ()):
            yield "spec", "optional, but required here"
        left = [*(self.root.keys() - _IN_A_ROOT), *(split_rules(self.root)[1]), *(properties.keys() - _ROOT)]
        left += ["status"] if "status" in properties and not self._status() else []
        left += ["metadata"] if properties.get("metadata", {}).get("properties") else []
        yield from ((name, "is left out: a kind in Python has a spec and a status") for name in sorted(left))
        for name in ENGINE_FIELDS:
            if name in self._status().get("properties", {}):
                yield f"status.{name}", "has the framework's schema"


def _is_object(schema: Any) -> bool:
    """Report whether a schema describes an object, or accepts any value."""
    return schema is not None and (schema.get("type") == "object" or ("type" not in schema and FREE in schema))


def _own_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a status without the fields that the framework adds to every status."""
    fields = {key: child for key, child in status.get("properties", {}).items() if key not in ENGINE_FIELDS}
    required = [key for key in status.get("required", ()) if key not in ENGINE_FIELDS]
    return {**status, "properties": fields, "required": required}


def _listed(calls: Sequence[Node]) -> Node | None:
    return Group("[", [("", one) for one in calls], "]") if calls else None


def _column_call(column: Column) -> Node:
    named: dict[str, Node] = {"type": Text(column.type)} if column.type != "string" else {}
    named |= {"priority": repr(column.priority)} if column.priority else {}
    return call("Column", Text(column.name), Text(column.json_path), **named)


def _imports(text: str) -> Iterator[str]:
    """Yield the import statements that the text of a module needs."""
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    for module, names in _FROM.items():
        if module == "purekube.reconcilers":
            yield from ("", "import attrs")
        if names := names & used:
            yield from imported(module, names)
