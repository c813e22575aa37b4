"""Further differences that objects with random changes showed on a kube-apiserver 1.36 (RUN-8, RUN-9)."""

from typing import Any, Final

import pytest

from tests.conformance.test_builtin_rules import Place, place, refused
from tests.support.effort import unused_name
from tests.support.server_thread import Answer

__all__ = ["place"]

LABELS: Final = {"a": "b"}
PODS: Final = {"containers": [{"name": "c", "image": "i"}]}
LABEL_TEXT: Final = "a valid label must be an empty string or consist of"


def template(labels: Any = LABELS, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {**PODS, **spec}}


def workload(place: Place, kind: str, query: str = "", **spec: Any) -> Answer:
    whole = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": whole}
    return place.wire.send("POST", place.url("apps/v1", f"{kind.lower()}s") + query, body)


def fields(answer: Answer) -> list[str]:
    return [field for field, _ in refused(answer)]


# --- what is stored --------------------------------------------------------------------------------------------------


def test_a_job_keeps_its_own_labels(place: Place) -> None:
    """Only those that it has from its template are the template's, with the labels that the Job's uid determines."""
    generated = {"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"}
    spec = {"template": template(restartPolicy="Never")}
    for name, labels, expected in (("a", LABELS, {"a"}), ("b", {"x": "y"}, {"x"}), ("c", None, {"a", *generated})):
        made = place.create("batch/v1", "Job", "jobs", metadata={"name": name, "labels": labels}, spec=spec)
        assert made.json["metadata"]["labels"].keys() == expected
        assert made.json["spec"]["template"]["metadata"]["labels"].keys() == {"a", *generated}


def test_a_daemon_set_counts_its_templates(place: Place) -> None:
    key, url = "deprecated.daemonset.template.generation", place.url("apps/v1", "daemonsets", "a")
    made = workload(place, "DaemonSet").json["metadata"]
    assert made["annotations"] == {key: "1"}
    assert f"f:{key}" in made["managedFields"][0]["fieldsV1"]["f:metadata"]["f:annotations"]
    paused = place.patch(url, {"spec": {"minReadySeconds": 5}})
    assert (paused.json["metadata"]["annotations"], paused.json["metadata"]["generation"]) == ({key: "1"}, 2)
    changed = place.patch(url, {"metadata": {"annotations": {"x": "y"}}, "spec": {"template": template(x=None)}})
    assert changed.json["metadata"]["annotations"] == {key: "1", "x": "y"}
    body = {"spec": {"template": {"spec": {"hostname": "h"}}}}
    assert place.patch(url, body).json["metadata"]["annotations"] == {key: "2", "x": "y"}
    gone = place.patch(url, {"metadata": {"annotations": None}})
    assert gone.json["metadata"]["annotations"] == {key: "2"}, "nobody removes it"


def test_a_balanced_service_may_do_without_ports_of_nodes(place: Place) -> None:
    spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{"port": 80}]}
    made = place.create("v1", "Service", "services", spec=spec)
    assert "nodePort" not in made.json["spec"]["ports"][0]


def test_a_class_of_priority_may_leave_out_that_its_value_is_0(place: Place) -> None:
    url = "/apis/scheduling.k8s.io/v1/priorityclasses?dryRun=All"
    made = place.wire.send("POST", url, {"metadata": {"name": "drawn"}, "description": "d"})
    assert (made.status, made.json["value"]) == (201, 0)
    wrong = place.wire.send("POST", url, {"metadata": {"name": "drawn"}, "preemptionPolicy": "x"})
    text = 'Unsupported value: "x": supported values: "PreemptLowerPriority", "Never"'
    assert refused(wrong) == [("preemptionPolicy", text)]


def test_a_port_of_an_ingress_is_owned_as_one(place: Place) -> None:
    spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    made = place.create("networking.k8s.io/v1", "Ingress", "ingresses", spec=spec)
    owned = made.json["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:defaultBackend"]["f:service"]
    assert owned == {".": {}, "f:name": {}, "f:port": {}}


