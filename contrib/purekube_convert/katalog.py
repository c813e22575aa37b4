"""The conversion of a Katalog (Orkestra's YAML file that describes operators) to boxes, which are purekube's.

Both layouts of a Katalog are read: all settings below `operatorBox`, and the sections `reconcile` and `emit`. Settings
for what a box does by default (workers, finalizers, owner references, events) are left out; settings without a
counterpart are reported as problems.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.formats import GO_DURATION, IDENTIFIER
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.problems import join
from purekube.boxes.model import API_VERSION
from purekube.boxes.schemas import Schemas
from purekube.cel.types import DYN, CelType
from purekube_convert.go_expressions import TemplateScope, Value, converted, expression_of_path, expression_of_text
from purekube_convert.go_template import TemplateError
from purekube_convert.katalog_conditions import KatalogConditions, conditions
from purekube_convert.katalog_resources import (
    ALIASES,
    FORMS,
    EntryContext,
    KatalogEntry,
    KatalogList,
    filled,
    is_true,
)
from purekube_convert.result import BoxPath, ConversionResult, ConvertedBox, Problems, type_of_definition

_SECTIONS: Final = ("reconcile", "emit", "runtime", "observe", "preReconcile")
_NEEDLESS: Final = frozenset(("default", "enabled", "description", "workers", "crdFile", "apiTypes", "namespaced"))
"""The keys of a Katalog that are not reported: a box does what they say by default, or they are read elsewhere."""

_REASONS: Final[Mapping[str, str]] = {
    "admission": "a box has `validation` and `mutation`: write the rules there",
    "autoscale": "is not converted: let a HorizontalPodAutoscaler scale it",
    "cross": "reads another operator's object: make it one of `externals`",
    "dependsOn": "orders the start of operators; in a box a resource has `dependsOn`",
    "events": "a box writes Events of its own",
    "external": "a box calls nothing outside the cluster",
    "forceConflict": "a box takes no field that another manager owns: it tells the conflict",
    "hooks": "code of Go is not converted",
    "constructor": "code of Go is not converted",
    "notes": "is not converted: write the expression where it is used",
    "observe": "a box watches its children and externals by itself",
    "preReconcile": "gates before the queue have no counterpart: write `when` on the resources",
    "remote": "a reconciler behind HTTP is not converted",
    "rotateAfter": "a box makes a generated value once",
    "sleep": "a box does not sleep",
    "watch": "a box watches its children and externals by itself",
    "fromSecret": "what it copies is another Secret's: name that one among `externals`",
    "fromNamespace": "copies from another namespace: make that one of `externals`",
    "fromConfigMap": "copies from another ConfigMap: make that one of `externals`",
    "toNamespaces": "copies to other namespaces: write one resource for each",
}
_CLEARED: Final = "it goes while no condition holds; Orkestra leaves what was there before"
_UNKNOWN: Final = "has no counterpart in a box"
_GENERATED: Final = re.compile(r"\{\{-?\s*random(?:Alphanumeric|Hex|Base64)\s+(\d{1,4})\s*-?\}\}")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TAKEN: Final = frozenset(("self", "children", "each", "in", "true", "false", "null", "v"))
_MOST: Final = 1_000
_DEEPEST: Final = 16
_LONGEST_NAME: Final = 512
"""The maximum length of a name in characters; longer names are cut."""


@attrs.frozen
class _Setting:
    """The value of one setting of an operator in a Katalog, and the setting's path in the Katalog."""

    value: Any
    path: str


@attrs.frozen
class _Declared:
    """One resource that a Katalog declares.

    `block` is its place, such as `onCreate`. `form` says how resources of its kind are written. `id` is its id in the
    box.
    """

    block: str
    form: KatalogList
    raw: Mapping[str, Any]
    path: str
    shared: _Setting
    """The gates `when` and `or` of the whole block."""
    id: str = ""

    @property
    def reconciled(self) -> bool:
        """True if the box keeps the resource up to date; False if the box only creates the resource."""
        return not self.form.once and (self.block == "onReconcile" or is_true(self.raw.get("reconcile")))


def convert_katalog(document: Mapping[str, Any], crds: Mapping[str, Mapping[str, Any]]) -> ConversionResult:
    """Convert a Katalog, in which Orkestra describes operators, to boxes: one for each operator.

    `crds` are the CRDs that the Katalog names, by file name.
    """
    problems = Problems()
    boxes = [_Katalog(name, place, said, crds, problems).box() for name, place, said in _entries(document, problems)]
    if not boxes:
        problems.add("", "declares no operatorBox")
    return ConversionResult(tuple(boxes), problems.all())


