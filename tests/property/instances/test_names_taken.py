"""Names that somebody else has (REC-4), and what a tenant may write into a name, token or host: L9, L11, L12, SL8."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubelab.inprocess import run_sync
from purekube.apimachinery.manifest import ObjectRef, get_path
from purekube.apimachinery.meta import ObjectMeta
from purekube.apimachinery.resources import CONFIG_MAP, HELM_RELEASE, SECRET
from tests.support.effort import effort
from tests.support.instance_oracle import claims_ready, releases
from tests.support.instance_turmoil import Turmoil, intent
from tests.support.instance_worlds import NAMESPACE, decide, instance_manifest, message_of, with_meta
from tests.support.simulation import FRAGMENT, HELM, INSTANCE, NS, OCI
from vworkspace_core.api.admission import admit
from vworkspace_core.api.codec import read_application_instance
from vworkspace_core.api.labels import RETRY, retry_token
from vworkspace_core.instances.context import InstanceObserved
from vworkspace_core.instances.observe import foreign_release

VALUES = {"source": "secretRef", "secretRef": {"name": "values-a", "key": "values.yaml"}}
INGRESS = {"ingress": {"enabled": True, "host": "one.example"}}


# --- L12: releases of Helm alone --------------------------------------------------------------------------------------


def with_helm_releases(*revisions: int, name: str = "nextcloud") -> Turmoil:
    """A namespace with a release that somebody has installed and upgraded with Helm, which keeps those revisions."""
    world = Turmoil()
    for version in revisions:
        labels = {"owner": "helm", "name": name, "version": str(version), "status": "deployed"}
        record = f"sh.helm.release.v1.{name}.v{version}"
        body = {"metadata": {"name": record, "namespace": NS, "labels": labels}, "type": "helm.sh/release.v1"}
        manifest = {**SECRET.manifest(record, NS), **body, "data": {"release": "aHVudGVyMg=="}}
        run_sync(world.admin.create(manifest, kind=SECRET, field_manager="helm"))
    return world


@settings(max_examples=effort(3))
@given(newest=st.integers(1, 5000), kept=st.integers(1, 30), deployed=st.integers(1, 5000), before=st.integers(1, 5000))
@example(newest=45, kept=5, deployed=45, before=45)
@example(newest=9, kept=1, deployed=9, before=9)
@example(newest=999, kept=10, deployed=12, before=999)
@pytest.mark.slow
def test_whatever_helm_keeps_of_a_release_it_is_not_taken_over_REC_4(
    newest: int, kept: int, deployed: int, before: int
) -> None:
    """`--history-max` keeps any number of the newest revisions and the deployed one; others may be left from before.
    Four names were asked for, so a release that was upgraded 45 times was not seen, and Flux upgraded it."""
    world = with_helm_releases(*sorted({*range(max(1, newest - kept + 1), newest + 1), deployed, before}))
    world.submit(intent())
    world.run(5)

    assert world.condition(INSTANCE, "Blocked") == ("True", "NameTaken")
    assert world.look(HELM) is None


def test_nothing_is_said_of_a_release_where_helm_has_none_or_the_instance_has_one_REC_4() -> None:
    name = "sh.helm.release.v1.nextcloud.v1"
    record: dict[ObjectRef, Any] = {ObjectRef(SECRET, "org-myteam", name): {"metadata": {}}}
    elsewhere = {ObjectRef(SECRET, "org-other", name), ObjectRef(CONFIG_MAP, "org-myteam", name)}
    deployed: dict[ObjectRef, Any] = {ObjectRef(HELM_RELEASE, "org-myteam", "nextcloud"): {"metadata": {}}}
    instance = read_application_instance(instance_manifest())

    assert "(Secret" in foreign_release(instance, InstanceObserved(NAMESPACE, record))
    assert foreign_release(instance, InstanceObserved(NAMESPACE)) == ""
    assert foreign_release(instance, InstanceObserved(NAMESPACE, {key: {"metadata": {}} for key in elsewhere})) == ""
    assert foreign_release(instance, InstanceObserved(NAMESPACE, {**record, **deployed})) == ""


@pytest.mark.parametrize("name", ["nextcloud-two", "next", "nextcloud.v1"])
def test_another_release_of_helm_is_in_nobodys_way(name: str) -> None:
    world = with_helm_releases(1, 10, 45, name=name)
    world.submit(intent())
    world.run(60)

    assert claims_ready(world.look(INSTANCE))


def test_whose_a_release_is_costs_one_list_of_metadata_and_none_once_it_is_ours() -> None:
    world = Turmoil()
    world.submit(intent())
    world.server.audit.clear()
    world.run(60)

    reads = [one for one in world.server.audit if one.user == world.operator.user and "/secrets" in one.path]
    assert [one.verb for one in reads] == ["list"]


@pytest.mark.parametrize("revision", [1, 3, 10, 14, 27])
def test_a_release_that_helm_alone_has_installed_is_not_taken_over_REC_4(revision: int) -> None:
    """Flux upgraded it at once; README: nobody's release is taken over."""
    world = with_helm_releases(*range(max(1, revision - 9), revision + 1))
    world.submit(intent())
    world.run(60)

    assert world.condition(INSTANCE, "Blocked") == ("True", "NameTaken")
    assert world.look(HELM) is None
    told = world.message(INSTANCE, "Blocked")
    assert "Secret org-myteam/sh.helm.release.v1.nextcloud.v" in told
    assert "If nobody needs it, uninstall it with Helm" in told
    assert world.message(INSTANCE, "Ready") == told, "D16: Ready says the obstacle itself"
    assert "hunter2" not in str(world.look(INSTANCE))

    for ref in world.everything(SECRET):
        world.try_remove(ref)
    world.run(400)
    assert claims_ready(world.look(INSTANCE))


