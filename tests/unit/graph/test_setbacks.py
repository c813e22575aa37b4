"""What a refused write means for an object, and when it is tried again (REC-8, REC-13, PH-2)."""

import itertools
import json
import shlex

import pytest

from purekube.apimachinery.errors import (
    AlreadyExists,
    Conflict,
    FieldConflict,
    Forbidden,
    Invalid,
    KindMissing,
    NotFound,
    OperatorError,
    Permanent,
    Stale,
    StatusCause,
    Unauthorized,
    Unavailable,
)
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import CONFIG_MAP
from purekube.controller.decision import Failure, Requeue, RequeuePace
from purekube.graph.states import NodeState, earliest_requeue, is_immutable, setback

REF = ObjectRef(CONFIG_MAP, "team", "a")
RIGHT = 'User "u" cannot patch resource "configmaps" in API group "" in the namespace "team"'
HELD = Conflict("held", (FieldConflict("kubectl-edit", ".data.a"),))

TABLE: list[tuple[OperatorError, NodeState, str, RequeuePace]] = [
    (HELD, NodeState.CONFLICT, "FieldConflict", RequeuePace.SLOW),
    (Invalid("wrong"), NodeState.REFUSED, "Invalid", RequeuePace.NONE),
    (KindMissing("not served"), NodeState.MISSING_KIND, "MissingKind", RequeuePace.SLOW),
    (Forbidden(RIGHT), NodeState.DENIED, "Forbidden", RequeuePace.REFUSED),
    (Forbidden("a quota"), NodeState.DENIED, "Forbidden", RequeuePace.SLOW),
    (Unauthorized("who"), NodeState.DENIED, "Forbidden", RequeuePace.SLOW),
    (Permanent("redirected"), NodeState.REFUSED, "Refused", RequeuePace.SLOW),
    (NotFound("no namespace"), NodeState.RETRYING, "NotFound", RequeuePace.SLOW),
    (AlreadyExists("there"), NodeState.RETRYING, "AlreadyExists", RequeuePace.BACKOFF),
    (Unavailable("busy"), NodeState.RETRYING, "Unavailable", RequeuePace.BACKOFF),
    (Stale("moved on"), NodeState.RETRYING, "Stale", RequeuePace.IMMEDIATE),
]


