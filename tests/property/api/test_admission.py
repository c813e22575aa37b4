"""RES-1, RES-2, RES-7, RUN-6, PULL-10: what is refused, all of it at once, each with its path."""

import copy
import json
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from purekube.apimachinery.manifest import same_json
from purekube.apimachinery.meta import Condition, ConditionStatus, ObjectMeta
from tests.support.strategies import (
    CLUSTER_ID,
    application_instances,
    clusters,
    gated_namespace,
    json_values,
    operations,
)
from tests.support.violations import ADMISSION, CRD, Violation, changed, instance, operation, placeholder, running
from vworkspace_core.api import labels
from vworkspace_core.api.admission import (
    AdmissionSettings,
    admit,
    check_application_instance,
    check_managed_namespace,
    check_operation,
)
from vworkspace_core.api.application_instance import ApplicationInstance
from vworkspace_core.api.codec import read_application_instance, read_operation, unstructure, validate_strict
from vworkspace_core.api.kinds import OWN_KINDS
from vworkspace_core.api.labels import RETRY
from vworkspace_core.api.operation import Operation


@pytest.mark.slow
@given(application_instances() | operations() | clusters())
def test_valid_objects_are_admitted(value: Any) -> None:
    assert admit(unstructure(value)) == ()
    assert admit(unstructure(value), unstructure(value)) == ()


@pytest.mark.slow
@given(application_instances(), operations())
def test_the_reconciler_asks_the_same_of_values(value: ApplicationInstance, action: Operation) -> None:
    assert check_application_instance(value, value) == ()
    assert check_operation(action, action) == ()


def test_each_violation_is_refused_at_its_path_and_nowhere_else_and_no_refusal_repeats_a_secret() -> None:
    for violation in (*CRD, *ADMISSION):
        found = admit(violation.manifest, violation.old)
        assert {problem.path for problem in found} == set(violation.paths), violation.name
        shown = "; ".join(map(str, found))
        assert [secret for secret in ("hunter2", "ada:pw", "MIIE") if secret in shown] == [], violation.name


ALONE = [
    violation
    for violation in (*CRD, *ADMISSION)
    # Those that come with a mode or a removed part of spec change what is asked of the other parts.
    if violation.old is None and {"mode", "chart", "release"} <= set(violation.manifest["spec"])
    if violation.manifest["spec"]["mode"] == "managed"
]


def part(violation: Violation) -> str:
    (name,) = {path.split(".")[1] for path in violation.paths}
    return name


@given(st.lists(st.sampled_from(ALONE), min_size=2, max_size=5, unique_by=part))
def test_violations_do_not_hide_each_other(together: list[Violation]) -> None:
    spec = instance()["spec"]
    for violation in together:
        spec.pop(part(violation), None)
        spec.update({name: item for name, item in violation.manifest["spec"].items() if name == part(violation)})

    found = {problem.path for problem in admit({**instance(), "spec": spec})}

    blamed = {path for violation in together for path in violation.paths}
    assert found <= blamed
    # Rules that compare parts need all of them readable; everything else is seen in any case.
    compared = {v.paths[0] for v in together if v.name in ("release in another namespace", "http", "too many values")}
    assert blamed - found <= compared


def test_all_problems_of_a_readable_object_come_at_once() -> None:
    manifest = instance(
        chart={"sourceType": "helm", "url": "oci://r", "name": "n n", "version": "latest", "digest": "x"},
        release={"name": "N", "namespace": "elsewhere"},
        values={"source": "secretRef", "inline": {"password": "hunter2"}},
        integrations={"ingress": {"enabled": True}},
    )
    manifest["metadata"]["name"] = "Not A Name"

    assert [problem.path for problem in admit(manifest)] == [
        "metadata.name",
        "spec.chart.digest",
        "spec.chart.name",
        "spec.chart.url",
        "spec.chart.version",
        "spec.integrations.ingress.host",
        "spec.release.name",
        "spec.release.namespace",
        "spec.values.inline",
        "spec.values.inline.password",
        "spec.values.secretRef",
    ]


def test_an_unreadable_object_is_still_searched_for_secrets() -> None:
    manifest = instance(mode=3, values={"source": "inline", "inline": {"password": "hunter2"}})
    patch = operation(engine=3, parameters={"valuesPatch": {"token": "hunter2"}})

    assert [problem.path for problem in admit(manifest)] == ["spec.mode", "spec.values.inline.password"]
    assert [problem.path for problem in admit(patch)] == ["spec.engine", "spec.parameters.valuesPatch.token"]


