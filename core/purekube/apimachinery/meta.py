"""Object metadata and conditions, as every kind has them (RES-4), and references to other objects."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from purekube.apimachinery.fields import formed, schema_field
from purekube.apimachinery.formats import DNS_SUBDOMAIN, OBJECT_KEY
from purekube.apimachinery.manifest import Manifest, get_path


@attrs.frozen
class NameRef:
    """A reference to a Secret by name. The Secret is in the namespace of the object that holds the reference."""

    name: str = schema_field(
        "Name of the Secret.", schema={"minLength": 1, "maxLength": 253}, rules=[formed(DNS_SUBDOMAIN)]
    )


@attrs.frozen
class KeyRef:
    """A reference to one key of a Secret or ConfigMap, which is in the namespace of the object that holds the
    reference.
    """

    name: str = schema_field(
        "Name of the object.", schema={"minLength": 1, "maxLength": 253}, rules=[formed(DNS_SUBDOMAIN)]
    )
    key: str = schema_field("Key within it.", schema={"minLength": 1, "maxLength": 253}, rules=[formed(OBJECT_KEY)])


@attrs.frozen
class ObjectName:
    """A reference to an object by namespace and name. Its kind follows from the field that holds the reference."""

    name: str = schema_field("Name.")
    namespace: str = schema_field("Namespace.")


class ConditionStatus(StrEnum):
    """The three values a condition's status can have."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@attrs.frozen
class Condition:
    """A standard condition. `last_transition_time` (RFC 3339, whole seconds) moves only with `status`.

    `reason_transition_time` is set where that does not show when this status and reason began: after a change of the
    reason alone, and after two changes within a second.
    """

    # The bounds are those of metav1.Condition (apimachinery: pkg/apis/meta/v1/types.go).
    type: str = schema_field("Type of condition in CamelCase.", schema={"maxLength": 316})
    status: ConditionStatus = schema_field("True, False or Unknown.")
    reason: str = schema_field("Programmatic reason in CamelCase.", schema={"maxLength": 1024, "minLength": 1})
    message: str = schema_field("Human-readable details.", default="", schema={"maxLength": 32768})
    last_transition_time: str = schema_field(
        "When the status last changed.", default="", schema={"format": "date-time"}
    )
    observed_generation: int | None = schema_field(
        "Generation the condition was decided from.", default=None, schema={"format": "int64", "minimum": 0}
    )
    reason_transition_time: str | None = schema_field(
        "When the reason last changed, where the status did not change with it.",
        default=None,
        schema={"format": "date-time"},
    )


def condition_json(condition: Condition) -> dict[str, Any]:
    """Return the condition as JSON for an apply configuration.

    Even an empty field is present, except `reasonTransitionTime`, so that equal conditions are equal JSON.
    """
    body = {
        "type": str(condition.type),
        "status": str(condition.status),
        "reason": str(condition.reason),
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
        "observedGeneration": condition.observed_generation,
    }
    since = condition.reason_transition_time
    return body if since is None else {**body, "reasonTransitionTime": since}


@attrs.frozen
class OwnerReference:
    """One entry of an object's `metadata.ownerReferences`, which names an owner of the object."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


@attrs.frozen
class ObjectMeta:
    """The part of metadata that reconcilers read. Times are RFC 3339 text as the server sent them."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Mapping[str, str] = attrs.field(factory=dict)
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


ABANDON: Final = "vworkspace.io/abandon"
APPLIED_HASH: Final = "vworkspace.io/applied-hash"
"""The annotation with the hash of the content that was last applied to an object.

Every object that is applied from a dependency graph has it. Such a graph has the children of one parent object, and
what these depend on.
"""


def is_abandoned(meta: ObjectMeta) -> bool:
    """Report whether the annotation `vworkspace.io/abandon` (`ABANDON`) in the metadata `meta` is "true".

    With it the user asks that the finalizer be removed without an uninstall (RES-5).
    """
    return meta.annotations.get(ABANDON) == "true"


def names_in(manifest: Manifest | None, annotation: str) -> frozenset[str]:
    """Return the comma-separated names in an annotation. The result is empty if the object lacks the annotation."""
    text = get_path(manifest, "metadata", "annotations", annotation)
    return frozenset(part.strip() for part in text.split(",") if part.strip()) if isinstance(text, str) else frozenset()


def selects_labels(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Report whether a LabelSelector (`matchLabels` and `matchExpressions`) matches these labels.

    An empty selector matches all labels, and an expression with an unknown operator none.
    """
    match_labels, asked = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in match_labels.items()) and all(
        _holds(match_expression, labels) for match_expression in asked
    )


def _holds(asked: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    key, values = str(asked.get("key")), asked.get("values") or ()
    match asked.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
