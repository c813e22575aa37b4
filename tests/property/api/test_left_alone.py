"""RES-5: an object without our label is told of once, with the command that hands it over, unless it is going."""

from typing import Any

import pytest

from purekube.apimachinery.manifest import ObjectRef
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER
from vworkspace_core.api.own_status import unmanaged

LABEL = "app.vworkspace.io/managed-by"


@pytest.mark.parametrize("namespace", ["ns", None])
@pytest.mark.parametrize("value", [None, "control-plane", "somebody"])
@pytest.mark.parametrize("going", [False, True])
def test_what_is_left_alone_is_told_with_the_command_that_hands_it_over_RES_5(
    namespace: str | None, value: str | None, going: bool
) -> None:
    kind = CLUSTER if namespace is None else APPLICATION_INSTANCE
    meta: dict[str, Any] = {"name": "a", "uid": "u", "labels": {} if value is None else {LABEL: value}}
    if going:
        meta["deletionTimestamp"] = "2026-06-01T00:00:00Z"

    event = unmanaged(ObjectRef(kind, namespace, "a"), {"metadata": meta})

    assert (event is None) is (going or value == "control-plane")
    if event is not None:
        place = f" -n {namespace}" if namespace else ""
        overwrite = "" if value is None else " --overwrite"
        present = "" if value is None else f', but {LABEL}="{value}"'
        assert event.note == (
            f"the operator leaves this object alone: it does not carry the label {LABEL}=control-plane{present}. "
            f"To hand it over: kubectl label {kind.crd_name} a{place} {LABEL}=control-plane{overwrite}"
        )
        assert (event.type, event.reason, event.regarding_uid) == ("Warning", "NotManaged", "u")
