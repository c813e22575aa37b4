"""What `uninstall` says before it begins: the question, and what it refuses (RUN-7)."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.definitions import BOX_NAME, OPERATOR_BOX
from purekube.apimachinery.errors import Forbidden, OperatorError, Unavailable
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef
from purekube.apimachinery.meta import ABANDON
from purekube.apimachinery.resources import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    LEASE,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE_ACCOUNT,
)
from purekube.apimachinery.timestamps import microtime
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION
from purekube.ports import KubeRequest, KubeVerb, Layer, Send
from purekube_run.process.command_line import CommandError
from tests.support.uninstall_world import OWN_NS, Uninstalling
from vworkspace_app.commands.shared.session import SITE, CommandContext
from vworkspace_app.commands.uninstall import (
    elsewhere,
    obstacle,
    print_boxes,
    print_other_objects,
    question,
    record_left,
    uninstall,
)
from vworkspace_app.install import InstallOptions, installation
from vworkspace_app.install.names import APPLIED_BOXES
from vworkspace_app.install.options import PodOptions
from vworkspace_app.uninstall import Inventory, Stuck, Waiting, steps_of, take_inventory
from vworkspace_core.api.installation import Installation, InstallTool
from vworkspace_core.api.kinds import APPLICATION_INSTANCE
from vworkspace_core.api.labels import FINALIZER


def instance(name: str, **meta: Any) -> Manifest:
    return {**APPLICATION_INSTANCE.manifest(name, "org"), "metadata": {"name": name, "namespace": "org", **meta}}


def deployed(name: str, **meta: Any) -> Manifest:
    return instance(name, uid=name, finalizers=[FINALIZER], **meta)


MARKED = deployed("marked", annotations={ABANDON: "true"})


@pytest.mark.parametrize(
    ("instances", "keep", "said"),
    [
        ((), False, "This would remove the operator."),
        ((instance("foreign"),), False, "This would remove the operator."),
        (
            (deployed("a"),),
            False,
            "This would remove the operator and uninstall 1 application, with what the charts delete.",
        ),
        (
            (deployed("a"), deployed("b"), MARKED),
            False,
            "This would remove the operator and uninstall 2 applications, with what the charts delete. "
            f"1 application, marked {ABANDON}, would stay.",
        ),
        ((), True, "This would remove the operator."),
        ((deployed("a"), MARKED), True, "This would remove the operator. 2 applications would stay with Flux alone."),
    ],
)
def test_the_question_is_a_sentence_for_any_number_of_applications(
    instances: tuple[Manifest, ...], keep: bool, said: str
) -> None:
    # Nothing else tells that the context of the kubeconfig is that of another cluster.
    whole = f"{said} The API server is https://prod:6443."
    assert question(Inventory("system", instances=instances), "https://prod:6443", keep_applications=keep) == whole


CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs")
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def lease(age: timedelta) -> Manifest:
    spec = {"holderIdentity": "pod_1", "leaseDurationSeconds": 15, "renewTime": microtime(NOW - age)}
    return {**LEASE.manifest("vworkspace-operator", "system"), "spec": spec}


def test_applications_need_an_operator_that_holds_its_lease() -> None:
    left = Inventory("system", instances=(deployed("a"),), leases=(lease(timedelta(hours=1)),))
    said = obstacle(left, NOW, keep_applications=False)
    assert said.startswith("no operator runs in system (its Lease was last renewed at 2026-06-01T11:00:00")
    assert "without one 1 application cannot be uninstalled" in said
    assert obstacle(left, NOW, keep_applications=True) == ""
    held = Inventory("system", instances=left.instances, leases=(lease(timedelta(seconds=2)),))
    assert obstacle(held, NOW, keep_applications=False) == ""


def test_without_an_application_no_operator_is_needed() -> None:
    left = Inventory("system", instances=(instance("foreign"),), leases=(lease(timedelta(hours=1)),))
    assert obstacle(left, NOW, keep_applications=False) == ""


def test_a_step_tells_what_is_uninstalled_from_what_is_merely_deleted() -> None:
    instances = (instance("foreign"), deployed("a"), MARKED)
    inventory = Inventory("system", instances=instances)
    world = Uninstalling(collects=True, leads=False)
    waiting = Waiting(1.0, lambda: NOW, anyio.sleep)
    (step,) = steps_of(world.admin, inventory, waiting, keep_applications=False)
    assert step.title == (
        "uninstall, by Flux, and delete 1 ApplicationInstance (org/a); "
        "delete 1 ApplicationInstance (org/foreign), which deployed nothing; "
        "delete 1 ApplicationInstance (org/marked), but keep what was deployed"
    )


@pytest.mark.parametrize(
    ("labels", "stays"),
    [
        ({"app.kubernetes.io/name": "vworkspace-box-webapp"}, True),
        ({"helm.toolkit.fluxcd.io/name": "a", "helm.toolkit.fluxcd.io/namespace": OWN_NS}, False),
        ({"app.kubernetes.io/name": "vworkspace-operator"}, False),
    ],
)
def test_the_namespace_stays_while_others_run_in_it(labels: dict[str, str], stays: bool) -> None:
    """`box manifests` puts the operator of a box there by default: `uninstall` deleted it with the namespace."""
    api = InProcessKube(ApiServer(now=lambda: NOW))
    own = {"name": OWN_NS, "labels": {"app.kubernetes.io/name": "vworkspace-operator"}}
    run_sync(api.create({**NAMESPACE.manifest(OWN_NS), "metadata": own}, kind=NAMESPACE, field_manager="admin"))
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    body = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pods}}
    meta = {"name": "box", "namespace": OWN_NS, "labels": labels}
    made = {**DEPLOYMENT.manifest("box", OWN_NS), **body, "metadata": meta}
    run_sync(api.create(made, kind=DEPLOYMENT, field_manager="admin"))
    inventory = run_sync(take_inventory(api, OWN_NS))
    steps = steps_of(api, inventory, Waiting(1, lambda: NOW, anyio.sleep), keep_applications=False)
    assert any("Namespace" in step.title for step in steps) is not stays
    assert [ref.name for ref in inventory.neighbours] == ["box"] * stays


VOLUME = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
NIGHTLY = {
    "schedule": "0 3 * * *",
    "jobTemplate": {
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}
    },
}


@pytest.mark.parametrize(("kind", "spec"), [(PERSISTENT_VOLUME_CLAIM, VOLUME), (CRON_JOB, NIGHTLY)])
def test_the_namespace_stays_while_there_are_data_or_schedules_of_others_in_it(kind: Kind, spec: Manifest) -> None:
    """A claim went with the namespace, and its volume with the claim."""
    api = with_namespace(ApiServer(now=lambda: NOW))
    run_sync(api.create({**kind.manifest("theirs", OWN_NS), "spec": spec}, kind=kind, field_manager="admin"))
    inventory = run_sync(take_inventory(api, OWN_NS))
    assert inventory.namespace_to_delete(keep_applications=False) is None
    assert [ref.name for ref in inventory.neighbours] == ["theirs"]


def with_namespace(server: ApiServer) -> InProcessKube:
    """A cluster that has the operator's namespace."""
    api, own = InProcessKube(server), {"name": OWN_NS, "labels": {"app.kubernetes.io/name": "vworkspace-operator"}}
    run_sync(api.create({**NAMESPACE.manifest(OWN_NS), "metadata": own}, kind=NAMESPACE, field_manager="admin"))
    return api


