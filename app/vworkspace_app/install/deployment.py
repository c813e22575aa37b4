"""The manifests of the operator's namespace, service account, and a Deployment with a PodDisruptionBudget per shard.

A shard is a part of the operator that reconciles a share of the namespaces.
"""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, Final

from purekube.apimachinery.durations import seconds_of
from purekube.controller.shard import WHOLE, Shard
from vworkspace_app.install.names import INSTANCE_LABELS, NAME
from vworkspace_app.install.network_objects import disruption_budget
from vworkspace_app.install.options import (
    DEFAULT_RESOURCES,
    HEALTH_PORT,
    SHARD_LABEL,
    TLS_FOLDER,
    TLS_SECRET,
    WEBHOOK_FLAGS,
    WEBHOOK_PORT,
    InstallOptions,
    PodOptions,
    meta,
    profile_flags,
)

_USER: Final = 65532
"""The uid that the image runs as."""

BOXES: Final = "/etc/vworkspace/boxes"
"""The folder in the pod with one subfolder for each box (an operator in YAML), named by the box's index."""

RELEASE_SECONDS: Final = 15
"""The seconds by which a pod's termination grace period exceeds `--grace-period`, to release the Lease."""
SHORTEST_GRACE: Final = 45
"""The shortest termination grace period of a pod in seconds, which suits the default of `--grace-period`."""


def namespace_of(options: InstallOptions) -> dict[str, Any]:
    """Return the manifest of the operator's own namespace, which enforces the restricted Pod Security profile."""
    enforced = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    metadata = meta(options.namespace)
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {**metadata, "labels": {**metadata["labels"], **enforced}},
    }


