"""What the simulated source-controller leaves in sources, fact by fact (downstream-status 6.4, 6.5, 7.6, 7.7)."""

import pytest

from kubelab.flux import FluxBehaviour, PullStage, SourceFault, SourceOutcome, SourceRule
from kubelab.flux.artifacts import sha256_of
from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.resources import HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY, SECRET
from tests.support.flux_world import (
    NAME,
    ORG,
    URL,
    FluxWorld,
    conditions_by_type,
    helm_release,
    helm_repository,
    observed_generation,
    oci_repository,
)


def faulty(fault: SourceFault, *, times: int | None = None, message: str = "") -> FluxBehaviour:
    return FluxBehaviour(source_rules=(SourceRule(SourceOutcome(fault, message, times=times)),))


def fetched(behaviour: FluxBehaviour | None = None) -> FluxWorld:
    world = FluxWorld(behaviour)
    world.apply(oci_repository(), OCI_REPOSITORY)
    return world


def test_an_oci_repository_ends_with_its_artifact_and_one_succeeded_condition() -> None:
    world = fetched()
    world.settle()
    digest = sha256_of(f"{URL}:6.6.0")
    revision, status = f"6.6.0@{digest}", world.get(OCI_REPOSITORY)["status"]
    assert world.conditions(OCI_REPOSITORY) == {"Ready": "True/Succeeded", "ArtifactInStorage": "True/Succeeded"}
    assert world.message("Ready", OCI_REPOSITORY) == f"stored artifact for digest '{revision}'"
    assert status["observedGeneration"] == 1
    artifact = status["artifact"]
    assert artifact["revision"] == revision
    assert artifact["path"] == f"ocirepository/{ORG}/{NAME}/{digest}.tar.gz"
    assert artifact["url"].endswith(artifact["path"])
    assert artifact["lastUpdateTime"] == "2026-01-01T00:00:01Z"
    assert artifact["digest"].startswith("sha256:")
    assert artifact["digest"] != digest, "the digest of the stored file, not of what was pulled"
    assert artifact["size"] > 0
    assert status["observedLayerSelector"] == world.get(OCI_REPOSITORY)["spec"]["layerSelector"]


def test_ready_is_true_before_the_artifact_that_belongs_to_it_is_written() -> None:
    world = fetched()
    world.settle()
    steps = [
        (conditions_by_type(state).get("Ready"), bool(get_path(state, "status", "artifact")))
        for state in world.states(OCI_REPOSITORY)
    ]
    assert [step for index, step in enumerate(steps) if step not in steps[:index]] == [
        (None, False),
        ("Unknown/Progressing", False),
        ("True/Succeeded", False),
        ("True/Succeeded", True),
    ]


def test_an_interval_without_news_writes_nothing() -> None:
    world = fetched()
    world.settle()
    version = world.get(OCI_REPOSITORY)["metadata"]["resourceVersion"]
    world.run(3600)
    assert world.get(OCI_REPOSITORY)["metadata"]["resourceVersion"] == version


def test_a_new_tag_keeps_the_old_ready_until_the_registry_answers() -> None:
    world = fetched()
    world.settle()
    world.states(OCI_REPOSITORY)
    world.apply(oci_repository("6.7.0"), OCI_REPOSITORY)
    world.settle()
    states = world.states(OCI_REPOSITORY)
    ready = [conditions_by_type(state)["Ready"] for state in states]
    assert ready == ["True/Succeeded", "True/Succeeded", "Unknown/Progressing", "True/Succeeded", "True/Succeeded"]
    assert conditions_by_type(states[1])["Reconciling"] == "True/Progressing"
    assert conditions_by_type(states[2])["ArtifactOutdated"] == "True/NewRevision"
    assert world.status("artifact", "revision", kind=OCI_REPOSITORY).startswith("6.7.0@")
    assert world.status("observedGeneration", kind=OCI_REPOSITORY) == 2


