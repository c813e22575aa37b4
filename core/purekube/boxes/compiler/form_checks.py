"""The checks of a resource as a whole: its metadata, its owner, and settings that contradict each other (PH-6)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.problems import index
from purekube.boxes.box import Iteration
from purekube.boxes.compiler.entries import Entry, apply_mode, is_secret, stays_at_home
from purekube.boxes.compiler.scoping import Variables, read_by
from purekube.boxes.expressions import BoxExpression
from purekube.boxes.model import ApplyMode, BoxResource, OwnerMode, PhaseOn
from purekube.boxes.read import Findings, no_such
from purekube.boxes.templates import Template

_SERVERS: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp")
"""Fields of metadata that only the API server writes."""
_CHANGING: Final = frozenset(("resourceVersion", "managedFields", "generation"))
"""Fields of metadata that change on every write: a name that contained one would make a new object in each reconcile.
"""
_OWN_DOMAIN: Final = "box.vworkspace.io/"
_OPERAND: Final = re.compile(r"[A-Za-z_][\w.]*")
"""The pattern of an expression that is only the path of a field, so that `!` before it negates the whole expression."""


@attrs.frozen(eq=False)
class FormChecks:
    """The checks of a box's resources that need no types of expressions. Errors and warnings are added to `findings`.

    `names` are the ids of the externals (objects that the box only reads) and of the resources that exist as long as
    the parent (object of the box's kind) does.
    """

    findings: Findings
    parent: Kind
    names: frozenset[str]

    def check_form(self, entry: Entry, kind: Kind) -> None:
        """Add to `findings` the errors in a resource's metadata, status, owner reference and settings.

        `entry` is the resource as written in the file, and `kind` the kind of its object.
        """
        resource, path, raw = entry.resource, entry.template_path, entry.resource.template
        metadata = raw.get("metadata")
        if not isinstance(metadata, Mapping):
            self.findings.problem(f"{path}.metadata", "is required, with a name")
            return
        if "name" not in metadata:
            hint = ": generateName would make a new object in each pass" if "generateName" in metadata else ""
            self.findings.problem(f"{path}.metadata", f"name is required{hint}")
        for field in (name for name in _SERVERS if name in metadata):
            self.findings.problem(f"{path}.metadata.{field}", "is written by the API server alone")
        if "ownerReferences" in metadata:
            self.findings.problem(f"{path}.metadata.ownerReferences", "are written for you; see `owner`")
        if "status" in raw:
            self.findings.problem(f"{path}.status", "is what its controller writes: a template cannot")
        self._check_marks(metadata, path)
        self._check_owner(entry, kind, metadata)
        self._check_generated(entry, kind)
        self._check_rolled(entry)
        if resource.reconcile and (entry.phase is None or entry.phase.on is not PhaseOn.CREATE):
            self.findings.warning(f"{entry.path}.reconcile", "says nothing outside a phase with `on: create`")

    def _check_marks(self, metadata: Mapping[str, Any], path: str) -> None:
        for part in ("labels", "annotations"):
            given = metadata.get(part)
            for name in given if isinstance(given, Mapping) else ():
                if isinstance(name, str) and name.startswith(_OWN_DOMAIN):
                    self.findings.problem(
                        f"{path}.metadata.{part}", f"{name}: names below {_OWN_DOMAIN} are the engine's"
                    )

    def _check_owner(self, entry: Entry, kind: Kind, metadata: Mapping[str, Any]) -> None:
        parent, namespace = self.parent, metadata.get("namespace")
        path = f"{entry.template_path}.metadata"
        if namespace is not None and not kind.namespaced:
            self.findings.problem(f"{path}.namespace", f"{kind.kind} lives in no namespace")
        if kind.namespaced and not parent.namespaced and namespace is None:
            message = f"namespace is required: a {parent.kind} lives in no namespace that could be taken"
            self.findings.problem(path, message)
        elsewhere = kind.namespaced and not stays_at_home(namespace)
        outside = parent.namespaced and (not kind.namespaced or elsewhere)
        if outside and entry.resource.owner is OwnerMode.REFERENCE:
            message = "an owner reference cannot leave the namespace: write `owner: Label` at the resource"
            self.findings.problem(path, message)

    def _check_generated(self, entry: Entry, kind: Kind) -> None:
        if not entry.resource.generate.fields:
            return
        path = f"{entry.path}.generate"
        if apply_mode(entry) is ApplyMode.ALWAYS:
            message = "what is drawn is drawn once: write `apply: IfAbsent`, or `apply: Once`"
            self.findings.problem(path, message)
        for field in entry.resource.generate.fields:
            if not is_secret(kind) or field.path.partition(".")[0] not in ("data", "stringData"):
                self.findings.problem(path, f"{field.path}: only data of a Secret can be drawn, such as data.password")

    def _check_rolled(self, entry: Entry) -> None:
        for at, name in enumerate(entry.resource.roll_on):
            where = index(f"{entry.path}.rollOn", at)
            if name not in self.names:
                self.findings.problem(where, no_such(name, self.names))
            elif name == entry.id:
                self.findings.problem(where, f"{name} cannot be rolled on itself")
        if entry.resource.roll_on and not isinstance(get_path(entry.resource.template, "spec", "template"), Mapping):
            message = "the resource has no spec.template, whose annotations the hash would go to"
            self.findings.problem(f"{entry.path}.rollOn", message)

    def check_name(self, entry: Entry, template: Template, inside: Variables, iteration: Iteration | None) -> None:
        """Report a problem if the object name of the resource `entry` depends on a field which changes on every write,
        such as resourceVersion.

        `template` is the resource's compiled template, `inside` has the variables that it may read, and `iteration` is
        the resource's `forEach`, if it has one.
        """
        prefix = f"{entry.template_path}.metadata.name"
        made = [expression for expression in template.expressions if expression.place.path.startswith(prefix)]
        made += [iteration.key] if iteration is not None else []
        for expression in made:
            for path, _ in read_by(expression, inside):
                if "metadata" in path and _CHANGING.intersection(path):
                    field = next(step for step in path if step in _CHANGING)
                    message = (
                        f"{field} changes when the object is written: a name made of it is a new object in each pass"
                    )
                    self.findings.problem(expression.place.path, message)

    def warn_of_volatile(self, entry: Entry, kind: Kind, include: Sequence[BoxExpression], others: Variables) -> None:
        """Warn if `includeWhen` of the resource `entry` reads the status of an object.

        The resource's own object might then be created and deleted repeatedly. `kind` is the kind of that object.
        `include` are the expressions of `includeWhen`, and `others` the variables that they may read.
        """
        for at, expression in enumerate(include):
            if any("status" in path[1:3] for path, _ in read_by(expression, others)):
                message = (
                    f"includeWhen reads a status: the {kind.kind} comes and goes with it; `when` would hold instead"
                )
                self.findings.warning(index(f"{entry.path}.includeWhen", at), message)

    def check_twice(self, living: Iterable[Entry]) -> None:
        """Report as a problem two resources among `living` that write the same object, since they would overwrite each
        other.

        `living` has the resources that exist as long as the parent (object of the box's kind) does. Two resources are
        allowed if `includeWhen` of one negates that of the other, since only one of them exists at a time.
        """
        seen: dict[tuple[str, ...], list[Entry]] = {}
        for entry in living:
            raw = entry.resource.template
            named = [get_path(raw, "metadata", part) for part in ("namespace", "name")]
            if entry.resource.for_each is not None or not isinstance(named[1], str):
                continue
            key = (str(raw.get("apiVersion")), str(raw.get("kind")), str(named[0]), named[1])
            others = seen.setdefault(key, [])
            twice = next((other for other in others if not _are_exclusive(entry.resource, other.resource)), None)
            if twice is not None:
                message = f"is the object that {twice.id} writes already: give it another name"
                self.findings.problem(f"{entry.template_path}.metadata.name", message)
            others.append(entry)


def _are_exclusive(one: BoxResource, other: BoxResource) -> bool:
    """Report whether two resources never exist together, because an `includeWhen` of one negates an `includeWhen` of
    the other.
    """
    texts, others = ({_plain(text) for text in each.include_when} for each in (one, other))
    return any(_negated(text) in others for text in texts)


def _plain(text: str) -> str:
    """Return an expression without its braces and outer blanks."""
    return text.strip().removeprefix("${").removesuffix("}").strip()


def _negated(text: str) -> str:
    """Return the negation of an expression that is a field's path: `!x` for `x`, and `x` for `!x`. Return "" for any
    other expression.
    """
    if _OPERAND.fullmatch(text):
        return f"!{text}"
    return text[1:] if text.startswith("!") and _OPERAND.fullmatch(text[1:]) else ""