def test_a_conflict_ends_with_the_whole_command_that_hands_the_fields_back_REC_8() -> None:
    """The message was cut at 1 KiB: half a command has an open quote, and hands nothing back."""
    names = [f"controller-{number}" for number in range(6)]
    entries = [{"manager": name, "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}} for name in names]
    live = {**CONFIG_MAP.manifest("a", "team"), "metadata": {"name": "a", "managedFields": entries}}
    fields = [FieldConflict(name, f".data.field-{number}") for name in names for number in range(8)]
    told = setback(Failure(REF, "apply", Conflict("held", tuple(fields)), live), "box.shop").message
    patch = shlex.split(told.partition("To hand it back: ")[2])[-1]
    assert sum(step["op"] == "remove" for step in json.loads(patch)) == len(names)


@pytest.mark.parametrize(("error", "state", "reason", "pace"), TABLE, ids=lambda value: getattr(value, "message", ""))
def test_each_refusal_has_a_state_a_reason_and_a_pace_REC_13(
    error: OperatorError, state: NodeState, reason: str, pace: RequeuePace
) -> None:
    met = setback(Failure(REF, "apply", error), "box.shop")

    assert (met.state, met.reason, met.requeue.pace) == (state, reason, pace)
    if error is HELD:
        assert 'field manager "kubectl-edit" holds .data.a' in met.message
        assert not met.message.startswith(str(REF)), "the observation names the object"
    else:
        assert met.message.startswith(f"apply: {error.message}")
    assert met.message.endswith("; tried again") == (state is NodeState.RETRYING)


def test_a_server_that_asks_for_a_pause_gets_it_REC_13() -> None:
    met = setback(Failure(REF, "apply", Unavailable("busy", retry_after=7.0)), "box.shop")

    assert met.requeue == Requeue(RequeuePace.BACKOFF, not_before=7.0)


IMMUTABLE = [
    "field is immutable",
    "updates to statefulset spec for fields other than",
    "may not change once set",
    "cannot change roleRef",
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.tolerations` (only additions)",
    "updates to provisioner are forbidden.",
    "may not be changed in an update.",
]


@pytest.mark.parametrize("text", [*IMMUTABLE, "FIELD IS IMMUTABLE"])
def test_an_immutable_field_is_known_by_the_words_of_servers_in_message_or_cause(text: str) -> None:
    assert is_immutable(Failure(REF, "apply", Invalid(text)))
    assert is_immutable(Failure(REF, "apply", Invalid("wrong", (StatusCause("spec", text),))))
    assert not is_immutable(Failure(REF, "apply", Invalid("wrong", (StatusCause("spec", "too long"),))))
    assert not is_immutable(Failure(REF, "apply", Forbidden(text))), "only the content's own refusal counts"


CHANGED = [
    'Invalid value: {"matchLabels":{"a":"b"}}: field is immutable',
    'Invalid value: core.PodTemplateSpec{ObjectMeta:v1.ObjectMeta{Name:"", UID:""}}: field is immutable',
    'Invalid value: "string": size is immutable: make another object',
    "Forbidden: spec is immutable after creation except resources.requests for bound claims\n@@ -6,7 +6,7 @@",
    "Forbidden: field is immutable when `immutable` is set",
    'Invalid value: ["10.0.0.50"]: may not change once set',
]
OTHERWISE = [
    ("metadata.labels", 'Invalid value: "immutable": a valid label must be an empty string'),
    ("spec.mode", 'Unsupported value: "field is immutable": supported values: "mutable", "immutable"'),
    ("spec.immutable", 'Invalid value: "string": spec.immutable in body must be of type boolean: "string"'),
    ("spec.items[1]", 'Duplicate value: {"immutable":"x"}'),
]


@pytest.mark.parametrize("text", CHANGED)
def test_a_change_of_a_fixed_field_is_known_whatever_value_is_quoted_PH_2(text: str) -> None:
    assert is_immutable(Failure(REF, "apply", Invalid("wrong", (StatusCause("spec", text),))))


@pytest.mark.parametrize(("field", "text"), OTHERWISE)
def test_what_somebody_calls_immutable_does_not_make_a_field_fixed_PH_2(field: str, text: str) -> None:
    assert not is_immutable(Failure(REF, "apply", Invalid("wrong", (StatusCause(field, text),))))


@pytest.mark.parametrize("name", ["immutable", "immutable-data", "field.is.immutable"])
def test_an_object_may_have_immutable_in_its_name_PH_2(name: str) -> None:
    asked = f"apply ConfigMap team/{name}: "
    for said in (f'ConfigMap "{name}" is invalid', f"failed to create typed patch object (team/{name}; /v1, Kind=A)"):
        assert not is_immutable(Failure(REF, "apply", Invalid(asked + said)))
    assert is_immutable(Failure(REF, "apply", Invalid(f'{asked}ConfigMap "{name}" is invalid: field is immutable')))


def test_an_object_is_not_made_again_that_would_be_refused_anew_PH_2() -> None:
    causes = (StatusCause("spec.selector", "field is immutable"), StatusCause("spec.replicas", "Invalid value: -1: no"))

    assert not is_immutable(Failure(REF, "apply", Invalid("wrong", causes)))


PACES = [Requeue.IMMEDIATE, Requeue.BACKOFF, Requeue.REFUSED, Requeue.SLOW]
"""The sooner first."""


@pytest.mark.parametrize(
    "names", list(itertools.product(PACES, repeat=2)), ids=lambda pair: "-".join(requeue.pace.name for requeue in pair)
)
def test_of_two_paces_the_one_that_is_more_likely_to_pass_counts(names: tuple[Requeue, Requeue]) -> None:
    first, second = names
    together = earliest_requeue(names)

    assert together.pace is min(names, key=PACES.index).pace
    assert together == earliest_requeue((second, first))
    paces = {first.pace, second.pace}
    if paces == {RequeuePace.BACKOFF, RequeuePace.REFUSED}:
        assert together.after == 30.0, "a role that came is noticed within half a minute"
    elif RequeuePace.SLOW in paces and paces & {RequeuePace.BACKOFF, RequeuePace.REFUSED}:
        assert together.after == 60.0
    else:
        assert together.after is None


@pytest.mark.parametrize("other", [*PACES, Requeue(RequeuePace.BACKOFF, not_before=3.0)], ids=str)
def test_the_longest_retry_after_counts_whatever_comes_with_it(other: Requeue) -> None:
    told = Requeue(RequeuePace.BACKOFF, not_before=20.0)

    both = (earliest_requeue((told, other)), earliest_requeue((other, told)))
    assert [requeue.not_before for requeue in both] == [20.0, 20.0]


def test_the_earliest_of_all_times_counts_whatever_the_pace() -> None:
    assert earliest_requeue(()) == Requeue.NO
    assert earliest_requeue([Requeue.NO]) == Requeue.NO
    assert earliest_requeue([Requeue.at_latest(9.0), Requeue.at_latest(3.0)]) == Requeue.at_latest(3.0)
    slow = Requeue.SLOW.no_later_than(5.0)
    assert earliest_requeue([Requeue.BACKOFF, slow]) == Requeue.BACKOFF.no_later_than(5.0)
    assert earliest_requeue([Requeue.at_latest(0.0), Requeue.REFUSED]) == Requeue.REFUSED.no_later_than(0.0)