def _entries(document: Mapping[str, Any], problems: Problems) -> Iterator[tuple[str, str, dict[str, _Setting]]]:
    """Yield the name, the path and all settings of each operator in a Katalog.

    Add what cannot be converted to `problems`.
    """
    if isinstance(document.get("operatorBox"), Mapping):
        yield "", "operatorBox", _flat(document, "", problems)
        return
    spec = document.get("spec")
    declared = spec.get("crds") if isinstance(spec, Mapping) else None
    if not isinstance(declared, Mapping):
        return
    for key in spec if isinstance(spec, Mapping) else ():
        if key != "crds":
            problems.add(join("spec", str(key)), _REASONS.get(str(key), _UNKNOWN))
    for name, raw in declared.items():
        path = join("spec.crds", str(name))
        if isinstance(raw, Mapping):
            yield str(name), path, _flat(raw, path, problems)
        else:
            problems.add(path, "must be an object")


def _flat(raw: Mapping[str, Any], path: str, problems: Problems) -> dict[str, _Setting]:
    """Return the settings of one operator in a Katalog by key, wherever they are written.

    They may be next to `operatorBox`, in `operatorBox`, and in sections such as `reconcile`.
    """
    out: dict[str, _Setting] = {}
    pending = [(raw, path)]
    while pending:
        mapping, place = pending.pop(0)
        for key, value in mapping.items():
            at = join(place, str(key))
            if key == "operatorBox" or (key in _SECTIONS and isinstance(value, Mapping)):
                if isinstance(value, Mapping):
                    pending.append((value, at))
                else:
                    problems.add(at, "must be an object")
            elif place or key not in ("apiVersion", "kind", "metadata"):
                if str(key) in out and str(key) not in _NEEDLESS:
                    problems.add(at, f"is there twice: {out[str(key)].path} is not converted")
                out[str(key)] = _Setting(value, at)
    return out