def test_the_command_of_the_message_hands_the_release_over() -> None:
    world = Turmoil()
    world.submit(intent())
    world.run(30)
    for ref in (INSTANCE, HELM, OCI):  # all of it goes by force, and Helm's record stays
        world.try_remove(ref)
        world.edit(ref, {"metadata": {"finalizers": None}})
    world.run(1)
    assert world.look(HELM) is None
    world.submit(intent(version="6.7.0"))
    world.run(60)
    assert world.condition(INSTANCE, "Blocked") == ("True", "NameTaken")

    words = world.message(INSTANCE, "Blocked").partition("kubectl label ")[2].split()
    assert words[:5] == ["secrets", "-n", NS, "-l", "owner=helm,name=nextcloud"]
    for ref in world.everything(SECRET):
        world.edit(ref, {"metadata": {"labels": dict(word.split("=") for word in words[5:])}})
    world.run(400)

    assert claims_ready(world.look(INSTANCE))
    assert len(world.flux.workloads) == 1


def test_our_own_release_made_anew_is_no_foreign_one() -> None:
    world = Turmoil()
    world.submit(intent())
    world.run(30)
    world.edit(HELM, {"metadata": {"finalizers": None}})
    world.try_remove(HELM)
    world.run(120)

    assert releases(world), "Helm still knows it"
    assert claims_ready(world.look(INSTANCE))


# --- SL8: a ConfigMap in the way --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nextcloud-integrations", "nextcloud-integrations-00000000"])
def test_a_config_map_that_a_tenant_made_first_locks_nobody_out(name: str) -> None:
    world = Turmoil()
    world.put_secret("values-a", "a: 1")
    theirs = {**CONFIG_MAP.manifest(name, NS), "data": {"theirs": "yes"}}
    run_sync(world.admin.create(theirs, kind=CONFIG_MAP, field_manager="tenant"))
    world.submit(intent(values=VALUES, integrations=INGRESS))
    world.run(60)

    assert claims_ready(world.look(INSTANCE))
    assert world.everything(CONFIG_MAP)[ObjectRef(CONFIG_MAP, NS, name)]["data"] == {"theirs": "yes"}
    assert world.actual(FRAGMENT).name != name


# --- L9: retry tokens -------------------------------------------------------------------------------------------------


STRANGE = ["x" * 64, "x" * 131_072, "with space", "line\nbreak", "/operation/uid", "-first", "é"]


@pytest.mark.parametrize("token", STRANGE, ids=range(len(STRANGE)))
def test_a_token_that_is_long_or_strange_is_refused_at_admission_and_named(token: str) -> None:
    manifest = with_meta(instance_manifest(), annotations={RETRY: token})

    (problem,) = admit(manifest)

    assert problem.path == f"metadata.annotations['{RETRY}']"
    assert "at most 63 letters, digits" in problem.message
    assert "2026-06-01T12:00:00Z" in problem.message
    assert len(problem.message) < 300