# --- selectors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "at", "text"),
    [
        ({"matchExpressions": [{"key": "a", "operator": "x", "values": ["b"]}]}, "matchExpressions[0].operator",
         'Invalid value: "x": not a valid selector operator'),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "matchExpressions[0].values",
         "Required value: must be specified when `operator` is 'In' or 'NotIn'"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "matchExpressions[0].values",
         "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        ({"matchLabels": {"a b": "c"}}, "matchLabels", 'Invalid value: "a b": name part must consist of'),
        ({"matchLabels": {"a": "b c"}}, "matchLabels", f'Invalid value: "b c": {LABEL_TEXT}'),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}, "matchExpressions[0].values[0]",
         f'Invalid value: "b c": {LABEL_TEXT}'),
    ],
)  # fmt: skip
def test_a_selector_that_selects_nothing_is_refused(place: Place, selector: dict[str, Any], at: str, text: str) -> None:
    def found(answer: Answer, path: str) -> None:
        (message,) = [message for field, message in refused(answer) if field == f"{path}.{at}"]
        assert message.startswith(text)

    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        found(workload(place, kind, selector=selector), "spec.selector")
    term = {"labelSelector": selector, "topologyKey": "k"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    answer = place.create("v1", "Pod", "pods", spec={**PODS, "affinity": affinity})
    found(answer, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector")
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}
    answer = place.create("v1", "Pod", "pods", spec={**PODS, "topologySpreadConstraints": [spread]})
    found(answer, "spec.topologySpreadConstraints[0].labelSelector")
    networking = "networking.k8s.io/v1"
    peer = {"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": selector}]}]}
    answer = place.create(networking, "NetworkPolicy", "networkpolicies", spec=peer)
    found(answer, "spec.ingress[0].from[0].namespaceSelector")
    answer = place.create(networking, "NetworkPolicy", "networkpolicies", spec={"podSelector": selector})
    found(answer, "spec.podSelector")
    budget = {"minAvailable": 1, "selector": selector}
    found(place.create("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", spec=budget), "spec.selector")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "selector": selector}
    answer = place.create("v1", "PersistentVolumeClaim", "persistentvolumeclaims", spec=claim)
    found(answer, "spec.selector")


def test_every_workload_selects_the_pods_of_its_template(place: Place) -> None:
    expressions = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        for labels in ({}, {"a": "c"}, None):
            answer = workload(place, kind, selector=expressions, template=template(labels))
            assert "spec.template.metadata.labels" in fields(answer)
        assert workload(place, kind, "?dryRun=All", selector=expressions).status == 201


def test_a_template_without_pods_is_refused(place: Place) -> None:
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        assert "spec.template.spec.containers" in fields(workload(place, kind, template={}))
    answer = place.create("apps/v1", "ReplicaSet", "replicasets", spec={"selector": {"matchLabels": LABELS}})
    assert fields(answer) == ["spec.template.metadata.labels", "spec.template.spec.containers"]


# --- services --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "at"),
    [
        ({"selector": {"a b": "c"}}, "selector"),
        ({"selector": {"a": "b c"}}, "selector"),
        ({"ports": [{"port": 80, "protocol": "x"}]}, "ports[0].protocol"),
        ({"ports": [{"port": 80, "appProtocol": "a b"}]}, "ports[0].appProtocol"),
        ({"externalIPs": ["x"]}, "externalIPs[0]"),
        ({"ipFamilies": ["x"]}, "ipFamilies[0]"),
        ({"ipFamilyPolicy": "x"}, "ipFamilyPolicy"),
        ({"sessionAffinity": "x"}, "sessionAffinity"),
        ({"internalTrafficPolicy": "x"}, "internalTrafficPolicy"),
        ({"type": "x"}, "type"),
        ({"type": "LoadBalancer", "loadBalancerClass": "a b"}, "loadBalancerClass"),
        ({"type": "LoadBalancer", "loadBalancerSourceRanges": ["x"]}, "LoadBalancerSourceRanges[0]"),
        ({"type": "NodePort", "externalTrafficPolicy": "x"}, "externalTrafficPolicy"),
    ],
)
def test_values_of_a_service_that_mean_nothing_are_refused(place: Place, spec: dict[str, Any], at: str) -> None:
    answer = place.create("v1", "Service", "services", spec={"ports": [{"port": 80}], **spec})
    assert f"spec.{at}" in fields(answer)


# --- what a kube-apiserver takes -------------------------------------------------------------------------------------

VOLUME: Final = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/p"}}
STRATEGIC: Final = "application/strategic-merge-patch+json"


