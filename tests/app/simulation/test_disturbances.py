"""Which requests a scheduled fault of the simulation may disturb (SIM-2)."""

import pytest

from purekube.apimachinery.resources import CONFIG_MAP
from purekube.ports import KubeRequest, KubeVerb
from purekube_run.simulation.connection import Disturbance, Trouble


@pytest.mark.parametrize(
    ("trouble", "verb", "concerned"),
    [
        (Trouble.STALE, KubeVerb.APPLY, True),
        (Trouble.STALE, KubeVerb.PATCH, True),
        (Trouble.STALE, KubeVerb.UPDATE, True),
        (Trouble.STALE, KubeVerb.CREATE, False),
        (Trouble.STALE, KubeVerb.GET, False),
        (Trouble.CRASH_BEFORE, KubeVerb.CREATE, True),
        (Trouble.CRASH_AFTER, KubeVerb.DELETE, True),
        (Trouble.CRASH_BEFORE, KubeVerb.LIST, False),
    ],
)
def test_a_fault_disturbs_a_request_of_its_kind_for_which_only_is_true(
    trouble: Trouble, verb: KubeVerb, concerned: bool
) -> None:
    request = KubeRequest(verb, CONFIG_MAP, "default", "one")
    of_another = Disturbance(trouble, lambda happened: None, only=lambda asked: asked.name == "other")

    assert Disturbance(trouble, lambda happened: None).concerns(request) is concerned
    assert not of_another.concerns(request)
