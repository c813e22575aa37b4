"""Everything that the reconciler produces is accepted by the CRDs it is meant for, whatever valid spec it had.

Judged by the embedded API server: structural schema, strict field validation, the CEL rules. Against Flux's own
CRDs, where they are at hand beside the repository, and against the ones that the simulated Flux brings, always.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kubelab.flux.crds import flux_crds
from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import Invalid
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.meta import KeyRef, ObjectMeta
from purekube.apimachinery.resources import (
    CONFIG_MAP,
    HELM_RELEASE,
    HELM_REPOSITORY,
    OCI_REPOSITORY,
)
from purekube.controller.decision import Decision
from tests.support import strategies as generated
from tests.support.effort import effort
from tests.support.furnished import furnish
from tests.support.instance_worlds import stored
from tests.support.projects_crds import projects_crds
from vworkspace_core.api.application_instance import (
    ApplicationInstance,
    IngressIntegration,
    Integrations,
    Mode,
    ReleaseOverride,
    Toggle,
    Values,
    ValuesSource,
)
from vworkspace_core.api.chart import SourceType
from vworkspace_core.api.codec import read_application_instance, unstructure
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FIELD_MANAGER, FINALIZER, RETRY
from vworkspace_core.api.release_override import spec_hash
from vworkspace_core.instances.context import Context, InstanceObserved, Settings
from vworkspace_core.instances.reconcile import reconcile

NS = "org-myteam"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
ENOUGH = settings(max_examples=effort(1), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@attrs.frozen
class Judge:
    """An API server that says whether it would take a manifest. Nothing is kept but one instance for statuses."""

    kube: InProcessKube

    @classmethod
    def with_crds(cls, crds: Sequence[Mapping[str, Any]]) -> "Judge":
        """With these CRDs beside our own."""
        kube = InProcessKube(ApiServer(now=lambda: NOW))
        furnish(kube, (*crd_manifests(), *crds), NS)
        return cls(kube)

    def takes(self, manifest: Manifest, kind: Kind) -> Manifest:
        """The manifest as it would be stored. Raises what the API server raises."""
        return run_sync(self.kube.apply(manifest, kind=kind, field_manager=FIELD_MANAGER, dry_run=True))

    def takes_status(self, source: ApplicationInstance, status: Manifest) -> Manifest:
        """The instance with its new status, both stored."""
        body = _as_sent(source)
        live = run_sync(self.kube.apply(body, kind=APPLICATION_INSTANCE, field_manager=FIELD_MANAGER, force=True))
        meta = {"name": live["metadata"]["name"], "namespace": NS}
        try:
            return run_sync(
                self.kube.apply_status(
                    {**status, "metadata": meta}, kind=APPLICATION_INSTANCE, field_manager=FIELD_MANAGER
                )
            )
        finally:
            run_sync(self.kube.delete(ObjectRef(APPLICATION_INSTANCE, NS, live["metadata"]["name"])))


def _as_sent(source: ApplicationInstance) -> dict[str, Any]:
    """What the agent applies: spec, labels and annotations."""
    manifest = unstructure(source)
    meta = {key: value for key, value in manifest["metadata"].items() if key in ("labels", "annotations")}
    kind = {"apiVersion": APPLICATION_INSTANCE.api_version, "kind": APPLICATION_INSTANCE.kind}
    return {**kind, "metadata": {"name": "probe", "namespace": NS, **meta}, "spec": manifest["spec"]}


@pytest.fixture(scope="module", params=["Flux's own CRDs", "the simulated Flux's CRDs"])
def judge(request: pytest.FixtureRequest) -> Iterator[Judge]:
    """An API server for each set of CRDs."""
    if request.param != "Flux's own CRDs":
        yield Judge.with_crds(flux_crds())
        return
    yield Judge.with_crds([*projects_crds("*.toolkit.fluxcd.io_*.yaml").values()])


@cache
def go_durations() -> st.SearchStrategy[str]:
    """What `--interval` and `--timeout` admit."""
    number = st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,3})?", fullmatch=True)
    part = st.builds(str.__add__, number, st.sampled_from(["ms", "s", "m", "h"]))
    return st.lists(part, min_size=1, max_size=3).map("".join)


@cache
def contexts() -> st.SearchStrategy[Context]:
    """Any settings that `run` admits."""
    decided = st.builds(
        Settings,
        cluster_id=st.just(generated.CLUSTER_ID),
        interval=go_durations(),
        timeout=go_durations(),
        drift_detection=st.sampled_from(["enabled", "warn", "disabled"]),
        default_service_account=st.none() | generated.dns_labels(),
        allow_unimpersonated_releases=st.just(True),
    )
    return decided.map(lambda chosen: Context(chosen, NOW))


@cache
def sources(**kind: Any) -> st.SearchStrategy[ApplicationInstance]:
    """Managed instances that are ours, settled or new, with and without a retry token."""
    found = generated.application_instances(mode=Mode.MANAGED, **kind)
    tokens = st.sampled_from([{}, {RETRY: "once-more"}])

    def living(source: ApplicationInstance, annotations: Mapping[str, str]) -> ApplicationInstance:
        meta: ObjectMeta = attrs.evolve(
            source.metadata,
            deletion_timestamp=None,
            finalizers=(FINALIZER,),
            annotations={**source.metadata.annotations, **annotations},
        )
        return attrs.evolve(source, metadata=meta)

    return st.builds(living, found, tokens)


@attrs.frozen
class Situation:
    """An instance and what is seen of its cluster: a gated namespace, and perhaps an Operation that overrides it."""

    source: ApplicationInstance
    observed: InstanceObserved


@cache
def situations() -> st.SearchStrategy[Situation]:
    """Any, with overrides in force as well as ones that newer intent has overtaken."""

    def seen(source: ApplicationInstance, override: ReleaseOverride | None, in_force: bool) -> Situation:
        if override is not None and in_force:
            override = attrs.evolve(override, spec_hash=spec_hash(source.spec))
        return Situation(source, InstanceObserved(generated.gated_namespace(NS), override=override))

    return st.builds(seen, sources(), st.none() | generated.release_overrides(), st.booleans())


@pytest.mark.slow
@ENOUGH
@given(situation=situations(), context=contexts())
def test_every_downstream_manifest_is_accepted(judge: Judge, situation: Situation, context: Context) -> None:
    decision = reconcile(situation.source, situation.observed, context)

    assert {apply.kind for apply in decision.applies} >= {HELM_RELEASE}, _told(decision)
    for apply in decision.applies:
        taken = judge.takes(apply.manifest, apply.kind)
        assert _contains(taken, apply.manifest), f"{apply.ref} lost something on the way"
        event(apply.kind.kind)


def _contains(stored: Any, sent: Any) -> bool:
    """Whether everything that was sent is there; defaults may have come to it."""
    if isinstance(sent, Mapping):
        return isinstance(stored, Mapping) and all(k in stored and _contains(stored[k], v) for k, v in sent.items())
    if isinstance(sent, list | tuple):
        return len(stored) == len(sent) and all(_contains(have, want) for have, want in zip(stored, sent, strict=True))
    return bool(stored == sent)


def _told(decision: Decision) -> str:
    return str(None if decision.status is None else decision.status["status"])


@pytest.mark.slow
@ENOUGH
@given(situation=situations(), context=contexts())
def test_every_status_is_accepted(judge: Judge, situation: Situation, context: Context) -> None:
    decision = reconcile(situation.source, situation.observed, context)

    if decision.status is not None:
        status = judge.takes_status(situation.source, decision.status)["status"]
        assert _contains(status, decision.status["status"])
    event("status" if decision.status is not None else "no status")


@ENOUGH
@given(source=generated.application_instances(fresh=True))
def test_every_instance_that_admission_lets_in_is_accepted_by_our_own_crd(
    judge: Judge, source: ApplicationInstance
) -> None:
    body = _as_sent(source)

    taken = judge.takes(body, APPLICATION_INSTANCE)

    assert _contains(taken, body)


@pytest.mark.parametrize("source_type", SourceType)
@pytest.mark.parametrize("values_source", [None, *ValuesSource])
@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize("integrated", [False, True])
@pytest.mark.parametrize("overridden", [False, True])
def test_every_combination_of_features_produces_what_it_should_and_is_accepted(
    judge: Judge,
    source_type: SourceType,
    values_source: ValuesSource | None,
    suspend: bool,
    integrated: bool,
    overridden: bool,
) -> None:
    source = featured(source_type, values_source, suspend, integrated)
    override = ReleaseOverride("upgrade-1", "u-1", spec_hash(source.spec), "7.0.0", {"replicas": 3})
    observed = InstanceObserved(generated.gated_namespace(NS), override=override if overridden else None)

    decision = reconcile(source, observed, CONTEXT)

    kinds = [apply.kind for apply in decision.applies]
    referenced = values_source in (ValuesSource.SECRET_REF, ValuesSource.CONFIG_MAP_REF)
    desired = {HELM_RELEASE, OCI_REPOSITORY if source_type is SourceType.OCI else HELM_REPOSITORY}
    assert set(kinds) == desired | ({CONFIG_MAP} if integrated and referenced else set())
    for apply in decision.applies:
        judge.takes(apply.manifest, apply.kind)
    spec = next(apply.manifest["spec"] for apply in decision.applies if apply.kind == HELM_RELEASE)
    assert spec.get("suspend", False) is suspend
    assert len(spec.get("valuesFrom", ())) == referenced * (1 + integrated)
    assert (spec.get("values", {}).get("replicas") == 3) is overridden


CONTEXT = Context(Settings(generated.CLUSTER_ID, default_service_account="deployer"), NOW)


def featured(
    source_type: SourceType, values_source: ValuesSource | None, suspend: bool, integrated: bool
) -> ApplicationInstance:
    """An instance with these features, with secrets for its chart's source."""
    url = "oci://registry.example.test/charts" if source_type is SourceType.OCI else "https://charts.example.test"
    chart = {"sourceType": source_type.value, "url": url, "name": "nextcloud", "version": "6.6.0+build.5"}
    references = {"secretRef": {"name": "pull"}, "certSecretRef": {"name": "authority"}}
    labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": generated.CLUSTER_ID}
    manifest = {
        "apiVersion": APPLICATION_INSTANCE.api_version,
        "kind": APPLICATION_INSTANCE.kind,
        "metadata": {"name": "nextcloud", "namespace": NS, "labels": labels, "finalizers": [FINALIZER]},
        "spec": {
            "appRef": {"catalogId": "nextcloud"},
            "chart": chart | references,
            "release": {"name": "nextcloud", "namespace": NS},
            "suspend": suspend,
        },
    }
    source = read_application_instance(stored(manifest))
    integrations = Integrations(Toggle(True), Toggle(True), IngressIntegration(enabled=True, host="a.example.test"))
    return attrs.evolve(
        source,
        spec=attrs.evolve(source.spec, values=VALUES[values_source], integrations=integrations if integrated else None),
    )