def test_a_strategic_patch_replaces_the_pull_secrets_of_an_account(place: Place) -> None:
    """Those of a pod are merged by their names."""
    made = place.create("v1", "ServiceAccount", "serviceaccounts", imagePullSecrets=[{"name": "p"}])
    assert made.status == 201
    url = place.url("v1", "serviceaccounts", "a")
    other = [{"name": "q"}]
    assert place.patch(url, {"imagePullSecrets": other}, STRATEGIC).json["imagePullSecrets"] == other
    assert "imagePullSecrets" not in place.patch(url, {"imagePullSecrets": []}, STRATEGIC).json


def test_the_source_of_a_claim_has_both_of_its_fields(place: Place) -> None:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name, key in (("a", "dataSource"), ("b", "dataSourceRef")):
        spec = {**claim, key: source}
        made = place.create("v1", "PersistentVolumeClaim", "persistentvolumeclaims", metadata={"name": name}, spec=spec)
        assert (made.json["spec"]["dataSource"], made.json["spec"]["dataSourceRef"]) == (source, source)
    far = {**claim, "dataSourceRef": {**source, "namespace": "other"}}
    made = place.create("v1", "PersistentVolumeClaim", "persistentvolumeclaims", metadata={"name": "c"}, spec=far)
    assert "dataSource" not in made.json["spec"]


def test_fields_that_may_be_left_out(place: Place) -> None:
    assert place.create("v1", "LimitRange", "limitranges", spec={}).status == 201
    event = {"reason": "R", "type": "Normal", "note": "n", "action": "a", "eventTime": "2026-01-01T00:00:00.000000Z",
             "reportingController": "a.b/c", "reportingInstance": "i",
             "regarding": {"kind": "Pod", "name": "p", "namespace": place.namespace}}  # fmt: skip
    url = place.url("events.k8s.io/v1", "events")
    assert place.wire.send("POST", url, {"metadata": {"name": "e"}, **event}).status == 201
    put = place.wire.send("PUT", f"{url}/e", {"metadata": {"name": "e", "labels": LABELS}, **event})
    assert (put.status, put.json["metadata"]["labels"]) == (200, LABELS)


def test_a_stateful_set_cannot_yet_lose_several_pods_at_one_time(place: Place) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    made = workload(place, "StatefulSet", updateStrategy=strategy)
    assert made.json["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}


def test_what_a_pod_may_not_change(place: Place) -> None:
    assert place.create("v1", "Pod", "pods", spec=PODS).status == 201
    answer = place.patch(place.url("v1", "pods", "a"), {"spec": {"hostname": "h"}})
    ((field, text),) = refused(answer)
    listed = (
        "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
        "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
        "was previously negative)"
    )
    assert field == "spec"
    assert text.startswith(f"Forbidden: pod updates may not change fields other than {listed}")


# --- webhooks --------------------------------------------------------------------------------------------------------

RULE: Final = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({"rules": [{**RULE, "operations": []}]}, "rules[0].operations"),
        ({"rules": [{**RULE, "operations": ["Create"]}]}, "rules[0].operations[0]"),
        ({"rules": [{**RULE, "operations": ["*", "CREATE"]}]}, "rules[0].operations"),
        ({"rules": [{**RULE, "apiGroups": []}]}, "rules[0].apiGroups"),
        ({"rules": [{**RULE, "apiGroups": ["*", "apps"]}]}, "rules[0].apiGroups"),
        ({"rules": [{**RULE, "apiVersions": []}]}, "rules[0].apiVersions"),
        ({"rules": [{**RULE, "apiVersions": [""]}]}, "rules[0].apiVersions[0]"),
        ({"rules": [{**RULE, "resources": []}]}, "rules[0].resources"),
        ({"rules": [{**RULE, "resources": [""]}]}, "rules[0].resources[0]"),
        ({"rules": [{**RULE, "resources": ["*/*", "pods"]}]}, "rules[0].resources"),
        ({"rules": [{**RULE, "resources": ["*", "pods"]}]}, "rules[0].resources"),
        ({"rules": [{**RULE, "scope": "x"}]}, "rules[0].scope"),
        ({"failurePolicy": "x"}, "failurePolicy"),
        ({"matchPolicy": "x"}, "matchPolicy"),
        ({"sideEffects": "Some"}, "sideEffects"),
        ({"timeoutSeconds": 31}, "timeoutSeconds"),
        ({"admissionReviewVersions": []}, "admissionReviewVersions"),
        ({"admissionReviewVersions": ["v1", "v1"]}, "admissionReviewVersions[1]"),
        ({"admissionReviewVersions": ["v2"]}, "admissionReviewVersions"),
        ({"namespaceSelector": {"matchLabels": {"a": "b c"}}}, "namespaceSelector.matchLabels"),
        ({"clientConfig": {"url": "http://a.b"}}, "clientConfig.url"),
        ({"clientConfig": {"service": {"name": "s", "namespace": "n", "path": "x"}}}, "clientConfig.service.path"),
    ],
)
def test_a_webhook_that_is_never_called_is_refused(place: Place, changes: dict[str, Any], at: str) -> None:
    whole = {"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [RULE],
             "clientConfig": {"url": "https://a.b/c"}, **changes}  # fmt: skip
    for kind in ("Validating", "Mutating"):
        url = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}webhookconfigurations?dryRun=All"
        answer = place.wire.send("POST", url, {"metadata": {"name": "drawn"}, "webhooks": [whole]})
        assert f"webhooks[0].{at}" in fields(answer)


