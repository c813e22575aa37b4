"""RES-6: the CRDs alone refuse what the schema and CEL can express, and admission refuses exactly the same.

The verdicts and paths of `CRD` were compared with those of Kubernetes 1.36.1's own validation code, which
also accepted the CRDs, the estimated cost of their rules included.
"""

from typing import Any

import pytest
from hypothesis import given, settings

from tests.support.effort import effort
from tests.support.mutations import Write, judged_by_crd, schema_of, writes
from tests.support.strategies import application_instances, clusters, operations
from tests.support.violations import ADMISSION, CRD, Violation, instance, operation, placeholder, running
from vworkspace_core.api.admission import admit
from vworkspace_core.api.classes import CLASSES
from vworkspace_core.api.codec import unstructure

# What admission holds against an object and no CRD can: it says so in these words.
ADMISSION_ONLY = (
    "unknown field",
    "holds secret material",
    "must equal metadata.namespace",
    "http:// is not allowed",
    "bytes as JSON",
)


@pytest.mark.parametrize("kind", [kind.kind for kind in CLASSES.values()])
def test_the_embedded_api_server_accepts_every_crd(kind: str) -> None:
    assert schema_of(kind).has_rules


def test_the_crd_alone_refuses_each_violation_at_its_path() -> None:
    for violation in CRD:
        causes = judged_by_crd(violation.manifest, violation.old)
        assert {cause.field for cause in causes} - {"<nil>"} == set(violation.paths), violation.name


# Moving a release is refused by the CRD too, as a change; whether the new namespace fits it cannot see. The renamed
# parameter passes a real server's equality of free objects; the embedded one compares them in full.
SEEN_BY_BOTH = ("release moved", "a parameter of a running one renamed")


@pytest.mark.parametrize(
    "violation", [v for v in ADMISSION if v.name not in SEEN_BY_BOTH], ids=lambda violation: violation.name
)
def test_what_only_admission_can_see_passes_the_crd(violation: Violation) -> None:
    assert judged_by_crd(violation.manifest, violation.old) == []


@pytest.mark.slow
@given(application_instances() | operations() | clusters())
def test_valid_objects_and_every_status_pass_the_crd(value: Any) -> None:
    assert judged_by_crd(unstructure(value), None) == []
    assert judged_by_crd(unstructure(value), unstructure(value)) == []


@settings(max_examples=effort(1))
@given(writes())
def test_crd_and_admission_agree_on_any_write(write: Write) -> None:
    by_crd = judged_by_crd(write.manifest, write.old)
    by_admission = [
        problem
        for problem in admit(write.manifest, write.old)
        if not any(words in problem.message for words in ADMISSION_ONLY)
    ]

    assert bool(by_crd) == bool(by_admission), (by_crd, by_admission)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (placeholder(), instance()),
        (instance(), instance(suspend=True)),
        (operation(), running(operation())),
        (running(operation()), running(operation(timeoutSeconds=60))),
        (running(operation(parameters={"a": 1, "b": 2})), running(operation(parameters={"b": 2, "a": 1}))),
        (running(operation(parameters=None)), running(operation(parameters=None))),
    ],
)
def test_what_may_change_passes_the_crd(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert judged_by_crd(new, old) == []