class _Katalog:
    """One operator of a Katalog, during its conversion to a box."""

    def __init__(
        self,
        name: str,
        place: str,
        settings: dict[str, _Setting],
        crds: Mapping[str, Mapping[str, Any]],
        problems: Problems,
    ) -> None:
        self._place = place
        self._said = settings
        self._problems = problems
        self._notes: dict[BoxPath, str] = {}
        self._used: dict[str, str] = {}
        said_crd = self._take("crdFile")
        self._crd_file = str(said_crd.value or "")
        if "://" in self._crd_file:
            problems.add(said_crd.path, "is not a file: download it, and name the file")
        self._crd = crds.get(self._crd_file)
        self._name = name or _name_of(self._crd) or "box"
        self._parent = type_of_definition(self._crd)

    def _take(self, key: str) -> _Setting:
        """Return the operator's setting under a key, and mark the setting as read."""
        return self._said.pop(key, _Setting(None, ""))

    def box(self) -> ConvertedBox:
        """Return the box of this operator."""
        crd = self._crd_file or _installed(self._take("apiTypes").value)
        if crd is None:
            self._problems.add(self._place, "names no definition of its kind: write crdFile, or apiTypes")
        blocks = {block: self._block(block) for block in ("onCreate", "onReconcile", "onDelete")}
        declared = _named([entry for block in ("onCreate", "onReconcile") for entry in blocks[block]], self._used)
        known, unclear = _children(declared)
        scope = TemplateScope(self._parent, known, unclear=unclear)
        resources = [self._resource(entry, position, scope, declared) for position, entry in enumerate(declared)]
        spec = filled(
            crd=crd,
            resync=self._resync(),
            resources=resources,
            deletion=self._deletion(blocks["onDelete"], scope),
            status=self._status(scope),
        )
        self._report_unread()
        box = {"apiVersion": API_VERSION, "kind": "OperatorBox", "metadata": {"name": self._name}, "spec": spec}
        return ConvertedBox(self._name, box, None, self._notes)

    def _resync(self) -> str | None:
        said = self._take("resync")
        if said.value is not None and not re.fullmatch(GO_DURATION, str(said.value)):
            self._problems.add(said.path, "must be a length of time such as 60s or 5m")
            return None
        return None if said.value is None else str(said.value)

    def _report_unread(self) -> None:
        for key, said in self._said.items():
            if key not in _NEEDLESS or said.value is False:
                self._problems.add(said.path, _REASONS.get(key, _UNKNOWN))

    # --- resources ----------------------------------------------------------------------------------------------------

    def _block(self, block: str) -> list[_Declared]:
        said = self._take(block)
        raw, place = said.value, said.path
        if raw is None:
            return []
        if not isinstance(raw, Mapping):
            self._problems.add(place, "must be an object")
            return []
        shared = _Setting({key: raw[key] for key in ("when", "or") if key in raw}, place)
        out: list[_Declared] = []
        for key, listed in raw.items():
            path = join(place, str(key))
            name = ALIASES.get(str(key).lower(), str(key))
            if name in shared.value:
                continue
            if name != "custom" and name not in FORMS:
                self._problems.add(path, _REASONS.get(name, "is not converted: write its manifest as a template"))
            elif not isinstance(listed, list):
                self._problems.add(path, "must be a list")
            else:
                out += self._block_entries(block, name, listed, path, shared)
        return out

    def _block_entries(
        self, block: str, name: str, listed: list[Any], path: str, shared: _Setting
    ) -> Iterator[_Declared]:
        if len(listed) > _MOST:
            self._problems.add(f"{path}[{_MOST}]", f"is one too many: a list has at most {_MOST} entries")
        for position, raw in enumerate(listed[:_MOST]):
            at = f"{path}[{position}]"
            if not isinstance(raw, Mapping):
                self._problems.add(at, "must be an object")
                continue
            form = FORMS.get(name) or KatalogList(str(raw.get("apiVersion", "")), str(raw.get("kind", "")), "", _custom)
            yield _Declared(block, form, raw, at, shared)

    def _resource(
        self, entry: _Declared, position: int, scope: TemplateScope, declared: list[_Declared]
    ) -> dict[str, Any]:
        place: BoxPath = ("spec", "resources", position)
        loop = self._loop(entry, scope)
        if loop is not None:
            scope = attrs.evolve(scope, items=loop[1])
        generate = _generated(entry)
        reader = KatalogEntry(_without_drawn(entry.raw, generate), entry.path, scope, self._problems)
        reader.flag("reconcile")
        for key in ("forEach", "when", "or"):
            reader.take(key)
        name = reader.value("name", default=f"${{self.metadata.name}}{entry.form.suffix}")
        apply = self._apply(entry, reader, place, bool(generate))
        template = self._template(entry, reader, str(name), scope, declared)
        reader.report_unread(_REASONS)
        return filled(
            id=entry.id,
            **self._gates(entry, scope, place),
            forEach=loop[0] if loop else None,
            apply=apply,
            generate=generate,
            owner="Label" if get_path(template, "metadata", "namespace") is not None else None,
            template=template,
        )

    def _apply(self, entry: _Declared, reader: KatalogEntry, place: BoxPath, generated: bool) -> str | None:
        once = reader.flag("once")
        if entry.reconciled and not generated:
            return None
        if not entry.form.once and not once:
            self._notes[(*place, "apply")] = "onCreate without reconcile: made when it is missing, then left alone"
        return "IfAbsent"

    def _template(
        self,
        entry: _Declared,
        reader: KatalogEntry,
        name: str,
        scope: TemplateScope,
        declared: list[_Declared],
    ) -> dict[str, Any]:
        head = {"apiVersion": entry.form.api_version, "kind": entry.form.kind}
        if entry.form.build is _custom:
            return {**head, **_custom(reader, name, EntryContext())}
        namespace = reader.value("namespace")
        if namespace in ("${self.metadata.namespace}", None) or not entry.form.namespaced:
            namespace = None
        workloads = [other for other in declared if other.form.pods]
        shared = {"instance": "${self.metadata.name}"} if len(workloads) > 1 else {}
        pods = shared or {"app": _name_expression(workloads[0], scope)} if workloads else None
        body = entry.form.build(reader, name, EntryContext(pods, _only_service(declared, scope), shared))
        marks = {key: reader.mapping(key) for key in ("labels", "annotations")}
        meta = filled(name=name, namespace=namespace, **marks)
        return {**head, "metadata": meta, **body}

    # --- gates and loops ----------------------------------------------------------------------------------------------

    def _gates(self, entry: _Declared, scope: TemplateScope, place: BoxPath) -> dict[str, Any]:
        asked = self._asked(entry, scope)
        if not asked.when and not asked.any:
            return {}
        if asked.parent_only and entry.reconciled:
            self._notes[(*place, "includeWhen")] = "it goes when this turns false, as Orkestra's runtime has it"
            return {"includeWhen": [f"${{{asked.expression()}}}"]}
        if entry.reconciled:
            self._notes[(*place, "when" if asked.when else "any")] = (
                "a gate holds: what is there stays when it closes (Orkestra's runtime deletes it)"
            )
        return filled(when=[c.gate for c in asked.when], any=[c.gate for c in asked.any])

    def _loop(self, entry: _Declared, scope: TemplateScope) -> tuple[dict[str, str], dict[str, Value]] | None:
        raw = entry.raw.get("forEach")
        if raw is None:
            return None
        path = join(entry.path, "forEach")
        if not isinstance(raw, Mapping) or not isinstance(raw.get("field"), str):
            self._problems.add(path, "must be an object with a field")
            return None
        try:
            over = expression_of_path(raw["field"].removeprefix(".").split("."), scope)
        except TemplateError as error:
            self._problems.add(join(path, "field"), str(error))
            return None
        return _loop_over(over, str(raw.get("as", "item")), path, self._problems)

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _deletion(self, declared: list[_Declared], scope: TemplateScope) -> dict[str, Any] | None:
        resources = []
        for entry in _named(declared, {**self._used}):
            if entry.form.kind != "Job":
                self._problems.add(entry.path, "goes with its owner: a box deletes its children by itself")
                continue
            reader = KatalogEntry(entry.raw, entry.path, scope, self._problems)
            name = reader.value("name", default=f"${{self.metadata.name}}{entry.form.suffix}")
            for key in ("reconcile", "timeout", "when", "or"):
                reader.take(key)
            body = entry.form.build(reader, str(name), EntryContext())
            head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
            include = self._of_deletion(entry, scope)
            resources.append(filled(id=entry.id, includeWhen=include, template={**head, **body}))
            reader.report_unread(_REASONS)
        return {"phases": [{"resources": resources}]} if resources else None

    def _of_deletion(self, entry: _Declared, scope: TemplateScope) -> list[str]:
        """Return the conditions under which a Job runs before a deletion: a Job whose condition is false is left out,
        as in Orkestra.
        """
        asked = self._asked(entry, scope)
        if not asked.parent_only:
            self._problems.add(entry.path, "asks about children, which a box does not read once their owner goes")
            return []
        return [f"${{{asked.expression()}}}"] if asked != KatalogConditions() else []

    def _asked(self, entry: _Declared, scope: TemplateScope) -> KatalogConditions:
        """Return the conditions of a resource together with those of its block."""
        own = conditions(entry.raw, entry.path, scope, self._problems)
        return own.joined(conditions(entry.shared.value, entry.shared.path, scope, self._problems))

    def _status(self, scope: TemplateScope) -> dict[str, Any] | None:
        said = self._take("status")
        if said.value is None:
            return None
        entry = KatalogEntry(said.value if isinstance(said.value, Mapping) else {}, said.path, scope, self._problems)
        fields = entry.take("fields")
        out: dict[str, Any] = {}
        if isinstance(fields, Mapping):
            inner = KatalogEntry(fields, join(entry.path, "fields"), scope, self._problems)
            for key in fields:
                out[str(key)] = inner.value(str(key), _field_type(self._parent, str(key), ""))
        else:
            named: dict[str, list[KatalogEntry]] = {}
            for field in entry.entries("fields"):
                named.setdefault(str(field.take("path") or ""), []).append(field)
            for path, fields in named.items():
                out[path] = self._field(fields, path, scope)
        entry.report_unread(_REASONS)
        return {"fields": _nested({key: value for key, value in out.items() if key and value is not None})}

    def _field(self, entries: Sequence[KatalogEntry], path: str, scope: TemplateScope) -> Any:
        """Return the value of the status field at `path`.

        In Orkestra the last of the `entries` for this field whose conditions hold gives the value.
        """
        found, text = None, "optional.none()"
        for field in entries:
            given = {"int": "int", "float": "double", "bool": "bool"}.get(str(field.take("type")), "")
            desired = _field_type(self._parent, path, given)
            asked = conditions(field.raw, field.path, scope, self._problems)
            clears = field.flag("clearOnFalse")
            for key in ("when", "or"):
                field.take(key)
            plain, written = field.value("value", desired), field.printed(field.take("value"))
            field.report_unread(_REASONS)
            try:
                value = converted(expression_of_text(written, scope), desired)
            except TemplateError as error:
                self._problems.add(join(field.path, "value"), f"{written[:80]!r}: {error}")
                return None
            said = value.text if value.maybe else f"optional.of({value.text})"
            if asked == KatalogConditions():
                found, text = plain, said
                continue
            text = f"{asked.expression()} ? {said} : {text if len(entries) == 1 else f'({text})'}"
            found = f"${{{text}}}"
            if not clears:
                self._notes[("spec", "status", "fields", *path.split("."))] = _CLEARED
        return found