def test_a_wrong_type_hides_nothing_beside_it() -> None:
    manifest = instance(
        suspend="yes", chart={"sourceType": "oci", "url": "https://r", "name": 5, "version": "latest"}, appRef=[]
    )

    assert [str(problem) for problem in admit(manifest)] == [
        "spec.appRef: must be an object, not a list",
        "spec.chart.name: must be a string, not a number",
        "spec.chart.version: must be one exact version, no range and no latest, such as 6.6.0, not 'latest'",
        "spec.suspend: must be a boolean, not a string",
    ]


def test_finalizers_come_off_and_status_is_written_whatever_spec_says_RUN_6() -> None:
    for violation in (*CRD, *ADMISSION):
        meta = {**violation.manifest["metadata"], "finalizers": [labels.FINALIZER]}
        before = {**violation.manifest, "metadata": meta}
        after = {**violation.manifest, "status": {"observedGeneration": 3}}
        assert admit(after, before) == (), violation.name


def test_a_broken_object_can_be_mended() -> None:
    assert admit(instance(), instance(mode=["?"], chart="?")) == ()
    assert admit(instance(), {"spec": None}) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (placeholder(), instance()),
        (instance(), changed(instance(), chart__version="7.0.0")),
        (instance(), changed(instance(), values__inline={"replicaCount": 3})),
        (instance(), instance(suspend=True)),
        (operation(), operation(parameters={"retention": "1d"})),
        (operation(), operation(timeoutSeconds=1)),
        (running(operation()), running(operation(timeoutSeconds=60))),
        (running(operation()), running(operation(parameters={"retention": "30d"}, timeoutSeconds=1))),
    ],
)
def test_what_may_change(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert admit(new, old) == ()


def test_http_is_a_setting() -> None:
    manifest = changed(instance(), chart__sourceType="helm", chart__url="http://charts.example.test")

    assert admit(manifest, settings=AdmissionSettings(allow_http=True)) == ()
    (problem,) = admit(manifest)
    assert str(problem) == (
        "spec.chart.url: must start with https://;"
        " http:// is not allowed unless the operator is started with --allow-http"
    )


def test_sizes_are_settings_and_limits_are_inclusive() -> None:
    inline = {"a": "xx"}
    manifest = changed(instance(), values__inline=inline)

    assert admit(manifest, settings=AdmissionSettings(max_inline_bytes=len('{"a":"xx"}'))) == ()
    (problem,) = admit(manifest, settings=AdmissionSettings(max_inline_bytes=9))
    assert str(problem) == "spec.values.inline: must have at most 9 bytes as JSON, not 10"


def test_true_is_not_one_but_one_is_however_it_is_written() -> None:
    old = running(operation(parameters={"a": [1]}))

    assert [problem.path for problem in admit(running(operation(parameters={"a": [True]})), old)] == ["spec.parameters"]
    assert admit(running(operation(parameters={"a": [1.0]}, timeoutSeconds=5)), old) == ()


@given(json_values(), json_values())
@example(True, 1)
@example([0], [False])
@example({"a": None}, {})
@example([1], [1, 2])
def test_json_equality_is_that_of_canonical_text(left: Any, right: Any) -> None:
    def text(value: Any) -> str:
        plain = json.loads(
            json.dumps(value), parse_float=lambda digits: int(f) if (f := float(digits)).is_integer() else f
        )
        return json.dumps(plain, sort_keys=True)

    assert same_json(left, right) == (text(left) == text(right))
    assert same_json(left, copy.deepcopy(left))


def test_a_generated_name_is_not_there_yet() -> None:
    manifest = instance()
    manifest["metadata"] = {"name": "", "generateName": "nextcloud-", "namespace": "org-myteam"}

    assert admit(manifest) == ()


@given(json_values())
def test_anything_at_all_is_judged_without_an_exception(value: Any) -> None:
    manifest: Any = {**instance(), "spec": value}

    assert admit(manifest, {"spec": {}}) or value == {}
    assert admit(value if isinstance(value, dict) else {"kind": value})


def test_problems_name_the_object_s_own_fields() -> None:
    meta = read_application_instance(instance())
    moved = attrs.evolve(meta, metadata=attrs.evolve(meta.metadata, namespace="elsewhere"))

    assert [str(problem) for problem in check_application_instance(moved)] == [
        "spec.release.namespace: must equal metadata.namespace (elsewhere)"
    ]
    assert check_operation(read_operation(operation())) == ()


def test_the_status_of_an_operation_is_not_judged() -> None:
    action = read_operation(operation())
    odd = attrs.evolve(action.status, conditions=(Condition("Odd", ConditionStatus.TRUE, reason=""),))

    assert check_operation(attrs.evolve(action, status=odd)) == ()


def test_the_gate_names_all_three_keys_RES_5() -> None:
    meta = ObjectMeta(name="n", namespace="org-myteam", labels={labels.CLUSTER_ID: "elsewhere"})

    assert [str(problem) for problem in check_managed_namespace(meta, None, CLUSTER_ID)] == [
        f"metadata.labels['{labels.CLUSTER_ID}']: must be cluster-prod-1, not elsewhere",
        f"metadata.labels['{labels.MANAGED_BY}']: must be control-plane",
        "metadata.namespace: 'org-myteam' is not labelled managed-by=vworkspace:"
        " kubectl label namespace org-myteam managed-by=vworkspace",
    ]


@given(application_instances())
def test_the_gate_is_open_for_this_cluster_s_objects(value: ApplicationInstance) -> None:
    assert check_managed_namespace(value.metadata, gated_namespace(), CLUSTER_ID) == ()
    assert len(check_managed_namespace(value.metadata, gated_namespace(), "another")) == 1


@pytest.mark.parametrize(
    ("token", "shown"),
    [("!" * 63, "!" * 63), ("!" * 64, "one of 64 characters"), ("a" * 64, "one of 64 characters"), ("a b", "a b")],
)
def test_a_token_is_repeated_as_far_as_one_could_be_long(token: str, shown: str) -> None:
    one = instance()
    one["metadata"]["annotations"] = {RETRY: token}
    (problem,) = admit(one)

    assert problem.path == f"metadata.annotations['{RETRY}']"
    assert problem.message.endswith(f", such as 2026-06-01T12:00:00Z, not {shown!r}")


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([], "must be an object, not a list"),
        (None, "must be an object, not null"),
        ("x", "must be an object, not a string"),
    ],
)
def test_what_is_no_object_is_told_so(found: Any, problem: str) -> None:
    assert [(one.path, one.message) for one in validate_strict(found)] == [("", problem)]


