"""The compilation of a file's classes and the schemas of its kinds to a box, or to everything that is wrong (PH-6).

`examine` never raises for a box, whatever it contains: it returns problems, warnings and what could not be checked.
`compile_box` is for running it.
"""

from collections.abc import Sequence, Set

import attrs

from purekube.apimachinery.durations import seconds_of
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.places import NoPlaces, Places
from purekube.boxes.box import Box, BoxNode
from purekube.boxes.model import DeletionOrder, OperatorBox
from purekube.boxes.own_kind import OwnKind
from purekube.boxes.problems import BoxProblem, BoxProblems, Findings
from purekube.boxes.resources import Resources
from purekube.boxes.schemas import CrdVersions, Schemas
from purekube.cel import ITEM, VariablePath


@attrs.frozen(eq=False)
class Examination:
    """The result of an examination. `box` is set if nothing is wrong.

    `unchecked` are places whose types no schema gives; `untyped` are kinds without a schema.
    """

    box: Box | None
    problems: tuple[BoxProblem, ...] = ()
    warnings: tuple[BoxProblem, ...] = ()
    unchecked: tuple[str, ...] = ()
    untyped: tuple[str, ...] = ()
    expressions: int = 0


def compile_box(model: OperatorBox, crd: CrdVersions | None, schemas: Schemas, places: Places | None = None) -> Box:
    """Return the box, ready to be run. Raises BoxProblems with everything that is wrong."""
    found = examine(model, crd, schemas, places)
    if found.box is None:
        raise BoxProblems(found.problems)
    return found.box


def examine(model: OperatorBox, crd: CrdVersions | None, schemas: Schemas, places: Places | None = None) -> Examination:
    """Examine a box. `crd` is that of its own kind, None if it could not be read."""
    findings = Findings(NoPlaces() if places is None else places)
    if crd is None:
        findings.problem("spec.crd", "the CRD of the box's kind is not known: name its file, or give it with --crds")
        return Examination(None, findings.problems)
    resources = Resources.of(model, crd, schemas, findings)
    nodes = resources.compiled()
    drains = resources.drained()
    own = OwnKind.of(model, crd, resources)
    externals = resources.observed()
    box = Box(
        name=model.metadata.name,
        kind=crd.stored.kind,
        model=model,
        crd=crd.manifest,
        schema=crd.stored.schema,
        resync=seconds_of(model.spec.resync, otherwise=60.0),
        namespaces=model.spec.namespaces,
        nodes=nodes,
        drains=drains,
        externals=externals,
        strict_order=model.spec.deletion.order is DeletionOrder.STRICT,
        account=resources.account(),
        status_fields=own.fields,
        conditions=own.conditions,
        lists=resources.children.lists,
        rules=own.rules,
        mutations=own.mutations,
        versions=own.versions,
        secrets=resources.use_of_secrets(),
    )
    resources.check_status_circles(own.fields, own.conditions)
    all_nodes = (*nodes, *(node for phase in drains for node in phase))
    return Examination(
        box=None if findings.problems else box,
        problems=findings.problems,
        warnings=findings.warnings,
        unchecked=_islands(resources.expressions.unchecked),
        untyped=_untyped(all_nodes, [(external.kind, external.schema is None) for external in box.externals]),
        expressions=len(resources.expressions.made),
    )


def _islands(paths: Set[VariablePath]) -> tuple[str, ...]:
    """Return the places at which types become unknown, without the places below these."""
    first = (path for path in paths if not any(path[:length] in paths for length in range(1, len(path))))
    return tuple(sorted(".".join(path).replace(f".{ITEM}", ITEM) for path in first))


def _untyped(nodes: Sequence[BoxNode], externals: Sequence[tuple[Kind, bool]]) -> tuple[str, ...]:
    kinds = [(node.kind, node.schema is None) for node in nodes]
    return tuple(sorted({f"{kind.api_version} {kind.kind}" for kind, untyped in (*kinds, *externals) if untyped}))
