"""What a kube-apiserver refuses in pods and workloads, beyond what their schemas say (RUN-9)."""

from typing import Any

import pytest

from tests.conformance.test_builtin_rules import APPLY, MERGE, Place, place, refused

__all__ = ["place"]

LABELS = {"app": "a"}
CLAIM: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def template(**pod: Any) -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "m", "image": "x:1"}], **pod}}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "m", "image": "x:1", **fields}]}


def workload(**spec: Any) -> dict[str, Any]:
    return {"selector": {"matchLabels": LABELS}, "template": template(), **spec}


PODS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a port out of range": (
        container(ports=[{"containerPort": 99999}]),
        {"containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive"},
    ),
    "a port with a long name": (
        container(ports=[{"containerPort": 80, "name": "a-very-long-name-here"}]),
        {
            'containers[0].ports[0].name: Invalid value: "a-very-long-name-here": must be no more than 15 characters',
        },
    ),
    "two ports of one name": (
        container(ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]),
        {'containers[0].ports[1].name: Duplicate value: "a"'},
    ),
    "a variable with two values": (
        container(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        {'containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'},
    ),
    "a variable from nowhere": (
        container(env=[{"name": "A", "valueFrom": {}}]),
        {
            'containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
            "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        },
    ),
    "a variable without a name": (
        container(env=[{"name": "", "value": "1"}]),
        {"containers[0].env[0].name: Required value"},
    ),
    "a mount of no volume": (
        container(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        {'containers[0].volumeMounts[0].name: Not found: "data"'},
    ),
    "a volume of two kinds": (
        {"volumes": [{"name": "v", "configMap": {"name": "c"}, "emptyDir": {}}]},
        {"volumes[0].configMap: Forbidden: may not specify more than 1 volume type"},
    ),
    "a ConfigMap without a name": (
        {"volumes": [{"name": "v", "configMap": {}}]},
        {"volumes[0].configMap.name: Required value"},
    ),
    "a claim without a name": (
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]},
        {"volumes[0].persistentVolumeClaim.claimName: Required value"},
    ),
    "a request above its limit": (
        container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        {'containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'},
    ),
    "a negative request": (
        container(resources={"requests": {"memory": "-1Gi"}}),
        {'containers[0].resources.requests[memory]: Invalid value: "-1Gi": must be greater than or equal to 0'},
    ),
    "a container with a bad name": (
        container(name="-m"),
        {
            'containers[0].name: Invalid value: "-m": a lowercase RFC 1123 label must consist of lower case '
            "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  "
            "or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        },
    ),
    "a probe of nothing": (
        container(livenessProbe={}),
        {"containers[0].livenessProbe: Required value: must specify a handler type"},
    ),
    "a probe of two": (
        container(livenessProbe={"tcpSocket": {"port": 80}, "exec": {"command": ["true"]}}),
        {"containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"},
    ),
    "a probe of port 0": (
        container(readinessProbe={"httpGet": {"port": 0}}),
        {"containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive"},
    ),
    "a liveness of two successes": (
        container(livenessProbe={"httpGet": {"port": 80}, "successThreshold": 2}),
        {"containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"},
    ),
    "an init container of a container's name": (
        {"initContainers": [{"name": "m", "image": "x:1"}]},
        {'initContainers[0].name: Duplicate value: "m"'},
    ),
    "an init container with a probe": (
        {"initContainers": [{"name": "i", "image": "x:1", "livenessProbe": {"tcpSocket": {"port": 1}}}]},
        {"initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"},
    ),
    "no DNS": (
        {"dnsPolicy": "None"},
        {"dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"},
    ),
    "a toleration with a value for nothing": (
        {"tolerations": [{"operator": "Exists", "value": "x"}]},
        {"tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'"},
    ),
}
PLACES = {
    "deployments": ("apps/v1", "Deployment", "spec.template.spec"),
    "statefulsets": ("apps/v1", "StatefulSet", "spec.template.spec"),
    "jobs": ("batch/v1", "Job", "spec.template.spec"),
    "cronjobs": ("batch/v1", "CronJob", "spec.jobTemplate.spec.template.spec"),
    "pods": ("v1", "Pod", "spec"),
}


def with_pods(plural: str, pod: dict[str, Any]) -> dict[str, Any]:
    match plural:
        case "deployments" | "statefulsets":
            return workload(template=template(**pod))
        case "jobs":
            return {"template": template(restartPolicy="Never", **pod)}
        case "cronjobs":
            return {"schedule": "@daily", "jobTemplate": {"spec": with_pods("jobs", pod)}}
        case _:
            spec: dict[str, Any] = template(**pod)["spec"]
            return spec


@pytest.mark.slow
@pytest.mark.parametrize("plural", PLACES)
@pytest.mark.parametrize("how", PODS)
def test_a_pod_that_could_not_run_is_refused_wherever_it_stands(place: Place, plural: str, how: str) -> None:
    (group, kind, path), (pod, expected) = PLACES[plural], PODS[how]

    causes = refused(place.create(group, kind, plural, spec=with_pods(plural, pod)))

    assert sorted(f"{field}: {text}" for field, text in causes) == sorted(f"{path}.{cause}" for cause in expected)


ROLLING = "spec.strategy.rollingUpdate"
TOO_MUCH = 'Invalid value: "150%": must not be greater than 100%'
WRONG: dict[str, tuple[str, str, dict[str, Any], set[str]]] = {
    "pods that are not restarted": (
        "Deployment",
        "deployments",
        workload(template=template(restartPolicy="OnFailure")),
        {'spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"'},
    ),
    "pods that end": (
        "StatefulSet",
        "statefulsets",
        workload(serviceName="a", template=template(activeDeadlineSeconds=5)),
        {"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported"},
    ),
    "a rolling Recreate": (
        "Deployment",
        "deployments",
        workload(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        {f"{ROLLING}: Forbidden: may not be specified when strategy `type` is 'Recreate'"},
    ),
    "a roll-out that cannot move": (
        "Deployment",
        "deployments",
        workload(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
        {f'{ROLLING}.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0'},
    ),
    "more than all": (
        "Deployment",
        "deployments",
        workload(strategy={"rollingUpdate": {"maxSurge": "150%", "maxUnavailable": "150%"}}),
        {f"{ROLLING}.maxUnavailable: {TOO_MUCH}"},
    ),
    "a deadline before readiness": (
        "Deployment",
        "deployments",
        workload(progressDeadlineSeconds=5, minReadySeconds=5),
        {"spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"},
    ),
    "a negative partition": (
        "StatefulSet",
        "statefulsets",
        workload(serviceName="a", updateStrategy={"rollingUpdate": {"partition": -1}}),
        {"spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0"},
    ),
    "pods that begin in an unknown order": (
        "StatefulSet",
        "statefulsets",
        workload(podManagementPolicy="Random"),
        {"spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'"},
    ),
    "a claim without a name": (
        "StatefulSet",
        "statefulsets",
        workload(volumeClaimTemplates=[{"spec": CLAIM}]),
        {
            "spec.template.spec.volumes[0].persistentVolumeClaim.claimName: Required value",
            "spec.template.spec.volumes[0].name: Required value",
        },
    ),
    "a claim that hides a volume, and a wrong volume": (
        "StatefulSet",
        "statefulsets",
        workload(
            volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": CLAIM}],
            template=template(volumes=[{"name": "data", "configMap": {}}, {"emptyDir": {}}]),
        ),
        {"spec.template.spec.volumes[1].name: Required value"},
    ),
    "a wrong label of pods": (
        "Deployment",
        "deployments",
        workload(template={**template(), "metadata": {"labels": {**LABELS, "tier": "-x-"}}}),
        {
            'spec.template.labels: Invalid value: "-x-": a valid label must be an empty string or consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
            "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        },
    ),
    "a wrong annotation of pods": (
        "DaemonSet",
        "daemonsets",
        workload(template={**template(), "metadata": {"labels": LABELS, "annotations": {"-b": "x"}}}),
        {
            'spec.template.annotations: Invalid value: "-b": name part must consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
            "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        },
    ),
    "daemons that cannot move": (
        "DaemonSet",
        "daemonsets",
        workload(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
        {"spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", WRONG)
def test_a_workload_that_could_not_be_rolled_out_is_refused(place: Place, how: str) -> None:
    kind, plural, spec, expected = WRONG[how]

    causes = refused(place.create("apps/v1", kind, plural, spec=spec))

    assert sorted(f"{field}: {text}" for field, text in causes) == sorted(expected)


def test_the_pods_of_a_StatefulSet_mount_its_claims(place: Place) -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    pods = {"initContainers": [{"name": "i", "image": "x:1", "volumeMounts": mounts}], **container(volumeMounts=mounts)}
    claims = [{"metadata": {"name": "data"}, "spec": CLAIM}]

    answer = place.create(
        "apps/v1", "StatefulSet", "statefulsets", spec=workload(template=template(**pods), volumeClaimTemplates=claims)
    )

    assert (answer.status, answer.json["spec"]["template"]["spec"].get("volumes")) == (201, None), answer.json


@pytest.mark.parametrize(("kind", "plural"), [("Deployment", "deployments"), ("DaemonSet", "daemonsets")])
def test_the_metadata_of_pods_has_no_empty_values(place: Place, kind: str, plural: str) -> None:
    """Typed clients in Go send `creationTimestamp: null` with each template."""
    sent = {"labels": LABELS, "annotations": {}, "creationTimestamp": None}
    body = {"apiVersion": "apps/v1", "kind": kind, "spec": workload(template={**template(), "metadata": sent})}
    url = place.url("apps/v1", plural, "applied")

    made = place.create("apps/v1", kind, plural, spec=body["spec"])
    applied = place.patch(f"{url}?fieldManager=x", {**body, "metadata": {"name": "applied"}}, APPLY)
    changed = place.patch(url, {"spec": {"template": {"metadata": sent}}})

    assert [answer.status for answer in (made, applied, changed)] == [201, 201, 200]
    for answer in (made, applied, changed):
        assert answer.json["spec"]["template"]["metadata"] == {"labels": LABELS}
    assert changed.json["metadata"]["resourceVersion"] == applied.json["metadata"]["resourceVersion"]


def test_a_wrong_label_of_the_pods_of_a_CronJob_is_refused(place: Place) -> None:
    pods = {**template(restartPolicy="Never"), "metadata": {"labels": {"tier": "-x-"}}}
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": pods}}}

    ((field, text),) = refused(place.create("batch/v1", "CronJob", "cronjobs", spec=spec))

    assert field == "spec.jobTemplate.spec.template.labels"
    assert text.startswith('Invalid value: "-x-": a valid label must be')


def test_an_apply_of_Recreate_does_not_remove_the_default_of_a_rolling_update(place: Place) -> None:
    url = place.url("apps/v1", "deployments", "a")
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    assert place.patch(f"{url}?fieldManager=x", {**body, "spec": workload()}, APPLY).status == 201

    recreate = {**body, "spec": workload(strategy={"type": "Recreate"})}
    causes = refused(place.patch(f"{url}?fieldManager=x", recreate, APPLY))
    removed = place.patch(url, {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}}})

    assert causes == [(ROLLING, "Forbidden: may not be specified when strategy `type` is 'Recreate'")]
    assert (removed.status, removed.json["spec"]["strategy"]) == (200, {"type": "Recreate"})


def test_deleted_on_demand_a_StatefulSet_keeps_no_rolling_update(place: Place) -> None:
    assert place.create("apps/v1", "StatefulSet", "statefulsets", spec=workload(serviceName="a")).status == 201

    answer = place.patch(
        place.url("apps/v1", "statefulsets", "a"), {"spec": {"updateStrategy": {"type": "OnDelete"}}}, MERGE
    )

    [(field, text)] = refused(answer)
    assert field == "spec.updateStrategy.rollingUpdate"
    assert text.endswith("only allowed for updateStrategy 'RollingUpdate'")


# --- scale -----------------------------------------------------------------------------------------------------------


def test_a_scale_shows_which_pods_are_counted(place: Place) -> None:
    rules = [
        {"key": "x", "operator": "In", "values": ["b", "a"]},
        {"key": "y", "operator": "Exists"},
        {"key": "w", "operator": "DoesNotExist"},
        {"key": "c", "operator": "NotIn", "values": ["q"]},
    ]
    labels = {"app": "a", "x": "a", "y": "", "c": "1"}
    pods = {**template(), "metadata": {"labels": labels}}
    spec = {"selector": {"matchLabels": LABELS, "matchExpressions": rules}, "template": pods}
    assert place.create("apps/v1", "Deployment", "deployments", spec=spec).status == 201

    answer = place.wire.send("GET", place.url("apps/v1", "deployments", "a") + "/scale")

    assert answer.json["status"] == {"replicas": 0, "selector": "app=a,c notin (q),!w,x in (a,b),y"}


def test_no_scale_is_negative_or_of_another_object(place: Place) -> None:
    assert place.create("apps/v1", "Deployment", "deployments", spec=workload()).status == 201
    url = place.url("apps/v1", "deployments", "a") + "/scale"
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": -1}}

    applied = place.patch(f"{url}?fieldManager=x&force=true", scale, APPLY)
    other = place.wire.send("PUT", url, {**scale, "metadata": {"name": "b", "namespace": place.namespace}})

    for answer in (place.patch(url, {"spec": {"replicas": -1}}), applied):
        assert refused(answer) == [("spec.replicas", "Invalid value: -1: must be greater than or equal to 0")]
    assert (other.status, place.wire.send("GET", url).json["spec"]) == (400, {"replicas": 1})