def test_alerts_and_certificates_go_although_the_namespace_stays() -> None:
    """The PrometheusRule stayed where others run, and its alert that no operator is there never ended."""
    api = with_namespace(ApiServer(now=lambda: NOW))
    options = InstallOptions(namespace=OWN_NS, service_monitor=True, prometheus_rule=True, cert_manager=True)
    kinds = ("ServiceMonitor", "PrometheusRule", "Issuer", "Certificate")
    foreign = [one for one in installation(options) if one["kind"] in kinds]
    assert len(foreign) == 4
    for manifest in foreign:
        group, _, version = manifest["apiVersion"].partition("/")
        kind = Kind(group, version, manifest["kind"], f"{manifest['kind'].lower()}s")
        run_sync(api.create(anything(kind), kind=CUSTOM_RESOURCE_DEFINITION, field_manager="admin"))
        run_sync(api.create(manifest, kind=kind, field_manager="admin"))
    beside = run_sync(take_inventory(api, OWN_NS)).beside
    assert {(ref.kind.kind, ref.name) for ref in beside} >= {(one["kind"], one["metadata"]["name"]) for one in foreign}


def test_an_operator_in_another_namespace_is_named_before_anything_is_deleted() -> None:
    """With the default of --system-namespace, webhooks and applications went first, and then nothing that runs."""
    api = with_namespace(ApiServer(now=lambda: NOW))
    run_sync(api.create(NAMESPACE.manifest("ops"), kind=NAMESPACE, field_manager="admin"))
    (made,) = (one for one in installation(InstallOptions(namespace="ops")) if one["kind"] == "Deployment")
    run_sync(api.create(made, kind=DEPLOYMENT, field_manager="kubectl"))
    said = "runs in namespace ops, not in vworkspace-system: give --system-namespace ops"
    assert said in elsewhere(run_sync(take_inventory(api, OWN_NS)))
    assert elsewhere(run_sync(take_inventory(api, "ops"))) == ""


