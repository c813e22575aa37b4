"""RUN-13: shards as processes, shown by the API server's own audit log: a kill, a takeover, and a change of n.

On the embedded API server and, where KUBEBUILDER_ASSETS names one, on a kube-apiserver.
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from purekube.controller.shard import Shard
from tests.support.audit_log import Act
from tests.support.clusters_under_test import SITES, Site
from tests.support.commands import run
from tests.support.e2e_world import CLUSTER, OWN_NS, instance
from tests.support.replicas import Replica, replica, takeover, writes
from vworkspace_app.install.everything import tenant
from vworkspace_app.install.options import InstallOptions

SPACES = ("org-0", "org-1", "org-2", "org-5")
"""Two of each shard of two."""
LEASE = "shards"
WAITING = "waiting: another process works with another number of shards"
PLURALS = {"ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings"}


@pytest.fixture(scope="module", params=SITES)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with request.param(tmp_path_factory.mktemp("site")) as found:
        for name in SPACES:
            found.make("namespaces", "Namespace", name, {"metadata": {"labels": {"managed-by": "vworkspace"}}})
            for manifest in tenant(name, InstallOptions(namespace=OWN_NS)):
                version = manifest["apiVersion"]
                place = f"api/{version}" if version == "v1" else f"apis/{version}"
                found.ask("POST", f"{place}/namespaces/{name}/{PLURALS[manifest['kind']]}", manifest)
        yield found


def apply_all(site: Site, version: str) -> None:
    for name in SPACES:
        manifest: dict[str, Any] = instance(version)
        labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
        manifest["metadata"] = {"name": "app", "namespace": name, "labels": labels}
        manifest["spec"]["release"] = {"name": "app", "namespace": name}
        path = f"apis/apps.vworkspace.io/v1alpha1/namespaces/{name}/applicationinstances/app?fieldManager=somebody"
        site.ask("PATCH", path, manifest, "application/apply-patch+yaml")


def all_ready(site: Site, version: str) -> bool:
    items = site.ask("GET", "apis/apps.vworkspace.io/v1alpha1/applicationinstances")["items"]
    ready = [
        item
        for item in items
        if item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"]
        and item["spec"]["chart"]["version"] == version
        and any(
            (condition["type"], condition["status"]) == ("Ready", "True") for condition in item["status"]["conditions"]
        )
    ]
    return len(ready) == len(SPACES)


def spaces_of(acts: Sequence[Act], user: str) -> set[str]:
    """Where a replica changed something; Events apart, which say nothing of who may write."""
    places = {
        act.path.split("/namespaces/")[1].split("/")[0] for act in writes(acts, user) if "/namespaces/" in act.path
    }
    return places & set(SPACES)


def share(shard: str) -> set[str]:
    return {name for name in SPACES if Shard.of(shard).owns(name)}


def follows(acts: Sequence[Act], former: Replica, next_one: Replica) -> None:
    """Nothing of the former's takes effect once the next one has taken its Lease."""
    _, place = takeover(acts, next_one.user)
    late = [act for act in writes(acts, former.user) if act.place is not None and act.place > place]
    assert not late, late


@pytest.mark.slow
def test_shards_hand_over_and_n_changes_while_there_is_work(site: Site, tmp_path: Path) -> None:
    since = datetime.now(UTC)
    with ExitStack() as stack:

        def start(user: str, *words: str) -> Replica:
            return stack.enter_context(replica(site, tmp_path / user, user, LEASE, *words))

        zero, one = start("replica-a", "--shard=0/2"), start("replica-b", "--shard=1/2")
        for process in (zero, one):
            process.process.until(lambda process=process: process.process.log("leading"), "its Lease")  # type: ignore[misc]
        standby = start("replica-c", "--shard=1/2")
        standby.process.until(lambda: standby.process.log("standing by"), "the standby")
        apply_all(site, "1.0.0")
        zero.process.until(lambda: all_ready(site, "1.0.0"), "all at 1.0.0")

        one.middle.after_write(2, lambda: one.process.send(signal.SIGKILL))
        apply_all(site, "2.0.0")
        standby.process.until(lambda: standby.process.log("leading"), "the takeover")
        standby.process.until(lambda: all_ready(site, "2.0.0"), "all at 2.0.0")

        whole = start("replica-d")
        (told,) = whole.process.until(lambda: whole.process.log(WAITING), "why it waits")
        assert (told["their_shards"], told["our_shard"]) == (2, "0/1")
        assert zero.process.stop().status == 0
        standby.middle.after_write(1, lambda: standby.process.send(signal.SIGKILL))
        apply_all(site, "3.0.0")
        whole.process.until(lambda: whole.process.log("leading"), "the end of all shards")
        whole.process.until(lambda: all_ready(site, "3.0.0"), "all at 3.0.0")

        acts = site.acts(since)
        assert spaces_of(acts, zero.user) == share("0/2")
        assert spaces_of(acts, one.user) | spaces_of(acts, standby.user) == share("1/2")
        assert spaces_of(acts, whole.user) == set(SPACES)
        follows(acts, one, standby)
        follows(acts, zero, whole)
        follows(acts, standby, whole)
        clusters = {act.user for act in acts if "/clusters" in act.path and act.user.startswith("replica")}
        assert clusters <= {zero.user, whole.user}, "one speaks for the cluster"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--shard=2/2", "--leader-elect"], "--shard 2/2: the shards of 2 are 0/2 to 1/2"),
        (["--shard=one", "--leader-elect"], "--shard one: give I/N, such as 0/4"),
        (["--shard=0/2"], "--shard=0/2 needs --leader-elect"),
    ],
)
def test_a_shard_that_cannot_be_is_refused_at_the_start(words: list[str], told: str) -> None:
    ended = run("run", *words)

    assert ended.status == 2
    assert told in ended.err