@pytest.mark.parametrize(
    ("fault", "reason", "text"),
    [
        (SourceFault.NOT_FOUND, "OCIArtifactPullFailed", "MANIFEST_UNKNOWN"),
        (SourceFault.UNAUTHORIZED, "OCIArtifactPullFailed", "UNAUTHORIZED"),
        (SourceFault.CREDENTIALS, "AuthenticationFailed", "failed to get credential"),
        (SourceFault.UNAVAILABLE, "OCIArtifactPullFailed", "no such host"),
        (SourceFault.CORRUPT, "OCIArtifactLayerOperationFailed", "no layers"),
    ],
)
def test_what_goes_wrong_with_a_registry_is_retried_and_named(fault: SourceFault, reason: str, text: str) -> None:
    world = fetched(faulty(fault))
    world.run(300)
    assert world.conditions(OCI_REPOSITORY) == {
        "Ready": f"False/{reason}",
        "FetchFailed": f"True/{reason}",
        "Reconciling": "True/ProgressingWithRetry",
    }
    assert text in world.message("FetchFailed", OCI_REPOSITORY)
    assert observed_generation(world.get(OCI_REPOSITORY)) == -1
    world.flux.behaviour = FluxBehaviour()
    world.run(1000)
    assert world.conditions(OCI_REPOSITORY) == {"Ready": "True/Succeeded", "ArtifactInStorage": "True/Succeeded"}


def test_an_invalid_url_stalls() -> None:
    world = fetched(faulty(SourceFault.INVALID_URL))
    world.settle()
    assert world.conditions(OCI_REPOSITORY) == {
        "Stalled": "True/URLInvalid",
        "Ready": "False/URLInvalid",
        "FetchFailed": "True/URLInvalid",
    }
    assert world.status("observedGeneration", kind=OCI_REPOSITORY) == 1


def test_a_missing_pull_secret_is_an_authentication_failure() -> None:
    world = FluxWorld()
    world.apply(oci_repository(secretRef={"name": "pull"}), OCI_REPOSITORY)
    world.run(10)
    assert world.conditions(OCI_REPOSITORY)["FetchFailed"] == "True/AuthenticationFailed"
    assert 'secrets "pull" not found' in world.message("FetchFailed", OCI_REPOSITORY)
    world.apply(SECRET.manifest("pull", ORG), SECRET)
    world.run(60)
    assert world.conditions(OCI_REPOSITORY)["Ready"] == "True/Succeeded"


def test_passing_trouble_keeps_the_artifact_and_passes() -> None:
    world = fetched()
    world.settle()
    world.flux.behaviour = faulty(SourceFault.UNAVAILABLE, times=3)
    world.run(302)
    assert world.conditions(OCI_REPOSITORY)["Ready"] == "False/OCIArtifactPullFailed"
    assert world.status("artifact", kind=OCI_REPOSITORY)
    assert world.status("observedGeneration", kind=OCI_REPOSITORY) == 1
    world.settle()
    assert world.conditions(OCI_REPOSITORY) == {"Ready": "True/Succeeded", "ArtifactInStorage": "True/Succeeded"}


def test_a_suspended_source_with_a_new_tag_looks_ready_with_the_old_artifact() -> None:
    world = fetched()
    world.apply(helm_release(), HELM_RELEASE)
    world.settle()
    world.apply(oci_repository("6.7.0", suspend=True), OCI_REPOSITORY)
    world.run(301)
    manifest = world.get(OCI_REPOSITORY)
    ready = next(item for item in get_path(manifest, "status", "conditions") if item["type"] == "Ready")
    assert manifest["metadata"]["generation"] == 2
    assert (get_path(manifest, "status", "observedGeneration"), ready["observedGeneration"]) == (2, 2)
    assert ready["status"] == "True"
    assert get_path(manifest, "status", "artifact", "revision").startswith("6.6.0@")
    assert world.conditions()["Ready"] == "True/InstallSucceeded"


def test_a_request_is_told_of_and_answered() -> None:
    world = fetched()
    world.settle()
    world.states(OCI_REPOSITORY)
    world.patch({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}}, OCI_REPOSITORY)
    world.settle()
    reconciling = ["Reconciling" in conditions_by_type(state) for state in world.states(OCI_REPOSITORY)]
    assert reconciling == [False, True, False, False]
    assert world.status("lastHandledReconcileAt", kind=OCI_REPOSITORY) == "now"


def test_a_stalled_source_that_is_suspended_stalls_no_longer() -> None:
    world = fetched(faulty(SourceFault.INVALID_URL))
    world.settle()
    world.apply(oci_repository(suspend=True), OCI_REPOSITORY)
    world.settle()
    assert world.conditions(OCI_REPOSITORY) == {"Ready": "False/URLInvalid", "FetchFailed": "True/URLInvalid"}


