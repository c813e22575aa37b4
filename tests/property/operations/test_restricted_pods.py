# ruff: noqa: E501
"""Each part of a pod that the restricted profile forbids, one at a time (OPS-8)."""

from typing import Any

import pytest

from tests.support.operation_worlds import RESTRICTED
from vworkspace_core.operations.pods import restricted_problems


def at_container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "a", "securityContext": RESTRICTED, **fields}]}


def secured(**fields: Any) -> dict[str, Any]:
    return at_container(securityContext={**RESTRICTED, **fields})


def pod_of(**fields: Any) -> dict[str, Any]:
    return {**at_container(), **fields}


IN = "pod.containers[0]"
OF_PODS: list[tuple[Any, list[str]]] = [
    (at_container(), []), ("odd", ["pod"]), (pod_of(hostNetwork=True), ["pod.hostNetwork"]), (pod_of(hostPID=True), ["pod.hostPID"]),
    (pod_of(hostIPC=True), ["pod.hostIPC"]), (pod_of(hostIPC=False), []), (pod_of(nodeName="n"), ["pod.nodeName"]),
    (pod_of(priorityClassName="system-node-critical"), ["pod.priorityClassName"]), (pod_of(priorityClassName="batch"), []),
    (pod_of(volumes=[{"name": "v", "secret": {}}, {"name": "w", "emptyDir": {}}]), []), (pod_of(volumes={}), ["pod.volumes"]),
    (pod_of(volumes=[{"name": "v", "hostPath": {}}]), ["pod.volumes[0].hostPath"]), (pod_of(volumes=[1]), ["pod.volumes[0]"]),
    (pod_of(volumes=[{"name": "v", "nfs": {}, "hostPath": {}}]), ["pod.volumes[0].hostPath", "pod.volumes[0].nfs"]),
    (pod_of(securityContext=3), ["pod.securityContext"]), (pod_of(securityContext={"runAsUser": 0}), ["pod.securityContext.runAsUser"]),
    (pod_of(securityContext={"runAsUser": 1}), []), (pod_of(securityContext={"sysctls": [{"name": "net.ipv4.tcp_syncookies"}]}), []),
    (pod_of(securityContext={"sysctls": [{"name": "kernel.msgmax"}]}), ["pod.securityContext.sysctls[0]"]),
    (pod_of(securityContext={"seccompProfile": {"type": "Unconfined"}}), ["pod.securityContext.seccompProfile.type"]),
    (pod_of(securityContext={"appArmorProfile": {"type": "Unconfined"}}), ["pod.securityContext.appArmorProfile.type"]),
    (pod_of(securityContext={"windowsOptions": {"hostProcess": True}}), ["pod.securityContext.windowsOptions.hostProcess"]),
    (pod_of(securityContext={"seLinuxOptions": {"type": "spc_t"}}), ["pod.securityContext.seLinuxOptions"]),
    (pod_of(securityContext={"seLinuxOptions": {"user": "u"}}), ["pod.securityContext.seLinuxOptions"]),
    (pod_of(securityContext={"seLinuxOptions": {"role": "r"}}), ["pod.securityContext.seLinuxOptions"]),
    (pod_of(securityContext={"seLinuxOptions": {"type": "container_t"}}), []),
    (secured(privileged=True), [f"{IN}.securityContext.privileged"]), (secured(procMount="Unmasked"), [f"{IN}.securityContext.procMount"]),
    (secured(procMount="Default"), []), (secured(allowPrivilegeEscalation=True), [f"{IN}.securityContext.allowPrivilegeEscalation"]),
    (secured(allowPrivilegeEscalation=None), [f"{IN}.securityContext.allowPrivilegeEscalation"]),
    (secured(capabilities={"drop": ["NET_RAW"]}), [f"{IN}.securityContext.capabilities.drop"]),
    (secured(capabilities={"drop": "ALL"}), [f"{IN}.securityContext.capabilities.drop"]),
    (secured(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}), []),
    (secured(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]}), [f"{IN}.securityContext.capabilities.add"]),
    (secured(capabilities={"drop": ["ALL"], "add": "NET_BIND_SERVICE"}), [f"{IN}.securityContext.capabilities.add"]),
    (secured(runAsNonRoot=False), [f"{IN}.securityContext.runAsNonRoot"]), (secured(runAsNonRoot=None), [f"{IN}.securityContext.runAsNonRoot"]),
    ({**secured(runAsNonRoot=None), "securityContext": {"runAsNonRoot": True}}, []),
    ({**secured(runAsNonRoot=False), "securityContext": {"runAsNonRoot": True}}, [f"{IN}.securityContext.runAsNonRoot"]),
    (secured(seccompProfile=None), [f"{IN}.securityContext.seccompProfile.type"]),
    ({**secured(seccompProfile=None), "securityContext": {"seccompProfile": {"type": "Localhost"}}}, []),
    (at_container(ports=[{"containerPort": 1}, {"hostPort": 1}]), [f"{IN}.ports[1]"]), (at_container(ports="odd"), []),
    (at_container(livenessProbe={"httpGet": {"host": "h"}}), [IN]), (at_container(lifecycle={"preStop": {"tcpSocket": {"host": "h"}}}), [IN]),
    (at_container(startupProbe={"httpGet": {"path": "/"}}), []), (at_container(lifecycle={"postStart": {"httpGet": {"host": "h"}}}), [IN]),
    ({"containers": {"name": "a"}}, [f"{IN}.securityContext.{name}" for name in ("allowPrivilegeEscalation", "capabilities.drop", "runAsNonRoot", "seccompProfile.type")]),
    ({"containers": [3]}, [IN]), ({"initContainers": [3], "containers": []}, ["pod.initContainers[0]"]),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "paths"), OF_PODS, ids=str)
def test_each_part_that_the_restricted_profile_forbids_is_named_and_no_other_OPS_8(pod: Any, paths: list[str]) -> None:
    found = list(restricted_problems(pod, "pod"))
    assert sorted(problem.path for problem in found) == sorted(paths)
    assert all(problem.message.startswith(("must", "is not", "its probes")) for problem in found)


@pytest.mark.parametrize(
    ("value", "is_refused"),
    [("unconfined", True), ("runtime/default", False), ("localhost/x", False), ("runtime", True)],
)
def test_an_annotation_does_not_switch_apparmor_off_OPS_8(value: str, is_refused: bool) -> None:
    key = "container.apparmor.security.beta.kubernetes.io/a"
    assert bool(list(restricted_problems(at_container(), "pod", {key: value, "other": "unconfined"}))) is is_refused