# --- templates -------------------------------------------------------------------------------------------------------


def test_the_labels_of_a_template_are_labels(place: Place) -> None:
    wrong = {"a": "b", "x": "y z"}
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        assert "spec.template.labels" in fields(workload(place, kind, template=template(wrong)))
    pods = template(wrong, restartPolicy="Never")
    answer = place.create("batch/v1", "Job", "jobs", spec={"template": pods})
    assert "spec.template.labels" in fields(answer)
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pods}}}
    answer = place.create("batch/v1", "CronJob", "cronjobs", spec=cron)
    assert "spec.jobTemplate.spec.template.labels" in fields(answer)


@pytest.mark.parametrize(
    ("pods", "at"),
    [
        ({"containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": {}}]}]},
         "containers[0].envFrom[0].configMapRef.name"),
        ({"containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "a b"}}]}]},
         "containers[0].envFrom[0].secretRef.name"),
        ({"containers": [{"name": "c", "image": "i", "envFrom": [{}]}]}, "containers[0].envFrom"),
        ({"containers": [{"name": "c", "image": "i", "livenessProbe": {"exec": {"command": []}}}]},
         "containers[0].livenessProbe.exec.command"),
        ({"volumes": [{"name": "v", "nfs": {"server": "s", "path": "p"}}]}, "volumes[0].nfs.path"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/p", "type": "x"}}]}, "volumes[0].hostPath.type"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]}, "volumes[0].hostPath.path"),
        ({"tolerations": [{"key": "a", "operator": "x"}]}, "tolerations[0].operator"),
        ({"tolerations": [{"key": "a", "effect": "x"}]}, "tolerations[0].effect"),
        ({"tolerations": [{"value": "x"}]}, "tolerations[0].operator"),
        ({"tolerations": [{"key": "a", "tolerationSeconds": 5}]}, "tolerations[0].effect"),
        ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}},
         "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"),
    ],
)  # fmt: skip
def test_further_parts_of_pods_that_mean_nothing_are_refused(place: Place, pods: dict[str, Any], at: str) -> None:
    assert f"spec.template.spec.{at}" in fields(workload(place, "Deployment", template=template(**pods)))


