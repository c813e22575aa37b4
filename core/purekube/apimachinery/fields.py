"""Fields of our own kinds: one declaration gives the attribute, its JSON name, its schema and its documentation.

The CRD generator, the admission checks and the strict validation read what `schema_field` recorded (RES-6: the classes
are the single source). JSON names are the attribute names in camelCase. Rules of a whole object are in its class as
`CEL_RULES: ClassVar[tuple[CelRule, ...]]`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from purekube.apimachinery.formats import FORMS, Form


@attrs.frozen
class CelRule:
    """A rule for a field, evaluated as CEL by the API server and in Python by our own admission checks (RES-6).

    `rule` is the CEL text, an entry of `x-kubernetes-validations`. `holds(value, old)` is the same rule for attrs
    values. A transition rule mentions `oldSelf` and is evaluated only if a previous value exists; for other rules `old`
    is None. `field_path` (such as `.chart`) is the invalid field, relative to the object that carries the rule.
    `message` is shown if the rule is broken. Our own checks show the result of `message_of(value)` instead, if that
    function is given.
    """

    rule: str
    message: str
    holds: Callable[[Any, Any], bool] = attrs.field(eq=False, repr=False)
    field_path: str = ""
    reason: str = "FieldValueInvalid"
    message_of: Callable[[Any], str] | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def is_transition(self) -> bool:
        """True if the rule compares the value with its previous one (`oldSelf`)."""
        return "oldSelf" in self.rule

    def refusal(self, value: Any) -> str:
        """Return the message that refuses this particular `value`. (The API server's message is always `message`, for
        any value.)
        """
        return self.message if self.message_of is None else self.message_of(value)


def formed(form: Form | str, *, example: str = "", of: str = "") -> CelRule:
    """Return a rule that requires a string to have a form, such as the form of a DNS name.

    The message describes the form in words instead of showing the pattern. `form` is a Form, or a pattern in `FORMS`.
    `example` replaces the example that the form gives for the message. `of` is empty for a rule of the text's own
    field. For a rule of a whole object, `of` names the field that has the text; the API server then does not repeat the
    text in its message.
    """
    known = form if isinstance(form, Form) else FORMS[form]
    known = attrs.evolve(known, example=example) if example else known
    in_cel = known.pattern.replace("\\", "\\\\").replace("'", "\\'")
    return CelRule(
        f"self{f'.{of}' if of else ''}.matches('{in_cel}')",
        known.message,
        holds=lambda new, _: known.fits(getattr(new, of) if of else new),
        field_path=f".{of}" if of else "",
        message_of=lambda new: known.refusal(getattr(new, of) if of else new),
    )


def immutable() -> CelRule:
    """Return the rule that a field may not change once it is set."""
    return CelRule("self == oldSelf", "is immutable", holds=lambda new, old: bool(new == old))


def camel(name: str) -> str:
    """Return the JSON name of an attribute: `service_account_name` becomes `serviceAccountName`."""
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in tail)


def schema_field(
    doc: str,
    *,
    default: Any = attrs.NOTHING,
    schema: Mapping[str, Any] | None = None,
    rules: Sequence[CelRule] = (),
    publish_default: bool = False,
    secret: bool = False,
) -> Any:
    """Return an attrs field that also knows its OpenAPI schema.

    `doc` becomes the description. `schema` is merged over the schema that the type implies (pattern, maxLength, list
    type, …). `rules` become CEL rules of this field. `publish_default` writes the default into the CRD, so that the API
    server fills it in. A field without a default is required. A `secret` field is not shown in a `repr`.
    """
    meta = {"doc": doc, "schema": dict(schema or {}), "rules": tuple(rules), "publish_default": publish_default}
    return attrs.field(default=default, metadata=meta, repr=not secret)


def observed_generation_field() -> Any:
    """Return the field `observedGeneration` of a status: the `metadata.generation` from which the status was decided
    (REC-7).
    """
    return schema_field("metadata.generation the status was decided from.", default=None, schema={"format": "int64"})


def observed_request_field() -> Any:
    """Return the field `observedRequest` of a status, which identifies the last request that the status takes into
    account.

    A request is a job of the control plane (the server that offers jobs), with the retry that the job asks for, if any.
    The generation cannot show this, since a request may arrive without a new generation (PULL-3).
    """
    return schema_field(
        "Stands for the last request that the status was decided with: the job's key and the retry it asks for.",
        default=None,
        schema={"maxLength": 64},
    )


def conditions_field() -> Any:
    """Return the field `conditions` of a status: a list that is keyed by the condition's type (RES-4)."""
    schema = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return schema_field("Conditions by type.", default=(), schema=schema)