@pytest.mark.parametrize("kind", [{}, {"kind": "Operation"}, {"apiVersion": ["x"], "kind": "Operation"}, {"kind": 7}])
def test_an_object_of_another_kind_is_told_which_there_are(kind: Any) -> None:
    (problem,) = validate_strict(kind)

    assert problem.path == "kind"
    kinds = sorted(f"{one.api_version} {one.kind}" for one in OWN_KINDS)
    assert problem.message == f"must be one of {', '.join(kinds)}"


@pytest.mark.parametrize("make", [instance, operation])
@pytest.mark.parametrize(
    ("name", "count"), [("a", 0), ("a.b-c", 0), ("A", 1), ("a_b", 1), ("a" * 253, 0), ("a" * 254, 1)]
)
def test_a_name_is_a_dns_subdomain_of_our_kinds_too(make: Any, name: str, count: int) -> None:
    one = make()
    one["metadata"]["name"] = name
    of_name = [problem for problem in admit(one) if problem.path == "metadata.name"]

    assert len(of_name) == count


def test_parameters_that_are_too_large_are_not_searched_for_secrets() -> None:
    secret = {"valuesPatch": {"password": "hunter2-hunter2"}}
    small, limit = (
        operation(type="Upgrade", engine="helm", parameters=secret),
        AdmissionSettings(max_parameters_bytes=20),
    )

    assert [problem.path for problem in admit(small)] == ["spec.parameters.valuesPatch.password"]
    assert [problem.path for problem in admit(small, None, limit)] == ["spec.parameters"]


CLAIM = {"claim": "vws1.a.b"}
ASIDE = "is immutable while an approval claim stands beside it: take the claim away first"


@pytest.mark.parametrize(
    ("before", "after", "changed", "problems"),
    [
        (CLAIM, CLAIM, True, [("spec.parameters", ASIDE)]),
        (CLAIM, None, True, [("spec.parameters", ASIDE)]),
        (CLAIM, CLAIM, False, []),
        (None, CLAIM, True, []),
        ({"required": True}, {"required": True}, True, []),
        ({"required": True}, {"required": False}, False, ["spec.approvals.required"]),
        ({"required": True}, None, False, ["spec.approvals.required"]),
        ({"required": False}, None, False, []),
        (None, {"required": True}, False, []),
    ],
)
def test_what_was_approved_stays_as_it_was_and_what_needs_approval_goes_on_to_OPS_4(
    before: Any, after: Any, changed: bool, problems: list[Any]
) -> None:
    old = operation(approvals=before, parameters={"retention": "30d"})
    new = operation(approvals=after, parameters={"retention": "31d" if changed else "30d"})
    found = [(problem.path, problem.message) for problem in admit(new, old)]

    assert [one if one in problems else one[0] for one in found] == problems
