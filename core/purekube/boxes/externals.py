"""The compilation of a box's externals: how each is found, and what expressions read of it (PH-4)."""

from collections.abc import Iterable, Mapping, Sequence

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.problems import index
from purekube.boxes.box import ExternalNode
from purekube.boxes.entries import is_secret
from purekube.boxes.form_checks import is_worked_out, stays_at_home
from purekube.boxes.impersonation import ImpersonationRules
from purekube.boxes.model import BoxExternal, Power
from purekube.boxes.naming import origin_of
from purekube.boxes.problems import Findings
from purekube.boxes.schemas import KnownKind
from purekube.boxes.scoping import Variables
from purekube.boxes.taint import Origin
from purekube.boxes.template_compiler import TemplateCompiler
from purekube.cel import ITEM, STRING, VariablePath


@attrs.frozen(eq=False)
class Externals:
    """The compiler of the externals that a file names."""

    said: Sequence[BoxExternal]
    kinds: Mapping[str, KnownKind]
    """The known kinds by id."""
    variables: Variables
    templates: TemplateCompiler
    deputies: ImpersonationRules

    @property
    def _findings(self) -> Findings:
        return self.templates.findings

    def compiled(self) -> tuple[ExternalNode | None, ...]:
        """Return the externals in the order of the file; None for one whose kind is unknown."""
        return tuple(self._external(at, external) for at, external in enumerate(self.said))

    def _external(self, at: int, external: BoxExternal) -> ExternalNode | None:
        known, path = self.kinds.get(external.id), index("spec.externals", at)
        if known is None:
            return None
        of_self = self.variables.only("self")
        unknown = [name for name in external.metadata if name not in ("name", "namespace")]
        for field in unknown:
            self._findings.problem(f"{path}.metadata", f"{field}: an external is found by name and namespace alone")
        if "name" not in external.metadata:
            self._findings.problem(f"{path}.metadata", "name is required")
        elsewhere = known.kind.namespaced and not stays_at_home(external.metadata.get("namespace"))
        judge = self.deputies.of(known.kind, path, elsewhere=elsewhere).judge
        name = self.templates.template(external.metadata, f"{path}.metadata", of_self, wanted=STRING, judge=judge)
        own = attrs.evolve(self.variables, types={**self.variables.types, external.id: known.type})
        ready = self.templates.conditions(external.ready_when, f"{path}.readyWhen", own)
        return ExternalNode(
            id=external.id,
            kind=known.kind,
            place=self._findings.place(path),
            name=name,
            elsewhere=elsewhere,
            asks_namespace=is_worked_out(external.metadata.get("namespace")),
            must_agree=self._must_agree(external, known.kind),
            schema=known.schema,
            ready=ready,
            selector=external.selector,
            watch=not is_secret(known.kind) if external.watch is None else external.watch,
        )

    def _must_agree(self, external: BoxExternal, kind: Kind) -> bool:
        """Report whether consent is needed: a parent names the Secret, and is not trusted with Secrets."""
        chosen = origin_of(external.metadata.get("name")) is Origin.CHOSEN
        return is_secret(kind) and chosen and Power.SECRETS not in self.deputies.trusted

    def with_fields(self, at: int, external: ExternalNode, read: Iterable[VariablePath]) -> ExternalNode:
        """Return the external with the paths that all expressions of the box read of it."""
        said = self.said[at]
        below = {_field_path(variable_path[1:]) for variable_path in read if variable_path[0] == external.id}
        self._check_fields(said, index("spec.externals", at), below)
        below |= {tuple(field.split(".")) for field in said.fields}
        below |= {("metadata", "annotations")} if external.must_agree else set()
        return attrs.evolve(external, fields=tuple(sorted(below)))

    def _check_fields(self, external: BoxExternal, path: str, read: Iterable[VariablePath]) -> None:
        if not external.fields:
            return
        allowed = [tuple(field.split(".")) for field in external.fields]
        for variable_path in read:
            if variable_path[:1] != ("metadata",) and not any(
                variable_path[: len(prefix)] == prefix for prefix in allowed
            ):
                message = f"an expression reads {'.'.join(variable_path) or 'all of it'}, which is not listed here"
                self._findings.problem(f"{path}.fields", message)


def _field_path(path: VariablePath) -> VariablePath:
    """Return the part of a path that caches can keep: down to the first list."""
    return path[: path.index(ITEM)] if ITEM in path else path
