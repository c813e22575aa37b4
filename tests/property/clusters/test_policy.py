"""Of several Cluster objects with this id the strictest of each rule counts, in any order (RES-3, D6, SL1)."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.instance_worlds import instance_manifest
from tests.support.strategies import gated_namespace
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.clusters.decision import cluster_manifest, strictest_policy
from vworkspace_core.instances.blocking_reasons import intent_blocking_reason
from vworkspace_core.instances.context import InstanceObserved, Settings

ID = "cluster-prod-1"
URL, VERSION = (str(instance_manifest()["spec"]["chart"][field]) for field in ("url", "version"))
ALLOWING = (URL, URL.rpartition("/")[0])
OTHER = "oci://elsewhere.example/charts"


def cluster(name: str, cluster_id: str = ID, **policy: Any) -> bytes:
    made = cluster_manifest(cluster_id, "https://odoo.example.com")
    spec = {**made["spec"], **({"policy": policy} if policy else {})}
    return json.dumps({**made, "metadata": {"name": name}, "spec": spec}).encode()


def admits(policy: Policy) -> bool:
    barrier = intent_blocking_reason(
        read_application_instance(instance_manifest()),
        InstanceObserved(namespace=gated_namespace()),
        Settings(ID, policy=policy),
    )
    return barrier is None or barrier.reason != "PolicyDenied"


sources = st.lists(st.sampled_from((*ALLOWING, OTHER)), max_size=3)
versions = st.lists(st.sampled_from((VERSION, "1.0.0")), max_size=2)
clusters = st.lists(
    st.builds(
        lambda mine, allowed, forbidden: (mine, allowed, forbidden),
        st.sampled_from((True, True, False)),
        sources,
        versions,
    ),
    max_size=4,
)


@given(clusters, st.randoms(use_true_random=False))
@example([(True, [], []), (True, [], [VERSION])], None)
@example([(True, [ALLOWING[0]], []), (True, [OTHER], [])], None)
def test_each_object_can_only_narrow_what_the_others_allow(
    found: list[tuple[bool, list[str], list[str]]], order: Any
) -> None:
    made = [
        cluster(f"c{number}", ID if mine else "other", allowedChartSources=allowed, forbiddenVersions=forbidden)
        for number, (mine, allowed, forbidden) in enumerate(found)
    ]
    if order is not None:
        order.shuffle(made)
    ours = [(allowed, forbidden) for mine, allowed, forbidden in found if mine]
    expected = all(not allowed or set(allowed) & set(ALLOWING) for allowed, _ in ours) and not any(
        VERSION in forbidden for _, forbidden in ours
    )
    assert admits(strictest_policy(Policy(), made, ID)) is expected


@given(clusters)
def test_one_more_object_never_loosens_and_one_without_a_policy_changes_nothing(
    found: list[tuple[bool, list[str], list[str]]],
) -> None:
    made = [
        cluster(f"c{number}", allowedChartSources=allowed, forbiddenVersions=forbidden)
        for number, (_, allowed, forbidden) in enumerate(found)
    ]
    whole = strictest_policy(Policy(), made, ID)
    for number in range(len(made)):
        fewer = strictest_policy(Policy(), made[:number] + made[number + 1 :], ID)
        assert admits(fewer) or not admits(whole)
    assert strictest_policy(Policy(), [*made, cluster("own")], ID) == whole
    assert strictest_policy(Policy(), reversed(made), ID) == whole


def test_what_an_object_says_goes_with_it() -> None:
    forbidding = cluster("strict", forbiddenVersions=[VERSION])
    assert not admits(strictest_policy(Policy(), [cluster("own"), forbidding], ID))
    assert admits(strictest_policy(Policy(), [cluster("own")], ID))


def test_the_policy_of_the_settings_counts_beside_them() -> None:
    base = Policy(allowed_chart_sources=(OTHER,))
    assert not admits(strictest_policy(base, [cluster("own", allowedChartSources=[ALLOWING[0]])], ID))
