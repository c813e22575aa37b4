"""The kind OperatorBox, by which a box is applied to a cluster: its CRD, and the classes of its status (PH-10)."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.definitions import AGE, OPERATOR_BOX, Column, Definition, condition_path
from purekube.apimachinery.fields import conditions_field, observed_generation_field, schema_field
from purekube.apimachinery.meta import Condition
from purekube.apimachinery.openapi import object_schema
from purekube.boxes.model import BoxSpec, OperatorBox

_FREE: Final = "x-kubernetes-preserve-unknown-fields"


@attrs.frozen
class AppliedProblem:
    """A problem of the definition."""

    path: str = schema_field("The field.", default="")
    message: str = schema_field("The problem, and what to write instead.", default="")


@attrs.frozen
class RolloutStatus:
    """The numbers of objects in the roll-out of the target revision, for the status of an applied box."""

    total: int = schema_field("Objects that take part.", default=0)
    moved: int = schema_field("Objects at the target.", default=0)
    ready: int = schema_field("Objects at the target that are Ready.", default=0)
    failed: int = schema_field("Objects at the target that failed.", default=0)
    waiting: int = schema_field("Objects that have yet to move.", default=0)
    pinned: int = schema_field("Objects that keep a revision by annotation.", default=0)


@attrs.frozen
class RefusedParent:
    """An object for which the newest revision would be refused."""

    object: str = schema_field("Kind, namespace and name.", default="")
    message: str = schema_field("Why.", default="")


@attrs.frozen
class JudgementStatus:
    """The result of dry runs of a revision over the objects that would move to it, before the first object moves."""

    revision: str = schema_field("The revision that was judged.", default="")
    objects: int = schema_field("How many objects it was judged over.", default=0)
    creates: int = schema_field("Children that a first pass creates.", default=0)
    changes: int = schema_field("Children that a first pass changes.", default=0)
    deletes: int = schema_field("Children that a first pass deletes.", default=0)
    deletes_afterwards: int = schema_field("Children that a pass deletes once the rest is Ready.", default=0)
    refused: int = schema_field("Objects for which a write would be refused; above 0 nothing moves.", default=0)
    refusals: tuple[RefusedParent, ...] = schema_field("The first ten of them.", default=())


@attrs.frozen
class AppliedBoxStatus:
    """The status of an applied box."""

    observed_generation: int | None = observed_generation_field()
    conditions: tuple[Condition, ...] = conditions_field()
    kind: str = schema_field("The kind of its objects.", default="")
    objects: int = schema_field("How many there are.", default=0)
    ready: int = schema_field("How many of them are Ready at their revision.", default=0)
    revision: str = schema_field("The revision that objects move to.", default="")
    rollout: RolloutStatus = schema_field("The roll-out of that revision.", default=RolloutStatus())
    judgement: JudgementStatus | None = schema_field("What that revision does to objects, by dry runs.", default=None)
    problems: tuple[AppliedProblem, ...] = schema_field("Problems of the definition.", default=())
    counted_at: str = schema_field("When objects were last counted.", default="", schema={"format": "date-time"})


COLUMNS: Final = (
    Column("Accepted", condition_path("Accepted", "status")),
    Column("Kind", ".status.kind"),
    Column("Objects", ".status.objects", "integer"),
    Column("Ready", ".status.ready", "integer"),
    Column("Revision", ".status.revision"),
    Column("RolledOut", condition_path("RolledOut", "reason")),
    AGE,
)


def applied_box_definition() -> dict[str, Any]:
    """Return the CRD of OperatorBox. Its schema is structural: a field with several forms accepts any content."""
    description = (OperatorBox.__doc__ or "").strip()
    spec, status = _structural(object_schema(BoxSpec)), object_schema(AppliedBoxStatus)
    return Definition(OPERATOR_BOX, description, spec, status, COLUMNS).manifest()


def _structural(schema: Mapping[str, Any]) -> dict[str, Any]:
    described = {"description": schema["description"]} if "description" in schema else {}
    if "anyOf" in schema:
        return {**described, _FREE: True}
    if "additionalProperties" in schema:
        return {**described, "type": "object", _FREE: True}
    out = dict(schema)
    if "properties" in schema:
        out["properties"] = {name: _structural(child) for name, child in schema["properties"].items()}
    if "items" in schema:
        out["items"] = _structural(schema["items"])
    return out