def test_a_namespace_that_is_not_there_is_not_said_to_stay(capsys: pytest.CaptureFixture[str]) -> None:
    api = with_namespace(ApiServer(now=lambda: NOW))
    print_other_objects(run_sync(take_inventory(api, "vworkspace-sytem")), dry_run=True, keep_applications=False)
    assert capsys.readouterr().out == ""


def anything(kind: Kind) -> Manifest:
    """The CRD of a kind that may hold anything."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower(), "listKind": f"{kind.kind}List"}
    versions = [{"name": kind.version, "served": True, "storage": True, "schema": schema}]
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": versions}
    return {**CUSTOM_RESOURCE_DEFINITION.manifest(kind.crd_name), "spec": spec}


@pytest.mark.parametrize(
    "container",
    [
        {"args": ["run", "--leader-elect", "--leader-elect-resource-name=ours"]},
        {"args": ["run", "--leader-elect", "--leader-elect-resource-name", "ours"]},
        {"args": ["run"], "env": [{"name": "VWORKSPACE_LEADER_ELECT_RESOURCE_NAME", "value": "ours"}]},
    ],
)
def test_a_lease_of_another_name_is_waited_for_too(container: dict[str, Any]) -> None:
    """Its pods still reconciled while the CRDs were deleted, and no step said that one of them leads."""
    api = InProcessKube(ApiServer(now=lambda: NOW))
    run_sync(api.create(NAMESPACE.manifest(OWN_NS), kind=NAMESPACE, field_manager="admin"))
    pods = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a", **container}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pods}
    made = {**DEPLOYMENT.manifest("vworkspace-operator-shard-0", OWN_NS), "spec": spec}
    run_sync(api.create(made, kind=DEPLOYMENT, field_manager="admin"))
    for name in ("ours", "ours-shard-1", "of-others"):
        held = {**LEASE.manifest(name, OWN_NS), "spec": lease(timedelta(0))["spec"]}
        run_sync(api.create(held, kind=LEASE, field_manager="admin"))

    inventory = run_sync(take_inventory(api, OWN_NS))
    assert [one["metadata"]["name"] for one in inventory.leases] == ["ours", "ours-shard-1"]
    steps = list(steps_of(api, inventory, Waiting(0, lambda: NOW, anyio.sleep), keep_applications=True))
    with pytest.raises(Stuck, match="pod_1 still renews Lease vworkspace-system/ours, vworkspace-system/ours-shard-1"):
        anyio.run(steps[0].act)


@pytest.mark.parametrize(
    ("keeper", "namespace", "said"),
    [
        (
            InstallTool.HELM,
            None,
            "last: helm uninstall ops --namespace vworkspace-system, which removes Helm's record of the release",
        ),
        (InstallTool.HELM, ObjectRef(NAMESPACE, None, OWN_NS), ""),
        (InstallTool.FLUX_HELM_RELEASE, None, ""),
        (InstallTool.NOBODY, None, ""),
    ],
)
def test_the_record_of_helm_is_named_where_it_stays(
    keeper: InstallTool, namespace: ObjectRef | None, said: str
) -> None:
    """`helm install` of the same release was refused afterwards: the name is still in use."""
    of_helm = Installation(OWN_NS, True, keeper, "ops", OWN_NS)
    inventory = Inventory(OWN_NS, namespace=namespace, installation=of_helm)
    assert record_left(inventory, keep_applications=False) == said


def with_a_box(*deployments: Manifest) -> InProcessKube:
    """A cluster with one OperatorBox and its revision, and with these Deployments."""
    api = with_namespace(ApiServer(now=lambda: NOW))
    definition, revision = anything(OPERATOR_BOX), CONTROLLER_REVISION.manifest("webapp-1", OWN_NS)
    definition["spec"]["scope"] = "Cluster"
    revision |= {"data": {}, "revision": 1, "metadata": {**revision["metadata"], "labels": {BOX_NAME: "webapp"}}}
    for kind, manifest in (
        (CUSTOM_RESOURCE_DEFINITION, definition),
        (OPERATOR_BOX, OPERATOR_BOX.manifest("webapp")),
        (CONTROLLER_REVISION, revision),
        *((DEPLOYMENT, made) for made in deployments),
    ):
        run_sync(api.create(manifest, kind=kind, field_manager="admin"))
    return api


def operators(*arguments: str) -> Manifest:
    """The Deployment of an operator with these further arguments."""
    options = InstallOptions(namespace=OWN_NS, pods=PodOptions(extra_args=arguments))
    return next(one for one in installation(options) if one["kind"] == "Deployment")


def test_boxes_that_nothing_runs_afterwards_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """They stayed without a word, and their finalizers kept each of their objects for ever."""
    api = with_a_box(operators("--applied-boxes", "--controllers=shops"))
    inventory = run_sync(take_inventory(api, OWN_NS))
    said = question(inventory, "https://prod:6443", keep_applications=False)
    assert "1 OperatorBox (webapp) would stay, but not run." in said
    print_other_objects(inventory, dry_run=True, keep_applications=False)
    told = capsys.readouterr().out
    assert "would stay: 1 OperatorBox (webapp), with the objects of their kinds" in told
    assert "would stay: the objects of --controllers shops, which nothing runs" in told
    # Their revisions went with the namespace, and later operators left the objects of older ones alone.
    assert inventory.namespace_to_delete(keep_applications=False) is None


def test_boxes_of_another_process_are_not_the_operators(capsys: pytest.CaptureFixture[str]) -> None:
    boxes = {**operators()["metadata"], "name": APPLIED_BOXES, "labels": {"app.kubernetes.io/name": APPLIED_BOXES}}
    api = with_a_box(operators(), {**operators(), "metadata": boxes})
    inventory = run_sync(take_inventory(api, OWN_NS))
    assert (inventory.boxes, inventory.extensions) == ((), ())
    print_boxes(inventory, "stays")
    assert capsys.readouterr().out == ""


class AtHand(CommandContext):
    """The environment of commands with a cluster in memory, through a layer."""

    def __init__(self, api: InProcessKube, layer: Layer) -> None:
        self._api = api.through(layer)

    def run(self, kubeconfig: Path | None, work: Any) -> Any:
        return anyio.run(work, self._api)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unavailable("the connection broke"), ""),
        (Forbidden("not allowed"), "step 2 did not finish, and no later step was started: not allowed. Then run"),
    ],
)
def test_an_error_of_a_step_is_told_and_a_lost_connection_is_waited_for(error: OperatorError, said: str) -> None:
    """An upgrade of the control plane ended it with a line that did not say that it had begun, nor how to go on."""
    api = InProcessKube(ApiServer(now=lambda: NOW))
    run_sync(api.create(NAMESPACE.manifest(OWN_NS), kind=NAMESPACE, field_manager="admin"))
    for name in ("one", "two"):
        account = {**SERVICE_ACCOUNT.manifest(name, OWN_NS)}
        account["metadata"] = {**account["metadata"], "labels": {"app.kubernetes.io/name": "vworkspace-operator"}}
        run_sync(api.create(account, kind=SERVICE_ACCOUNT, field_manager="admin"))
    errors = [error]

    async def broken(request: KubeRequest, proceed: Send) -> Manifest:
        if request.verb is KubeVerb.DELETE and request.name == "two" and errors:
            raise errors.pop()
        return await proceed(request)

    token = SITE.set(AtHand(api, broken))
    try:
        if said:
            with pytest.raises(CommandError, match=said):
                uninstall(yes=True, timeout=30)
        else:
            uninstall(yes=True, timeout=30)
    finally:
        SITE.reset(token)
    left = [one["metadata"]["name"] for one in run_sync(api.list(SERVICE_ACCOUNT, namespace=OWN_NS)).items]
    assert ("two" in left) is bool(said)