VALUES: Mapping[ValuesSource | None, Values | None] = {
    None: None,
    ValuesSource.INLINE: Values(ValuesSource.INLINE, inline={"a": {"b": [1, None, "x"]}}),
    ValuesSource.SECRET_REF: Values(ValuesSource.SECRET_REF, secret_ref=KeyRef("values", "values.yaml")),
    ValuesSource.CONFIG_MAP_REF: Values(ValuesSource.CONFIG_MAP_REF, config_map_ref=KeyRef("values", "values.yaml")),
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "interval"), "soon"),
        (("spec", "driftDetection", "mode"), "maybe"),
        (("spec", "chartRef", "kind"), "Chart"),
        (("spec", "releaseNam"), "typo"),
        (("spec", "upgrade", "remediation", "strategy"), "pray"),
    ],
)
def test_a_manifest_that_is_wrong_would_be_found(judge: Judge, path: tuple[str, ...], value: str) -> None:
    decision = reconcile(
        featured(SourceType.OCI, None, False, False), InstanceObserved(generated.gated_namespace(NS)), CONTEXT
    )
    release = next(apply.manifest for apply in decision.applies if apply.kind == HELM_RELEASE)

    with pytest.raises(Invalid):
        judge.takes(_with(release, path, value), HELM_RELEASE)


def _with(manifest: Any, path: Sequence[str], value: Any) -> Any:
    """A copy with one field changed or added."""
    if not path:
        return value
    return {**manifest, path[0]: _with(manifest.get(path[0], {}), path[1:], value)}