def workload(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the service account, and for each shard a Deployment and a PodDisruptionBudget."""
    account = meta(NAME, options.namespace)
    if options.pods.account_annotations:
        account["annotations"] = dict(options.pods.account_annotations)
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}
    for index in range(options.shards):
        yield from _shard(Shard(index, options.shards), options)


def _shard(shard: Shard, options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the Deployment and the PodDisruptionBudget of one shard.

    With several shards each shard has its own name and selector, because a Deployment's selector is immutable and two
    Deployments must not select the same pods.
    """
    name, more = (NAME, {}) if shard == WHOLE else (f"{NAME}-shard-{shard.index}", {SHARD_LABEL: str(shard.index)})
    selector = {**INSTANCE_LABELS, **more}
    metadata, labels = meta(name, options.namespace), {**meta(NAME)["labels"], **more}
    of_pods: dict[str, Any] = {"labels": {**labels, **options.pods.pod_labels}}
    if options.pods.pod_annotations:
        of_pods["annotations"] = dict(options.pods.pod_annotations)
    metadata = {**metadata, "labels": labels}
    yield deployment(metadata, options.pods.replicas, selector, of_pods, _pod(options, shard, selector))
    yield disruption_budget(metadata, selector)


def deployment(
    metadata: Mapping[str, Any],
    replicas: int,
    selector: Mapping[str, str],
    of_pods: Mapping[str, Any],
    spec: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a Deployment whose pods have the labels `selector`, the metadata `of_pods` and this spec."""
    template = {"metadata": of_pods, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": replicas, "selector": {"matchLabels": selector}, "template": template},
    }


def flags(options: InstallOptions, shard: Shard = WHOLE) -> list[str]:
    """Return the command-line arguments of the operator's container, for the pods of one shard."""
    # [::] takes IPv4 as well: a cluster may give its pods addresses of either family.
    arguments = ["run", f"--namespace={options.namespace}", "--leader-elect", f"--listen=[::]:{HEALTH_PORT}"]
    if shard != WHOLE:
        arguments.append(f"--shard={shard}")
    if not options.agent:
        arguments.append("--no-agent")
    if options.cluster_id:
        arguments.append(f"--cluster-id={options.cluster_id}")
    if options.control_plane_url:
        arguments.append(f"--control-plane-url={options.control_plane_url}")
    if options.velero_namespace:
        arguments.append(f"--velero-namespace={options.velero_namespace}")
    if options.applied_boxes:
        arguments.append("--applied-boxes")
    if options.webhooks:
        arguments += WEBHOOK_FLAGS
    names_account = options.release_account != InstallOptions().release_account
    if names_account:
        arguments.append(f"--service-account={options.release_account}")
    if options.pods.boxes:
        files = (f"{BOXES}/{index}/{box.file}" for index, box in enumerate(options.pods.boxes))
        arguments.append("--box=" + ",".join(files))
    # The profile single-tenant would name no account after it.
    replaced = ("service_account",) if names_account else ()
    arguments += profile_flags(options.profile, options.settings, agent=options.agent, without=replaced)
    return [*arguments, *options.pods.extra_args]


def _pod(options: InstallOptions, shard: Shard, selector: Mapping[str, str]) -> dict[str, Any]:
    runs = container(options.image, options.image_pull_policy.value, flags(options, shard))
    spec = pod(NAME, runs, selector)
    grace = seconds_of(options.settings.get("grace_period", "0s"))
    spec["terminationGracePeriodSeconds"] = max(SHORTEST_GRACE, ceil(grace) + RELEASE_SECONDS)
    if options.webhooks:
        serve_webhooks(spec, TLS_SECRET)
    for index, box in enumerate(options.pods.boxes):
        mount(spec, f"box-{index}", f"{BOXES}/{index}", configMap={"name": box.config_map})
    _have(runs, spec, options.pods)
    return spec


def serve_webhooks(spec: dict[str, Any], secret: str) -> None:
    """Make a pod with this spec serve webhooks with the certificate in a Secret: add a port and a volume in place."""
    spec["containers"][0]["ports"].append({"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"})
    mount(spec, "webhook-tls", TLS_FOLDER, secret={"secretName": secret})


def mount(spec: dict[str, Any], name: str, path: str, **source: Any) -> None:
    """Add a volume with this source to a pod spec, and mount it read-only in the first container at `path`."""
    spec["containers"][0]["volumeMounts"].append({"name": name, "mountPath": path, "readOnly": True})
    spec["volumes"].append({"name": name, **source})


def _have(runs: dict[str, Any], spec: dict[str, Any], chosen: PodOptions) -> None:
    """Apply the options in `chosen` to a pod: its container `runs` and pod spec `spec` are changed in place."""
    runs["resources"] = dict(chosen.resources)
    runs["volumeMounts"] += [dict(volume_mount) for volume_mount in chosen.extra_volume_mounts]
    spec["volumes"] += [dict(volume) for volume in chosen.extra_volumes]
    if chosen.env:
        runs["env"] = [{"name": name, "value": value} for name, value in chosen.env.items()]
    if chosen.affinity:
        spec["affinity"] = dict(chosen.affinity)
    further = {
        "imagePullSecrets": [{"name": name} for name in chosen.pull_secrets],
        "nodeSelector": dict(chosen.node_selector),
        "tolerations": [dict(toleration) for toleration in chosen.tolerations],
        "topologySpreadConstraints": [dict(one) for one in chosen.topology_spread_constraints],
        "priorityClassName": chosen.priority_class_name,
    }
    spec.update({field: value for field, value in further.items() if value})


def pod(account: str, runs: dict[str, Any], selector: Mapping[str, str]) -> dict[str, Any]:
    """Return the pod spec with the container `runs`, in the form that the restricted Pod Security profile requires.

    The pod runs as the ServiceAccount `account`. The pods with the labels `selector` are preferably scheduled to
    different nodes.
    """
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector}}
    preferred = [{"weight": 100, "podAffinityTerm": apart}]
    return {
        "serviceAccountName": account,
        "terminationGracePeriodSeconds": SHORTEST_GRACE,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            # The kubelet gives files of volumes this group, so that the user can read a mounted Secret.
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        "containers": [runs],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }


def container(image: str, pull_policy: str, arguments: list[str]) -> dict[str, Any]:
    """Return the container that runs the operator with these arguments, with its ports and probes."""
    return {
        "name": "operator",
        "image": image,
        **({"imagePullPolicy": pull_policy} if pull_policy else {}),
        "args": arguments,
        "ports": [{"name": "metrics", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "livenessProbe": _probe("/healthz", initialDelaySeconds=15, periodSeconds=20, failureThreshold=3),
        "readinessProbe": _probe("/readyz", periodSeconds=5),
        "resources": dict(DEFAULT_RESOURCES),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        # TLS libraries read the control plane's client certificate only from a file.
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def _probe(path: str, **more: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "metrics"}, "timeoutSeconds": 3, **more}