# --- further kinds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "kind", "plural", "body", "at"),
    [
        ("v1", "ResourceQuota", "resourcequotas", {"spec": {"scopes": ["x"]}}, "spec.scopes"),
        ("v1", "ResourceQuota", "resourcequotas", {"spec": {"hard": {"x": "1"}}}, "spec.hard[x]"),
        ("v1", "ResourceQuota", "resourcequotas", {"spec": {"hard": {"pods": "-1"}}}, "spec.hard[pods]"),
        ("v1", "ResourceQuota", "resourcequotas", {"spec": {"hard": {"pods": "500m"}}}, "spec.hard[pods]"),
        ("storage.k8s.io/v1", "StorageClass", "storageclasses", {"provisioner": "a b"}, "provisioner"),
        ("storage.k8s.io/v1", "StorageClass", "storageclasses", {"provisioner": "a", "reclaimPolicy": "x"},
         "reclaimPolicy"),
        ("storage.k8s.io/v1", "StorageClass", "storageclasses", {"provisioner": "a", "volumeBindingMode": "x"},
         "volumeBindingMode"),
        ("networking.k8s.io/v1", "IngressClass", "ingressclasses", {"spec": {}}, "spec.controller"),
        ("networking.k8s.io/v1", "IngressClass", "ingressclasses", {"spec": {"controller": "a"}}, "spec.controller"),
        ("networking.k8s.io/v1", "Ingress", "ingresses",
         {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}},
                   "tls": [{"hosts": ["a b"]}]}}, "spec.tls[0].hosts[0]"),
        ("networking.k8s.io/v1", "Ingress", "ingresses",
         {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}},
                   "tls": [{"secretName": "a b"}]}}, "spec.tls[0].secretName"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings",
         {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
          "subjects": [{"kind": "ServiceAccount", "name": "A_b", "namespace": "n"}]}, "subjects[0].name"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings",
         {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
          "subjects": [{"kind": "User", "name": "u", "apiGroup": "x"}]}, "subjects[0].apiGroup"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", {"aggregationRule": {}},
         "aggregationRule.clusterRoleSelectors"),
        ("apps/v1", "StatefulSet", "statefulsets",
         {"spec": {"selector": {"matchLabels": LABELS}, "template": template(), "podManagementPolicy": "x"}},
         "spec.podManagementPolicy"),
        ("apps/v1", "StatefulSet", "statefulsets",
         {"spec": {"selector": {"matchLabels": LABELS}, "template": template(),
                   "persistentVolumeClaimRetentionPolicy": {"whenScaled": "x"}}},
         "spec.persistentVolumeClaimRetentionPolicy.whenScaled"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
         {"spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "a%", "name": "b"}}}, "spec.scaleTargetRef.kind"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
         {"spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "a", "name": "b"}, "metrics": [{"type": "x"}]}},
         "spec.metrics[0].type"),
        ("v1", "ResourceQuota", "resourcequotas",
         {"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "x"}]}}},
         "spec.scopeSelector.matchExpressions.operator"),
        ("v1", "ResourceQuota", "resourcequotas",
         {"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}},
         "spec.scopeSelector.matchExpressions.values"),
        ("v1", "PersistentVolume", "persistentvolumes",
         {"spec": {**VOLUME, "accessModes": ["x"]}}, "spec.accessModes"),
        ("v1", "PersistentVolume", "persistentvolumes", {"spec": {**VOLUME, "capacity": None}}, "spec.capacity"),
        ("v1", "PersistentVolume", "persistentvolumes",
         {"spec": {**VOLUME, "volumeMode": "x"}}, "spec.volumeMode"),
        ("v1", "PersistentVolume", "persistentvolumes",
         {"spec": {**VOLUME, "persistentVolumeReclaimPolicy": "x"}}, "spec.persistentVolumeReclaimPolicy"),
        ("v1", "PersistentVolume", "persistentvolumes",
         {"spec": {**VOLUME, "nodeAffinity": {}}}, "spec.nodeAffinity.required"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings",
         {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a/b"}}, "roleRef.name"),
        ("apps/v1", "DaemonSet", "daemonsets",
         {"spec": {"selector": {"matchLabels": LABELS}, "template": template(),
                   "updateStrategy": {"rollingUpdate": {"maxUnavailable": "x"}}}},
         "spec.updateStrategy.rollingUpdate.maxUnavailable"),
        ("apps/v1", "DaemonSet", "daemonsets",
         {"spec": {"selector": {"matchLabels": LABELS}, "template": template(),
                   "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}}},
         "spec.updateStrategy.rollingUpdate.maxSurge"),
        ("apps/v1", "DaemonSet", "daemonsets",
         {"spec": {"selector": {"matchLabels": LABELS},
                   "template": template(tolerations=[{"key": "a b", "operator": "Exists"}])}},
         "spec.template.spec.tolerations[0].key"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
         {"spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "a", "name": "b"}, "metrics": [
             {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "x", "averageValue": "1"}}}]}},
         "spec.metrics[0].pods.target.type"),
        ("batch/v1", "Job", "jobs", {"spec": {"template": template(restartPolicy="Never"), "maxFailedIndexes": -1}},
         "spec.maxFailedIndexes"),
    ],
)  # fmt: skip
def test_further_values_that_mean_nothing_are_refused(
    place: Place, group: str, kind: str, plural: str, body: dict[str, Any], at: str
) -> None:
    is_namespaced = kind not in ("StorageClass", "IngressClass", "ClusterRole", "PersistentVolume")
    root = "api" if group == "v1" else "apis"
    url = place.url(group, plural) if is_namespaced else f"/{root}/{group}/{plural}"
    answer = place.wire.send("POST", f"{url}?dryRun=All", {"metadata": {"name": "drawn"}, **body})
    assert at in fields(answer)


# --- changes ---------------------------------------------------------------------------------------------------------


def test_some_kinds_are_changed_only_by_who_names_their_version(place: Place) -> None:
    whole = {"name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [RULE],
             "namespaceSelector": {"matchLabels": {"no": "one"}}, "clientConfig": {"url": "https://a.b/c"}}  # fmt: skip
    for group, plural, body in (
        ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", {"webhooks": [whole]}),
        ("node.k8s.io/v1", "runtimeclasses", {"handler": "h"}),
    ):
        name = unused_name("drawn")
        url = f"/apis/{group}/{plural}"
        made = place.wire.send("POST", url, {"metadata": {"name": name}, **body})
        assert made.status == 201, made.json["message"]
        put = place.wire.send("PUT", f"{url}/{name}", {"metadata": {"name": name}, **body})
        text = "Invalid value: 0: must be specified for an update"
        assert refused(put) == [("metadata.resourceVersion", text)]
        place.wire.send("DELETE", f"{url}/{name}")


def test_a_class_of_storage_says_for_ever_what_its_volumes_are(place: Place) -> None:
    name, url = unused_name("drawn"), "/apis/storage.k8s.io/v1/storageclasses"
    assert place.wire.send("POST", url, {"metadata": {"name": name}, "provisioner": "a"}).status == 201
    changes = {"provisioner": "b", "parameters": {"a": "b"}, "reclaimPolicy": "Retain"}
    answer = place.patch(f"{url}/{name}", changes)
    assert set(fields(answer)) == changes.keys()
    place.wire.send("DELETE", f"{url}/{name}")


def test_nothing_counts_the_changes_of_a_class_of_priority(place: Place) -> None:
    name, url = unused_name("drawn"), "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert place.wire.send("POST", url, {"metadata": {"name": name}, "value": 1}).json["metadata"]["generation"] == 1
    changed = place.patch(f"{url}/{name}", {"description": "d"})
    assert changed.json["metadata"]["generation"] == 1
    place.wire.send("DELETE", f"{url}/{name}")


def test_a_put_of_a_job_names_its_selector(place: Place) -> None:
    spec = {"template": template(restartPolicy="Never")}
    assert place.create("batch/v1", "Job", "jobs", spec=spec).status == 201
    body = {"metadata": {"name": "a"}, "spec": spec}
    answer = place.wire.send("PUT", place.url("batch/v1", "jobs", "a"), body)
    assert {"spec.selector", "spec.template.metadata"} <= {field.removesuffix(".labels") for field in fields(answer)}
    manual = place.create("batch/v1", "Job", "jobs", metadata={"name": "b"}, spec={**spec, "manualSelector": True})
    assert "spec.selector" in fields(manual)


def test_the_scopes_of_a_quota_stay(place: Place) -> None:
    made = place.create("v1", "ResourceQuota", "resourcequotas", spec={"hard": {"pods": "1"}, "scopes": ["BestEffort"]})
    assert made.status == 201
    answer = place.patch(place.url("v1", "resourcequotas", "a"), {"spec": {"scopes": None}})
    assert refused(answer) == [("spec.scopes", "Invalid value: null: field is immutable")]


def test_a_service_gives_its_ports_of_nodes_back(place: Place) -> None:
    service = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    assert "nodePort" in place.create("v1", "Service", "services", spec=service).json["spec"]["ports"][0]
    changed = {"spec": {"allocateLoadBalancerNodePorts": False, "ports": [{"port": 80}]}}
    assert "nodePort" not in place.patch(place.url("v1", "services", "a"), changed).json["spec"]["ports"][0]
