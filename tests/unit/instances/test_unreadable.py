"""REC-13: an instance that cannot be read is Stalled, for none but a person can help, and nothing of it is changed."""

from typing import Any

import pytest

from purekube.apimachinery.problems import ValidationProblems
from purekube.controller.decision import Decision
from tests.support.instance_worlds import CONTEXT, NAMESPACE, conditions_of, instance_manifest
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.reconcile import decide_unreadable, unreadable_instance


def decide(**spec: Any) -> Decision:
    manifest = instance_manifest(**spec)
    with pytest.raises(ValidationProblems) as refused:
        read_application_instance(manifest)
    return decide_unreadable(unreadable_instance(manifest, refused.value), InstanceObserved(NAMESPACE), CONTEXT)


def test_it_is_stalled_with_the_path_and_nothing_is_written_but_the_status() -> None:
    decision = decide(values={"source": "elsewhere"})

    found = conditions_of(decision)
    assert found["Stalled"] == found["Blocked"] == ("True", "ValidationFailed")
    assert found["Ready"] == ("False", "NotDeployed")
    assert decision.status is not None
    assert "spec.values.source" in str(decision.status)
    assert not decision.writes_downstream
