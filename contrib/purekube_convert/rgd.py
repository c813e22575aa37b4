"""The conversion of a ResourceGraphDefinition of kro to a CRD and a box, a YAML file that describes an operator.

Expressions are CEL in both; the differences are handled one by one: `schema` is `self` in a box, `each` is the resource
itself, and kro has its own functions. In kro a reference to a resource with `readyWhen` waits until that resource is
ready; in a box a reference to a rendered field does not wait, so the box says `dependsOn`. In kro a resource is ready
once it exists and its own `readyWhen` holds, whatever its kind's rule, and objects are found by labels in any
namespace.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

import attrs

from purekube.apimachinery.definitions import Column
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.problems import index, join
from purekube.boxes.expressions import FUNCTIONS
from purekube.boxes.model import API_VERSION
from purekube.boxes.schemas import KnownKind, Schemas, plural_of
from purekube.boxes.templates import TextPart, text_parts
from purekube.cel import BOOL, DYN, CelSyntaxError, CelType, Environment, compile_expression, list_of
from purekube.schema import Schema
from purekube.schema.builtin import built_in_schema
from purekube_convert.go_expressions import TemplateScope as PathScope
from purekube_convert.go_expressions import expression_of_path
from purekube_convert.go_template import TemplateError
from purekube_convert.katalog_resources import filled
from purekube_convert.kro_expressions import PresenceChecks, rewrite
from purekube_convert.result import (
    BoxPath,
    ConversionResult,
    ConvertedBox,
    Problems,
    joined_parts,
    type_of_definition,
)
from purekube_convert.simple_schema import SimpleSchemas

_GROUP: Final = "kro.run"
_STATELESS: Final = "; once converted, kinds of kro have conditions, and no status.state to wait for"
_OF_READY: Final = '.status.conditions[?(@.type=="Ready")]'
_COLUMNS: Final = (
    Column("Ready", f"{_OF_READY}.status"),
    Column("Reason", f"{_OF_READY}.reason"),
    Column("Message", f"{_OF_READY}.message", priority=1),
    Column("Age", ".metadata.creationTimestamp", "date"),
)
"""The columns of `kubectl get` for a definition that declares none: those of the CRD that `box init` writes."""
_PATH: Final = re.compile(r"[\w.]+")
_WAITING: Final = re.compile(r"\bmetadata\.name(?:space)?$|\.(?:matchLabels|\w*[sS]elector)\b")
"""The pattern of the paths of fields of a resource that the box waits for: without them, the object would be another
one, or would select more objects.
"""
_NO_LABEL: Final = re.compile(r"[^a-z0-9]+")
_LABEL: Final = 63
_DEEPEST: Final = 64
_MOST: Final = 1_000
_LONGEST: Final = 65_536
"""The maximum length in characters of a string with expressions."""
_KNOWN: Final = frozenset(("id", "template", "externalRef", "readyWhen", "includeWhen", "forEach"))
_SCHEMA_KEYS: Final = frozenset(("apiVersion", "kind", "group", "spec", "types", "status", "scope", "metadata")) | {
    *("additionalPrinterColumns", "shortNames", "categories")
}
_COMBINED: Final = "item"
"""The usual name of the loop variable that has one combination of the items of several iterators."""
_AT: Final = "n"
"""The name of the CEL variable that has the number of a combination, in the expression that lists all combinations."""
_CONDITION: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["type", "status", "reason", "lastTransitionTime"],
    "properties": {
        **{name: {"type": "string"} for name in ("type", "status", "reason", "message")},
        "observedGeneration": {"type": "integer", "format": "int64"},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    },
}
_STATUS: Final[Mapping[str, Any]] = {
    "observedGeneration": {"type": "integer", "format": "int64"},
    "conditions": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": _CONDITION,
    },
}


def convert_definition(document: Mapping[str, Any], known: Schemas) -> ConversionResult:
    """Convert a ResourceGraphDefinition of kro to a box (a YAML file for an operator) and the CRD of its kind.

    `known` are the schemas of kinds whose CRDs were given.
    """
    problems = Problems()
    spec, meta = document.get("spec"), document.get("metadata")
    name = str(meta.get("name", "")) if isinstance(meta, Mapping) else ""
    if not isinstance(spec, Mapping):
        problems.add("spec", "must be an object")
        return ConversionResult((), problems.all())
    for key in spec:
        if key not in ("schema", "resources"):
            problems.add(join("spec", str(key)), "has no counterpart in a box")
    return ConversionResult((_Definition(name or "box", spec, problems, known).box(),), problems.all())


class _Definition:
    def __init__(self, name: str, spec: Mapping[str, Any], problems: Problems, known: Schemas) -> None:
        self._name = _NO_LABEL.sub("-", name.lower())[:_LABEL].strip("-") or "box"
        self._problems = problems
        self._known = known
        schema = spec.get("schema")
        self._schema: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        if not isinstance(schema, Mapping):
            problems.add("spec.schema", "must be an object")
        listed = spec.get("resources")
        if listed is not None and not isinstance(listed, list):
            problems.add("spec.resources", "must be a list")
        self._entries = list(_resources(listed if isinstance(listed, list) else [], problems))
        self._ids = {entry.id for entry in self._entries}
        self._waited_for = {entry.id for entry in self._entries if entry.raw.get("readyWhen")}
        self._notes: dict[BoxPath, str] = {}
        if self._name != name:
            self._notes[("metadata", "name")] = f"{name} in kro; a box is named by a DNS label"
        self._crd = self._definition()
        self._parent = type_of_definition(self._crd)
        self._kinds = dict(self._typed())
        self._present = PresenceChecks({"self": self._parent, **self._types()})
        self._items: dict[str, CelType] = {}
        self._combined: Mapping[str, str] = {}
        """The fields of the combination over which the box iterates, by the iterators of the present kro resource."""

    def box(self) -> ConvertedBox:
        """Return the box and the CRD of its kind."""
        resources: list[dict[str, Any]] = []
        externals: list[dict[str, Any]] = []
        for entry in self._entries:
            if "externalRef" in entry.raw:
                externals.append(self._external(entry))
            else:
                resources.append(self._resource(entry, len(resources)))
        fields = self._fields()
        spec = filled(
            crd=f"{self._name}-crd.yaml",
            kinds=self._declared(),
            externals=[external for external in externals if external],
            resources=resources,
            status={"fields": fields} if fields else None,
        )
        box = {"apiVersion": API_VERSION, "kind": "OperatorBox", "metadata": {"name": self._name}, "spec": spec}
        return ConvertedBox(self._name, box, self._with_status(fields), self._notes)

    # --- the definition of the kind -----------------------------------------------------------------------------------

    def _definition(self) -> dict[str, Any]:
        raw = self._schema
        for key in raw:
            if key not in _SCHEMA_KEYS:
                self._problems.add(join("spec.schema", str(key)), "has no counterpart in a definition")
        kind = raw.get("kind")
        if not isinstance(kind, str) or not kind.isidentifier():
            self._problems.add("spec.schema.kind", "must be the name of a kind")
            kind = "Box"
        group, plural = str(raw.get("group", _GROUP)), _pluralized(kind.lower())
        types = raw.get("types")
        schemas = SimpleSchemas(types if isinstance(types, Mapping) else {}, self._problems)
        spec = schemas.of_object(raw.get("spec", {}), "spec.schema.spec")
        version: dict[str, Any] = {
            "name": str(raw.get("apiVersion", "v1alpha1")),
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            "additionalPrinterColumns": self._columns() or [each.manifest() for each in _COLUMNS],
        }
        if "default" not in spec and "required" not in spec:
            spec["default"] = {}  # kro accepts an object without a spec
        version["schema"]["openAPIV3Schema"]["required"] = ["spec"] if "default" not in spec else []
        names = filled(
            plural=plural,
            singular=kind.lower(),
            kind=kind,
            listKind=f"{kind}List",
            shortNames=raw.get("shortNames"),
            categories=raw.get("categories"),
        )
        extra = raw.get("metadata")
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}", **(extra if isinstance(extra, Mapping) else {})},
            "spec": {
                "group": group,
                "scope": str(raw.get("scope", "Namespaced")),
                "names": names,
                "versions": [version],
            },
        }

    def _columns(self) -> Any:
        """Return the columns of `kubectl get` that the file declares, or None. Note a column of kro's own state."""
        columns = self._schema.get("additionalPrinterColumns")
        for column in columns if isinstance(columns, list) else ():
            if isinstance(column, Mapping) and str(column.get("jsonPath")).strip() == ".status.state":
                name = str(column.get("name"))[:_LABEL]
                self._notes[("spec", "crd")] = f"its column {name} is empty: a box has no state, but a condition Ready"
        return columns

    def _with_status(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the CRD with a schema for `status`. Its fields have the types of the expressions in `fields`."""
        openapi = self._crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        environment = Environment({"self": self._parent, **self._types()}, FUNCTIONS)
        own = {name: _inferred(value, environment) for name, value in fields.items()}
        openapi["properties"]["status"] = {"type": "object", "properties": {**_STATUS, **own}}
        return self._crd

    def _types(self) -> dict[str, CelType]:
        types = {entry.id: DYN if known is None else known.type for entry, known in self._kinds.items()}
        loops = {entry.id for entry in self._kinds if entry.raw.get("forEach")}
        return {name: list_of(found) if name in loops else found for name, found in types.items()}

    def _typed(self) -> Iterator[tuple["_Entry", KnownKind | None]]:
        """Yield each entry of `resources` in the ResourceGraphDefinition with its kind, or with None if the kind is
        unknown.
        """
        for entry in self._entries:
            yield entry, self._known.find(*_type_meta(entry))

    def _declared(self) -> list[dict[str, Any]]:
        """Return the entries of the box's `spec.kinds`, which declare the kinds whose CRDs were not given.

        kro finds these kinds in a cluster. Here their plurals are guessed as kubectl guesses them.
        """
        unknown = dict.fromkeys(_type_meta(entry) for entry, known in self._kinds.items() if known is None)
        said = [(version, kind) for version, kind in unknown if version and kind and "${" not in version + kind]
        if said:
            self._notes[("spec", "kinds")] = (
                "plurals and scopes are guesses, since no CRD of these kinds was given: look, or convert with --crds"
                + (_STATELESS if any(version.startswith(f"{_GROUP}/") for version, _ in said) else "")
            )
        return [{"apiVersion": version, "kind": kind, "plural": plural_of(kind)} for version, kind in said]

    def _fields(self) -> dict[str, Any]:
        raw = self._schema.get("status")
        if raw is None:
            return {}
        if not isinstance(raw, Mapping):
            self._problems.add("spec.schema.status", "must be an object of fields")
            return {}
        out: dict[str, Any] = {}
        for key, value in raw.items():
            path = join("spec.schema.status", str(key))
            if key in ("conditions", "state"):
                hint = "write them under spec.status.conditions" if key == "conditions" else "a box tells conditions"
                self._problems.add(path, f"is not converted: {hint}")
            else:
                out[str(key)] = self._template(value, path, set())
        return out

    # --- resources ----------------------------------------------------------------------------------------------------

    def _external(self, entry: "_Entry") -> dict[str, Any]:
        raw, path = entry.raw["externalRef"], join(entry.path, "externalRef")
        meta = raw.get("metadata") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not isinstance(meta, Mapping):
            self._problems.add(path, "must be an object with apiVersion, kind and metadata")
            return {}
        if "selector" in meta:
            self._problems.add(f"{path}.metadata.selector", "a box reads externals by name, not by labels")
            return {}
        self._report_unread(entry, ("externalRef", "readyWhen", "includeWhen"))
        include = self._expressions(entry, "includeWhen", set())
        found = self._template(meta, join(path, "metadata"), set())
        head = filled(id=entry.id, apiVersion=raw.get("apiVersion"), kind=raw.get("kind"), metadata=found)
        return {**head, **filled(includeWhen=include, readyWhen=self._expressions(entry, "readyWhen", set()))}

    def _resource(self, entry: "_Entry", position: int) -> dict[str, Any]:
        self._combined = {}
        referred: set[str] = set()
        loop = self._loop(entry, referred)
        bound = frozenset(loop) - {"key"} if loop else frozenset[str]()
        include = self._expressions(entry, "includeWhen", referred, bound)
        raw = _without_nulls(entry.raw.get("template"), built_in_schema(*_type_meta(entry)))
        template = self._template(raw, join(entry.path, "template"), referred, bound)
        if not isinstance(template, Mapping):
            self._problems.add(join(entry.path, "template"), "must be a manifest")
        waits = sorted((referred & self._waited_for) - {entry.id})
        if waits:
            self._notes[("spec", "resources", position, "dependsOn")] = (
                "kro waits for readyWhen of whatever a template, forEach or includeWhen refers to"
            )
        self._report_unread(entry, ("template", "readyWhen", "includeWhen", "forEach"))
        return filled(
            id=entry.id,
            includeWhen=include,
            forEach=loop,
            dependsOn=waits,
            readyWhen=self._expressions(entry, "readyWhen", set(), bound),
            readiness="Exists",
            owner="Label" if self._is_elsewhere(entry) else None,
            template=template,
        )

    def _is_elsewhere(self, entry: "_Entry") -> bool:
        """Report whether the entry's objects may be outside the parent's namespace.

        Such objects cannot have an owner reference to the parent.
        """
        known = self._kinds[entry]
        meta = get_path(entry.raw, "template", "metadata")
        namespace = str(get_path(meta, "namespace") or "")
        away = namespace and re.sub(r"\s", "", namespace) != "${schema.metadata.namespace}"
        if self._crd["spec"]["scope"] == "Cluster":
            return False
        return bool(away) or (known is not None and not known.kind.namespaced)

    def _report_unread(self, entry: "_Entry", read: Sequence[str]) -> None:
        for key in entry.raw:
            if key != "id" and key not in read:
                known = "has no meaning beside it" if key in _KNOWN else "has no counterpart in a box"
                self._problems.add(join(entry.path, str(key)), known)

    def _loop(self, entry: "_Entry", referred: set[str]) -> dict[str, Any] | None:
        """Return the `forEach` of the box, or None. Add the resources that the lists refer to to `referred`."""
        raw = entry.raw.get("forEach")
        path = join(entry.path, "forEach")
        if raw is None or raw == []:
            return None
        items = list(raw) if isinstance(raw, list) else []
        pairs = [pair for item in items if isinstance(item, Mapping) for pair in item.items()]
        names = [str(name) for name, _ in pairs]
        if not pairs or len(pairs) != len(items) or not all(isinstance(listed, str) for _, listed in pairs):
            self._problems.add(path, "must be a list of variables, each with its list as an expression")
            return None
        paths = [f"{index(path, at)}.{name}" for at, name in enumerate(names)]
        lists = [self._text(pair[1], where, referred, whole=False) for pair, where in zip(pairs, paths, strict=True)]
        variable, over = names[0], lists[0]
        if variable == "key":
            variable = _free(_COMBINED, self._ids)
            self._combined = {"key": variable}
        if len(pairs) > 1:
            variable = _free(_COMBINED, {*names, *self._ids})
            over = f"${{{_combinations(names, [text[2:-1] for text in lists])}}}"
            self._combined = {name: f"{variable}.{name}" for name in names}
        return {variable: over, "key": self._key(entry, variable, over, path, names)}

    def _key(self, entry: "_Entry", variable: str, over: str, path: str, iterators: Sequence[str]) -> str:
        """Return the CEL expression for the key by which a box identifies the items of a loop.

        kro identifies an item by its position in the list. A box needs a value of the item, such as its name, if the
        names and namespaces of the objects depend on nothing else in it. `iterators` are the loop's variables in kro.
        """
        item = DYN
        try:
            environment = Environment({"self": self._parent, **self._types()}, FUNCTIONS)
            item = compile_expression(over[2:-1], environment).type.item
        except CelSyntaxError:
            pass
        self._items[variable] = item
        if item.name in ("string", "int"):
            return f"${{{variable}}}" if item.name == "string" else f"${{string({variable})}}"
        meta = get_path(entry.raw, "template", "metadata")
        identity = {field: str(get_path(meta, field) or "") for field in ("namespace", "name")}
        read = re.compile(rf"\b(?:{'|'.join(map(re.escape, iterators))})\b(?P<field>\.name\b)?")
        is_by_name = all(each["field"] for text in identity.values() for each in read.finditer(text))
        if item.fields is not None and "name" in item.fields and not item.fields["name"].optional and is_by_name:
            return f"${{{variable}.name}}"
        if identity["name"]:
            parts = [text for field, text in identity.items() if field == "name" or read.search(text)]
            key = self._text(".".join(parts), join(path, "key"), set(), frozenset((variable,)), whole=False)
            return _as_expression(key) if _is_readable(key) else key
        self._problems.add(path, "what tells the items apart? Their objects have no name")
        return f"${{{variable}}}"

    # --- expressions --------------------------------------------------------------------------------------------------

    def _expressions(
        self, entry: "_Entry", key: str, referred: set[str], bound: frozenset[str] = frozenset()
    ) -> list[Any]:
        raw = entry.raw.get(key)
        if raw is None:
            return []
        if not isinstance(raw, list) or not all(isinstance(item, str) for item in raw):
            self._problems.add(join(entry.path, key), "must be a list of expressions")
            return []
        each = {"each": entry.id} if entry.raw.get("forEach") else {}
        return [
            self._text(item, index(join(entry.path, key), position), referred, bound, each, whole=False)
            for position, item in enumerate(raw)
        ]

    def _template(
        self, raw: Any, path: str, referred: set[str], bound: frozenset[str] = frozenset(), depth: int = 0
    ) -> Any:
        if depth > _DEEPEST:
            self._problems.add(path, f"is nested more than {_DEEPEST} levels deep")
            return None
        match raw:
            case Mapping():
                return {
                    str(key): self._template(value, join(path, str(key)), referred, bound, depth + 1)
                    for key, value in raw.items()
                }
            case list():
                return [
                    self._template(value, index(path, position), referred, bound, depth + 1)
                    for position, value in enumerate(raw)
                ]
            case str():
                return self._text(raw, path, referred, bound)
        return raw

    def _text(
        self,
        text: str,
        path: str,
        referred: set[str],
        bound: frozenset[str] = frozenset(),
        renamed: Mapping[str, str] | None = None,
        *,
        whole: bool = True,
    ) -> str:
        """Return a string with its expressions rewritten for a box, or unchanged if one of them cannot be rewritten.

        kro waits for a field that is absent. A box waits only for `.?field.value()`, so expressions are rewritten to
        that form. `whole` says that the text is the whole value of a template field. If such a text is only the path of
        a field that may be absent, it becomes a CEL optional. The box leaves the template field out while the other
        field is absent, unless this would choose another namespace or more objects.
        """
        if len(text) > _LONGEST:
            self._problems.add(path, f"has {len(text)} characters; a text has at most {_LONGEST}")
            return text
        try:
            found = _parts(text)
            out = []
            alone = whole and len(found) == 1 and not (path.startswith("spec.resources") and _WAITING.search(path))
            for piece in found:
                if not piece.is_expression:
                    out.append(piece.text)
                    continue
                rewritten = rewrite(piece.text, {"schema": "self", **self._combined, **(renamed or {})}, bound)
                referred |= rewritten.names & self._ids
                for problem in rewritten.problems:
                    self._problems.add(path, problem)
                said = self._whole(rewritten.text) if alone else rewritten.text
                out.append(f"${{{self._present.text(said, {name: self._items.get(name, DYN) for name in bound})}}}")
            if whole and len(found) == 2 and found[0].is_expression and found[1].text == "\n":
                out[1] = "${'\\n'}"  # a box ignores the end of a line after an expression; kro writes it
            return joined_parts(out)
        except CelSyntaxError as error:
            self._problems.add(path, str(error))
            return text

    def _whole(self, text: str) -> str:
        """Return the expression `text`, the whole value of a template field.

        If `text` is the path of a parent's field that may be absent, return that path as a CEL optional. The box then
        leaves the template field out while the parent's field is absent.
        """
        steps = text.split(".")
        if steps[0] != "self" or not all(step.isidentifier() for step in steps):
            return text
        try:
            return expression_of_path(steps[1:], PathScope(self._parent)).text if len(steps) > 1 else text
        except TemplateError:
            return text


@attrs.frozen
class _Entry:
    """One entry of `resources` in a ResourceGraphDefinition. Entries are compared only by id and path."""

    id: str
    raw: Mapping[str, Any] = attrs.field(eq=False)
    path: str


def _type_meta(entry: _Entry) -> tuple[str, str]:
    """Return the apiVersion and kind of an entry, each an empty string if the entry lacks it."""
    place = entry.raw.get("template") or entry.raw.get("externalRef")
    said = place if isinstance(place, Mapping) else {}
    return str(said.get("apiVersion") or ""), str(said.get("kind") or "")


def _combinations(names: Sequence[str], lists: Sequence[str]) -> str:
    """Return a CEL expression for a list of all combinations of the items of `lists`.

    Each combination is an object with the keys `names`. The item of the first list changes most slowly.
    """
    sizes = [f"size({text})" for text in lists]
    fields = []
    for at, (name, text) in enumerate(zip(names, lists, strict=True)):
        turn = " / ".join((_AT, *sizes[at + 1 :]))
        fields.append(f"'{name}': ({text})[{turn if at == 0 else f'{turn} % {sizes[at]}'}]")
    return f"lists.range({' * '.join(sizes)}).map({_AT}, {{{', '.join(fields)}}})"


def _as_expression(text: str) -> str:
    """Return a string that contains expressions as one CEL expression.

    Raises CelSyntaxError for an expression that cannot be parsed.
    """
    parts = [part.text if part.is_expression else json.dumps(part.text) for part in text_parts(text)]
    if len(parts) > 1:
        parts = [part if part.startswith('"') or _PATH.fullmatch(part) else f"({part})" for part in parts]
    return f"${{{' + '.join(parts)}}}"


_MARK: Final = "\ue000"
"""A character that no text has; it keeps two signs apart."""


def _parts(text: str) -> list[TextPart]:
    """Return the literal and the expression parts of a text of kro, in which `$${` is a dollar before an expression.

    In a box `$${` writes `${`, so the dollar is kept apart while the text is read. Raises CelSyntaxError.
    """
    found = text_parts(text.replace("$${", f"${_MARK}${{"))
    return [attrs.evolve(part, text=part.text.replace(f"${_MARK}${{", "$${").replace(_MARK, "")) for part in found]


def _is_readable(text: str) -> bool:
    try:
        return bool(text_parts(text))
    except CelSyntaxError:
        return False  # this problem is reported already


def _free(name: str, taken: Set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _without_nulls(raw: Any, schema: Schema | None) -> Any:
    """Return a template of a built-in kind without null fields, which an API server treats as absent."""
    if schema is not None and isinstance(raw, Mapping):
        kept = {key: value for key, value in raw.items() if value is not None or key not in schema.properties}
        return {key: _without_nulls(value, schema.child(str(key))) for key, value in kept.items()}
    if schema is not None and isinstance(raw, list):
        return [_without_nulls(item, schema.items) for item in raw]
    return raw


def _resources(listed: Sequence[Any], problems: Problems) -> Iterator[_Entry]:
    if len(listed) > _MOST:
        problems.add(index("spec.resources", _MOST), f"is one too many: a definition has at most {_MOST}")
    for position, raw in enumerate(listed[:_MOST]):
        path = index("spec.resources", position)
        name = raw.get("id") if isinstance(raw, Mapping) else None
        if isinstance(raw, Mapping) and isinstance(name, str) and name.isidentifier():
            yield _Entry(name, raw, path)
        else:
            problems.add(path, "must be an object with an id")


_PLURALS: Final[Mapping[str, str]] = {
    "tz": "tzes", "alias": "aliases", "atus": "atuses", "campus": "campuses", "focus": "foci", "irus": "iri",
    "man": "men", "child": "children", "person": "people", "oot": "eet", "oose": "eese", "hello": "hellos", "io": "ios",
    "o": "oes", "adium": "adia", "dium": "diums", "ium": "ia", "atum": "ata", "va": "vae", "ula": "ulae", "sis": "ses",
    "ex": "ices", "x": "xes", "lf": "lves", "rf": "rves", "fe": "ves", "ch": "ches", "sh": "shes", "ss": "sses",
}  # fmt: skip
"""Ends of kinds with those of their plurals. The first that fits counts."""
_SAME: Final = ("s", "ata", "ia", "men", "people", "children", "eet", "eese", "li", "vae", "ulae")
"""Ends of kinds that are plurals already."""
_WORDS: Final = {"matrix": "matrices", "bus": "buses", "axis": "axes", "quiz": "quizzes", "photo": "photos"}
"""Kinds with a plural that follows no rule."""


def _pluralized(name: str) -> str:
    """Return the plural of a kind as kro forms it, so that the CRD is the one that a cluster with kro has."""
    if name in _WORDS:
        return _WORDS[name]
    for end, plural in _PLURALS.items():
        if name.endswith(end):
            return name.removesuffix(end) + plural
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return name if name.endswith(_SAME) else f"{name}s"


def _inferred(value: Any, environment: Environment) -> dict[str, Any]:
    """Return the schema of the status field `value`, derived from the types of its expressions."""
    if isinstance(value, Mapping):
        return {"type": "object", "properties": {key: _inferred(item, environment) for key, item in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _inferred(value[0], environment) if value else _schema_of(DYN)}
    if isinstance(value, str):
        try:
            found = text_parts(value)
            if len(found) == 1 and found[0].is_expression:
                return _schema_of(compile_expression(found[0].text, environment).type)
        except CelSyntaxError:
            return _schema_of(DYN)
        return {"type": "string"}
    return _schema_of(BOOL) if isinstance(value, bool) else {"type": "integer" if isinstance(value, int) else "number"}


def _schema_of(cel_type: CelType, depth: int = 0) -> dict[str, Any]:
    match cel_type.name:
        case "string" | "bytes" | "timestamp" | "duration":
            return {"type": "string"}
        case "int" | "uint":
            return {"type": "integer"}
        case "double":
            return {"type": "number"}
        case "bool":
            return {"type": "boolean"}
        case "optional":
            return _schema_of(cel_type.item, depth)
        case "list" if depth < 4:
            return {"type": "array", "items": _schema_of(cel_type.item, depth + 1)}
        case "map" if depth < 4:
            return {"type": "object", "additionalProperties": _schema_of(cel_type.item, depth + 1)}
    return {"x-kubernetes-preserve-unknown-fields": True, **({"type": "object"} if cel_type.fields is not None else {})}