def _generated(entry: _Declared) -> dict[str, Any]:
    """Return the values of a Secret that the box generates once: `data.<key>` mapped to `{length: …}`, the length of
    the random text.
    """
    data = entry.raw.get("data")
    if entry.form.kind != "Secret" or not isinstance(data, Mapping):
        return {}
    found = ((key, _GENERATED.fullmatch(str(value).strip())) for key, value in data.items())
    return {f"data.{key}": {"length": int(match[1])} for key, match in found if match is not None}


def _without_drawn(raw: Mapping[str, Any], generated: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a Secret in a Katalog without the `data` keys in `generated`, which the box generates."""
    if not generated:
        return raw
    return {**raw, "data": {key: value for key, value in raw["data"].items() if f"data.{key}" not in generated}}


def _nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested objects for `fields`, a mapping from paths to values.

    A later field replaces an earlier one, as in Orkestra.
    """
    out: dict[str, Any] = {}
    for path, value in fields.items():
        *before, last = path.split(".")[:_DEEPEST]
        at = out
        for step in before:
            inner = at.get(step)
            at[step] = at = inner if isinstance(inner, dict) else {}
        at[last] = value
    return out


def _field_type(parent: CelType, path: str, given: str) -> str:
    """Return the type of the status field at `path`.

    The type in the CRD is preferred to `given`, the type in the Katalog.
    """
    at = parent
    for step in ("status", *path.split(".")):
        field = at.fields.get(step) if at.fields is not None else None
        if field is None:
            return given
        at = field.type
    return at.name if at.name in ("int", "double", "bool", "string") else given


def _name_of(crd: Mapping[str, Any] | None) -> str:
    spec = crd.get("spec") if crd else None
    names = spec.get("names") if isinstance(spec, Mapping) else None
    return str(names.get("singular") or str(names.get("kind", "")).lower()) if isinstance(names, Mapping) else ""


def _installed(types: Any) -> Any:
    """Return the box's reference to a CRD in the cluster, `{name: <plural>.<group>}`.

    `types` is the Katalog's `apiTypes` with the group and kind. Return None if it has no group.
    """
    if not isinstance(types, Mapping) or not types.get("group"):
        return None
    plural = types.get("plural") or f"{str(types.get('kind', '')).lower()}s"
    return {"name": f"{plural}.{types['group']}"}


def _custom(entry: KatalogEntry, _name: str, _around: EntryContext) -> dict[str, Any]:
    for key in ("apiVersion", "kind", "hasStatus", "status", "name"):
        entry.take(key)
    fields = [key for key in entry.raw if key not in ("reconcile", "when", "or", "forEach", "sleep", "forceConflict")]
    body = {
        str(key): entry.convert(entry.take(key), join(entry.path, str(key))) for key in fields if key not in entry.asked
    }
    meta = body.get("metadata")
    if isinstance(meta, dict):
        meta.pop("namespaced", None)
        if meta.get("namespace") == "${self.metadata.namespace}":
            meta.pop("namespace")
    return body


def _named(declared: list[_Declared], used: dict[str, str]) -> list[_Declared]:
    """Return the declared resources with unique ids, and add the ids to `used`.

    An object in both `onCreate` and `onReconcile` is returned only as the resource in `onReconcile`.
    """
    kept: dict[tuple[str, str], _Declared] = {}
    for entry in declared:
        kept[(entry.form.kind, _raw_name(entry.raw) or entry.path)] = entry
    kinds = [entry.form.kind for entry in kept.values()]
    out: list[_Declared] = []
    for entry in kept.values():
        desired = _id(entry, alone=kinds.count(entry.form.kind) == 1)
        chosen, number = desired, 2
        while chosen in used or chosen in _TAKEN:
            chosen, number = f"{desired}{number}", number + 1
        used[chosen] = entry.path
        out.append(attrs.evolve(entry, id=chosen))
    return out


def _raw_name(raw: Mapping[str, Any]) -> str:
    meta = raw.get("metadata")
    return str(raw.get("name") or (meta.get("name") if isinstance(meta, Mapping) else "") or "")[:_LONGEST_NAME]


def _id(entry: _Declared, *, alone: bool) -> str:
    """Return a short id for a resource: its kind if `alone` (no other resource has this kind), or else an id made from
    the object's name.
    """
    kind = entry.form.kind[:1].lower() + entry.form.kind[1:]
    words = re.findall(r"[A-Za-z0-9]+", re.sub(r"\{\{.*?\}\}", " ", _raw_name(entry.raw)))
    told = "".join(word.lower() if at == 0 else word.capitalize() for at, word in enumerate(words))
    desired = (kind, told) if alone else (told, kind)
    return next((text[:48] for text in desired if re.fullmatch(IDENTIFIER, text[:48])), "resource")


def _children(declared: list[_Declared]) -> tuple[dict[str, Value], dict[str, str]]:
    """Return two mappings for the keys by which templates name declared objects, such as `.children.deployment`.

    The first maps each clear key to the CEL expression for its object. The second maps each key that could mean several
    objects to a message that says why.
    """
    known: dict[str, Value] = {}
    unclear: dict[str, str] = {}
    for entry in declared:
        key = entry.form.kind.lower()
        same = [other for other in declared if other.form.kind == entry.form.kind]
        kind = Schemas().find(entry.form.api_version, entry.form.kind)
        found = kind.type if kind is not None else DYN
        if (raw := _raw_name(entry.raw)) and "{{" not in raw:
            known[f"{key}s.{raw}"] = Value(entry.id, found)
        if "forEach" in entry.raw:
            unclear[key] = f"there may be several: use the list {entry.id}"
        elif len(same) > 1:
            unclear[key] = f"there are {len(same)}, and Orkestra takes any of them: name one of {_ids(same)}"
        else:
            known[key] = Value(f"children.{key}", found)
    if "persistentvolumeclaim" in known:
        known["pvc"] = known["persistentvolumeclaim"]
    return known, unclear


def _ids(declared: list[_Declared]) -> str:
    return ", ".join(entry.id for entry in declared[:5])


def _name_expression(entry: _Declared, scope: TemplateScope) -> Any:
    reader = KatalogEntry(entry.raw, entry.path, scope, Problems())
    return reader.value("name", default=f"${{self.metadata.name}}{entry.form.suffix}")


def _only_service(declared: list[_Declared], scope: TemplateScope) -> tuple[str, Any] | None:
    services = [entry for entry in declared if entry.form.kind == "Service" and "forEach" not in entry.raw]
    if len(services) != 1:
        return None
    port = KatalogEntry(services[0].raw, services[0].path, scope, Problems()).value("port", "int")
    return (f"${{{services[0].id}.metadata.name}}", port)


def _loop_over(over: Value, name: str, path: str, problems: Problems) -> tuple[dict[str, str], dict[str, Value]] | None:
    """Return two mappings for a loop over `over`: the `forEach` of the box, and the loop's variables in CEL.

    The `forEach` has the list, and the key by which its items are identified. If they cannot be identified, add that to
    `problems` and return None.
    """
    variable = name if _IDENTIFIER.fullmatch(name) and name not in _TAKEN else "item"
    if over.type.name == "map" or over.type.fields is not None:
        keys = f"{over.sure.bare}.map(k, k).sort()"
        key, value = Value(variable), Value(f"{over.sure.bare}[{variable}]", over.type.item)
        return {variable: f"${{{keys}}}", "key": f"${{{variable}}}"}, {variable: key, "item": key, "value": value}
    item = over.type.item
    if item.fields is not None and "name" not in item.fields:
        problems.add(path, "the items have no field `name`: say in `key` what tells them apart")
        return None
    text = {"int": f"string({variable})"}.get(item.name) or (f"{variable}.name" if item.fields else variable)
    found = Value(variable, item)
    return {variable: f"${{{over.sure.text}}}", "key": f"${{{text}}}"}, {variable: found, "item": found}
