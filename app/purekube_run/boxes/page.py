"""The documentation of a box's kind for its users, in Markdown: fields, created objects, readiness, conditions."""

from collections.abc import Iterable, Iterator, Sequence

from purekube.apimachinery.resources import Access, resources
from purekube.boxes.box import Box, BoxNode
from purekube.boxes.decision.decide import access_of, owners
from purekube.boxes.model import ApplyMode
from purekube.graph.node import Removal
from purekube.schema.node import MISSING, JsonType, Schema
from purekube_run.boxes.box_drawing import mermaid

_ENGINE = (
    ("Ready", "everything that should exist is there and healthy; the message names what is not"),
    ("Reconciling", "something is still being made, or waited for"),
    ("Stalled", "only a change from outside can help: of the object, of the box, or of the cluster"),
)


def page(box: Box) -> str:
    """Return the documentation of a box's kind as a Markdown page."""
    conditions = [(condition.type, f"`{condition.status.program.text}`") for condition in box.conditions]
    parts = [
        f"# {box.kind.kind}",
        f"`{box.kind.api_version}`, made by the box `{box.name}`.",
        "## Fields",
        *_field_table("spec", box.schema),
        "## What is made",
        _table(("id", "kind", "name", "what is special"), map(_resource, box.nodes)),
        *_externals(box),
        "## In which order",
        f"```mermaid\n{mermaid(box)}```",
        *_when_conditions(box),
        "## Status",
        *_field_table("status", box.schema),
        _table(("condition", "true when"), [*_ENGINE, *conditions]),
        *_rules(box),
        *_deletion(box),
        *_rights(box),
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _field_table(part: str, schema: Schema | None) -> Iterator[str]:
    below = None if schema is None else schema.properties.get(part)
    rows = [] if below is None else list(_fields(below, part))
    yield _table(("field", "type", "must be given", "default"), rows) if rows else "No schema tells about them."


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, str, str, str]]:
    for name, child in schema.properties.items():
        if path == "status" and name == "conditions":
            continue
        default = "" if child.default is MISSING else f"`{child.default}`"
        yield f"`{path}.{name}`", _type(child), "yes" if name in schema.required else "", default
        inner = child.items if child.type is JsonType.ARRAY else child
        if inner is not None:
            yield from _fields(inner, f"{path}.{name}{'[]' if inner is not child else ''}")


def _type(schema: Schema) -> str:
    if schema.int_or_string:
        return "integer or string"
    if schema.type is JsonType.ARRAY and schema.items is not None:
        return f"list of {_type(schema.items)}"
    checks = schema.checks
    if checks is not None and checks.enum:
        return f"one of {', '.join(map(str, checks.enum))}"
    return str(schema.type) or "any"


def _resource(node: BoxNode) -> tuple[str, str, str, str]:
    metadata = node.template.raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return node.id, f"{node.kind.kind} ({node.kind.api_version})", f"`{name}`", "; ".join(_special(node))


def _special(node: BoxNode) -> Iterator[str]:
    if node.iteration is not None:
        yield f"one for each of `{node.iteration.items.program.text}`"
    if node.include:
        yield "only where " + " and ".join(f"`{one.program.text}`" for one in node.include)
    if node.apply is ApplyMode.ONCE:
        yield "created once, then left alone"
    elif node.apply is ApplyMode.IF_ABSENT:
        yield "created when it is missing, then left alone"
    if node.generate:
        yield f"drawn: {', '.join(field.path for field in node.generate)}"
    if node.ready:
        yield "ready when " + " and ".join(f"`{one.program.text}`" for one in node.ready)
    if node.on_delete is Removal.ORPHAN:
        yield "stays when its owner goes"


def _externals(box: Box) -> Iterator[str]:
    if box.externals:
        rows = [(one.id, one.kind.kind, f"`{one.name.raw.get('name')}`", _read(one.fields)) for one in box.externals]
        yield "Read, and never written:"
        yield _table(("id", "kind", "name", "fields that are read"), rows)


def _read(fields: Iterable[Sequence[str]]) -> str:
    return ", ".join(f"`{'.'.join(field) or 'all of it'}`" for field in fields)


def _when_conditions(box: Box) -> Iterator[str]:
    rows = [
        (node.id, gate.phase, f"`{gate.shown}`", "no" if gate.is_choice else "yes")
        for node in box.nodes
        for gate in node.when_conditions
    ]
    if rows:
        yield _table(("resource", "phase", "acted on when", "keeps from Ready"), rows)


def _rules(box: Box) -> Iterator[str]:
    if box.rules:
        yield "## Rules"
        yield _table(("rule", "message"), [(f"`{rule.rule}`", rule.message) for rule in box.rules])
    if box.mutations:
        yield "Filled in where absent:"
        filled = [(f"`{'.'.join(mutation.path)}`", f"`{mutation.value.raw}`") for mutation in box.mutations]
        yield _table(("field", "value"), filled)


def _deletion(box: Box) -> Iterator[str]:
    yield "## Deletion"
    first = [node.id for phase in box.drains for node in phase]
    ends = "runs to its end" if len(first) == 1 else "run to their end"
    before = f"First {', '.join(first)} {ends}. Then objects" if first else "Objects"
    yield f"{before} are deleted in the reverse order of their creation."


def _rights(box: Box) -> Iterator[str]:
    """Yield the page's section about rights, with the verbs in the roles that `box rbac` prints."""
    access = access_of([box])
    parts = [
        ("everywhere", (*access.everywhere, *owners([box]))),
        ("where its objects are", access.tenant),
        ("in the operator's namespace", access.own),
    ]
    yield "## Rights"
    yield "What the operator may do, and no more; `box rbac` prints the roles."
    yield _table(("where", "resource", "verbs"), [row for where, given in parts for row in _verbs(where, given)])


def _verbs(where: str, given: Iterable[Access]) -> Iterator[tuple[str, str, str]]:
    for (group, resource, _), verbs in sorted(resources(given).items()):
        yield where, f"`{resource}`{f' ({group})' if group else ''}", ", ".join(sorted(verbs))
