"""The compilation of the CEL rules in `x-kubernetes-validations`, with a problem for each invalid rule."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from purekube.cel import API_SERVER, CelSyntaxError, Environment, Limits, Program, compile_expression
from purekube.cel.types import BOOL, STRING, CelType, optional_of
from purekube.schema.celtypes import type_of_schema
from purekube.schema.node import CompiledRule, Schema
from purekube.schema.rules import needs_conversion

_LIMITS: Final = Limits(text=65_536, depth=200, steps=10_000_000, built_text=10_000_000, built_items=1_000_000)
"""The limits of a CEL rule in a CRD, far above the default limits of CEL expressions.

A real API server limits a rule's estimated cost instead.
"""
_REASONS: Final = frozenset(("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"))


def compile_rules(
    declared: Iterable[Mapping[str, Any]], node: Schema, *, root: bool, correlatable: bool = True
) -> tuple[tuple[CompiledRule, ...], list[tuple[int, str]]]:
    """Return the compiled rules of one schema node, and index and problem of each rule that cannot be compiled.

    `declared` are the rules as in `x-kubernetes-validations`. `root` says that the node describes a whole object, so
    that the rules can read its apiVersion, kind and metadata. `correlatable` says that a value of the node can be
    matched with its old value. It is False for items of a list that is not a map list. A transition rule (one that
    reads `oldSelf`) would never run there, so it is a problem.
    """
    rules: list[CompiledRule] = []
    problems: list[tuple[int, str]] = []
    typed = needs_conversion(node)
    declared_type = type_of_schema(node, root=root)
    for index, raw in enumerate(declared):
        try:
            rule = compile_rule(raw, declared_type, typed=typed)
            _check_place(rule, node, correlatable=correlatable)
            rules.append(rule)
        except CelSyntaxError as error:
            problems.append((index, f"{raw.get('rule')!r}: {error}"))
    return tuple(rules), problems


def _check_place(rule: CompiledRule, node: Schema, *, correlatable: bool) -> None:
    if rule.transition and not rule.optional_old and not correlatable:
        raise CelSyntaxError("oldSelf cannot be used on the uncorrelatable portion of the schema")
    for step in rule.field_path.split(".")[1:]:
        child = node.properties.get(step)
        if child is None:
            raise CelSyntaxError(f"fieldPath {rule.field_path!r} does not refer to a valid field")
        node = child
    if rule.field_path and not rule.field_path.startswith("."):
        raise CelSyntaxError(f"fieldPath {rule.field_path!r} must begin with a dot")


def compile_rule(raw: Mapping[str, Any], self_type: CelType, *, typed: bool) -> CompiledRule:
    """Compile one rule, `raw` in `x-kubernetes-validations`, for values of `self_type`. `typed` says that values must
    be converted before the rule runs.

    Raises CelSyntaxError if an expression or another field of the rule is invalid.
    """
    text = raw.get("rule")
    if not isinstance(text, str) or not text.strip():
        raise CelSyntaxError("rule is required")
    optional = bool(raw.get("optionalOldSelf"))
    program = _program(text, self_type, optional)
    if not program.type.fits(BOOL):
        raise CelSyntaxError(f"must evaluate to a bool, not to {program.type}")
    if "\n" in (raw.get("message") or ""):
        raise CelSyntaxError("message must not contain line breaks")
    # Without a message the rule itself would be the message, in several lines (apiextensions-apiserver:
    # pkg/apis/apiextensions/validation/validation.go).
    if "\n" in text.strip() and not (raw.get("message") or "").strip():
        raise CelSyntaxError("message must be specified if rule contains line breaks")
    reason = raw.get("reason") or "FieldValueInvalid"
    if reason not in _REASONS:
        raise CelSyntaxError(f"reason {reason!r} is none of {', '.join(sorted(_REASONS))}")
    transition = program.checked is not None and program.checked.uses("oldSelf")
    if optional and not transition:
        raise CelSyntaxError("optionalOldSelf is set but oldSelf is not used in rule")
    return CompiledRule(
        text=text.strip(),
        run=program.evaluate,
        message=(raw.get("message") or "").strip(),
        message_run=_message(raw.get("messageExpression"), self_type, optional),
        reason=reason,
        field_path=raw.get("fieldPath") or "",
        transition=transition,
        optional_old=optional,
        typed=typed,
    )


def _program(text: str, self_type: CelType, optional: bool) -> Program:
    old = optional_of(self_type) if optional else self_type
    return compile_expression(text, Environment({"self": self_type, "oldSelf": old}, API_SERVER, _LIMITS))


def _message(text: Any, self_type: CelType, optional: bool) -> Callable[[Mapping[str, Any]], Any] | None:
    if not text:
        return None
    program = _program(text, self_type, optional)
    if not program.type.fits(STRING):
        raise CelSyntaxError(f"messageExpression must evaluate to a string, not to {program.type}")
    return program.evaluate