def test_another_layer_of_the_same_tag_is_stored_anew() -> None:
    world = fetched()
    world.settle()
    before = world.status("artifact", kind=OCI_REPOSITORY)
    world.apply(oci_repository(layerSelector={"operation": "extract"}), OCI_REPOSITORY)
    world.settle()
    assert world.status("observedLayerSelector", kind=OCI_REPOSITORY) == {"operation": "extract"}
    after = world.status("artifact", kind=OCI_REPOSITORY)
    assert after["revision"] == before["revision"]
    assert after["lastUpdateTime"] > before["lastUpdateTime"]


def test_created_suspended_it_says_nothing() -> None:
    world = FluxWorld()
    world.apply(oci_repository(suspend=True), OCI_REPOSITORY)
    world.settle()
    assert observed_generation(world.get(OCI_REPOSITORY)) == -1
    assert world.conditions(OCI_REPOSITORY) == {}


def test_a_deleted_source_goes_at_once() -> None:
    world = fetched()
    world.settle()
    world.delete(OCI_REPOSITORY)
    assert world.find(OCI_REPOSITORY) is not None, "held by the finalizer"
    world.settle()
    assert world.find(OCI_REPOSITORY) is None


def test_a_classic_repository_has_its_index_as_artifact() -> None:
    world = FluxWorld()
    world.apply(helm_repository(), HELM_REPOSITORY)
    world.settle()
    revision = world.status("artifact", "revision", kind=HELM_REPOSITORY)
    assert revision.startswith("sha256:")
    assert world.status("artifact", "path", kind=HELM_REPOSITORY) == (
        f"helmrepository/{ORG}/{NAME}/index-{revision[7:]}.yaml"
    )
    assert world.conditions(HELM_REPOSITORY) == {"Ready": "True/Succeeded", "ArtifactInStorage": "True/Succeeded"}
    world.flux.behaviour = FluxBehaviour(index_revision=2)
    world.run(400)
    assert world.status("artifact", "revision", kind=HELM_REPOSITORY) != revision


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (SourceFault.CORRUPT, "IndexationFailed"),
        (SourceFault.UNAVAILABLE, "Failed"),
        (SourceFault.NOT_FOUND, "Failed"),
        (SourceFault.UNAUTHORIZED, "Failed"),
        (SourceFault.CREDENTIALS, "AuthenticationFailed"),
    ],
)
def test_what_goes_wrong_with_an_index_is_named(fault: SourceFault, reason: str) -> None:
    rule = SourceRule(SourceOutcome(fault), stage=PullStage.INDEX)
    world = FluxWorld(FluxBehaviour(source_rules=(rule,)))
    world.apply(helm_repository(), HELM_REPOSITORY)
    world.run(30)
    assert world.conditions(HELM_REPOSITORY)["FetchFailed"] == f"True/{reason}"
    assert world.conditions(HELM_REPOSITORY)["Ready"] == f"False/{reason}"
    assert observed_generation(world.get(HELM_REPOSITORY)) == -1


def test_an_oci_url_in_a_classic_repository_stalls() -> None:
    world = FluxWorld()
    world.apply(helm_repository(url="oci://registry.example/charts"), HELM_REPOSITORY)
    world.settle()
    assert world.conditions(HELM_REPOSITORY)["Stalled"] == "True/URLInvalid"


def test_a_repository_of_type_oci_is_static() -> None:
    world = FluxWorld()
    world.apply(helm_repository(type="oci", url="oci://registry.example/charts"), HELM_REPOSITORY)
    world.settle()
    manifest = world.get(HELM_REPOSITORY)
    assert not manifest.get("status"), "the schema's default is emptied, and nothing put in its place"
    assert "finalizers" not in manifest["metadata"]
    world.apply(helm_release(classic="6.6.0"), HELM_RELEASE)
    world.settle()
    assert world.conditions()["Ready"] == "True/InstallSucceeded"
    version = world.get(HELM_REPOSITORY)["metadata"]["resourceVersion"]
    world.run(3600)
    assert world.get(HELM_REPOSITORY)["metadata"]["resourceVersion"] == version