def test_one_that_is_there_all_the_same_blocks_with_the_reason_and_touches_no_release() -> None:
    """The HelmRelease was invalid for good, later jobs included."""
    world = Turmoil()
    world.submit(intent())
    world.run(30)
    before = world.look(HELM)
    world.edit(INSTANCE, {"metadata": {"annotations": {RETRY: "x" * 131_072}}})
    world.run(30)

    assert world.condition(INSTANCE, "Blocked") == ("True", "ValidationFailed")
    assert "one of 131072 characters" in world.message(INSTANCE, "Blocked")
    assert world.look(HELM) == before
    world.edit(INSTANCE, {"metadata": {"annotations": {RETRY: None}}})
    world.submit(intent(version="6.7.0"))
    world.run(60)
    assert claims_ready(world.look(INSTANCE))


@given(token=st.text(max_size=300))
def test_what_goes_on_to_flux_is_short_and_plain_whatever_was_asked(token: str) -> None:
    told = retry_token(ObjectMeta(name="n", annotations={RETRY: token}))

    assert (told is None) == (not token)
    assert told is None or (len(told) <= 63 and told.isascii() and "/" not in told and " " not in told)


@pytest.mark.slow
def test_tokens_are_forwarded_at_most_every_ten_seconds() -> None:
    """A tenant drove Flux's `requestedAt` and `resetAt` as fast as it wrote."""
    world = Turmoil()
    world.submit(intent())
    world.run(30)
    world.server.audit.clear()
    for number in range(60):
        world.edit(INSTANCE, {"metadata": {"annotations": {RETRY: f"token-{number}"}}})
        world.run(1)

    name = f"/{HELM.name}"
    rung = [one for one in world.server.audit.writes(user=world.operator.user) if one.path.endswith(name)]
    assert 5 <= len(rung) <= 7
    world.run(30)
    assert get_path(world.look(HELM), "status", "lastHandledResetAt") == "token-59", "the last one is not lost"


def test_whoever_rang_before_is_in_nobodys_way_REC_14() -> None:
    """`flux reconcile` by hand, and later a retry: FieldConflict for good over the annotation."""
    world = Turmoil()
    world.submit(intent())
    world.run(30)
    for manager in ("flux", "kubectl-annotate"):
        patch = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": f"by-{manager}"}}}
        world.edit(HELM, patch, manager=manager)
        body = {**HELM_RELEASE.manifest(HELM.name, NS), **patch}
        body["metadata"] = {"name": HELM.name, "namespace": NS, **patch["metadata"]}
        run_sync(world.admin.apply(body, kind=HELM_RELEASE, field_manager=f"{manager}-apply", force=True))
        world.run(5)
        world.edit(INSTANCE, {"metadata": {"annotations": {RETRY: f"after-{manager}"}}})
        world.run(60)

        assert get_path(world.look(HELM), "status", "lastHandledResetAt") == f"after-{manager}"
        assert world.condition(INSTANCE, "Blocked") is None
        assert claims_ready(world.look(INSTANCE))


# --- L11: endpoints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inline", "told"),
    [
        ({}, ["http://one.example"]),
        ({"ingress": {"host": "two.example"}}, ["http://two.example"]),
        ({"ingress": {"enabled": False}}, []),
        ({"ingress": {"host": "two.example"}, "certManager": {"enabled": True}}, ["https://two.example"]),
        ({"ingress": {"host": ["two.example"]}}, []),
        ({"ingress": {"host": "two.example/path?x"}}, []),
        ({"ingress": "none"}, []),
    ],
)
def test_the_endpoint_is_the_host_that_is_really_used_RES_1(inline: dict[str, Any], told: list[str]) -> None:
    manifest = instance_manifest(values={"source": "inline", "inline": inline}, integrations=INGRESS)

    decision = decide(manifest, InstanceObserved(NAMESPACE))

    assert [endpoint["url"] for endpoint in get_path(decision.status, "status", "endpoints") or ()] == told


def test_ready_says_the_obstacle_itself_and_follows_it() -> None:
    """`blocked: NameTaken` told a reader of `kubectl get` nothing."""
    taken = {**HELM_RELEASE.manifest("nextcloud", NS), "spec": {}}
    taken["metadata"]["uid"] = "theirs"
    decision = decide(instance_manifest(), InstanceObserved(NAMESPACE, {HELM: taken}))

    assert message_of(decision, "Ready") == message_of(decision, "Blocked")
    assert "exists and was not made for this instance" in message_of(decision, "Ready")
