"""The rules for pods that the operator starts for an Operation (OPS-8, RUN-12).

They are the restricted profile of Kubernetes' Pod Security Standards, the allowed service accounts and the allowed
images. The same rules apply to pods that an engine writes and to pods from a chart. The functions accept any JSON
value as a pod, since a chart may have a list where an object belongs.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from purekube.apimachinery.manifest import get_path
from purekube.apimachinery.problems import Problem, index, join
from vworkspace_core.operations.settings import RUNNER, OperationSettings, is_allowed_image, unlisted_image

MOST_PROBLEMS: Final = 8
"""The maximum number of problems that are reported about one Job."""

# The lists below are those of pod-security-admission; this one is policy/check_hostNamespaces.go.
_HOST: Final = ("hostNetwork", "hostPID", "hostIPC")
# policy/check_restrictedVolumes.go.
_VOLUMES: Final = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
)
_CONTAINERS: Final = ("initContainers", "containers")
_PROFILES: Final = ("RuntimeDefault", "Localhost")
# policy/check_seLinuxOptions.go.
_SELINUX_TYPES: Final = (None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
# policy/check_sysctls.go, in its newest version.
_SYSCTLS: Final = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
)
# The annotation counts where the field appArmorProfile is absent (policy/check_appArmorProfile.go).
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
# policy/check_hostProbesAndhostLifecycle.go, since Kubernetes 1.34: the kubelet would call any host.
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS: Final = ("httpGet", "tcpSocket")
_MOST_TIMES: Final = 10


def job_problems(spec: Any, settings: OperationSettings) -> tuple[Problem, ...]:
    """Return the reasons why a Job with this spec must not start, at most `MOST_PROBLEMS`; empty if it may start.

    The rules are about the Job's pods, their service account and images, and their number. `settings` has the allowed
    accounts and images.
    """
    return tuple(islice(_job_problems(spec, settings, "spec"), MOST_PROBLEMS))


def _job_problems(spec: Any, settings: OperationSettings, path: str) -> Iterator[Problem]:
    for field in ("completions", "parallelism"):
        if get_path(spec, field) not in (None, 1):
            yield Problem(join(path, field), "must be 1")
    if not _is_number(get_path(spec, "backoffLimit"), _MOST_TIMES):
        yield Problem(join(path, "backoffLimit"), f"must be a number from 0 to {_MOST_TIMES}")
    pod, where = get_path(spec, "template", "spec"), f"{path}.template.spec"
    yield from restricted_problems(pod, where, get_path(spec, "template", "metadata", "annotations"))
    # The second is the deprecated name, by which a chart may name an account, too.
    account = get_path(pod, "serviceAccountName") or get_path(pod, "serviceAccount")
    yield from account_problem(account, settings, f"{where}.serviceAccountName")
    for place, container in _containers(pod, where):
        yield from image_problem(get_path(container, "image"), settings, f"{place}.image")


def _is_number(value: Any, most: int) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most)


def account_problem(account: Any, settings: OperationSettings, path: str) -> Iterator[Problem]:
    """Yield a problem if pods are not allowed to run under the service account `account`.

    `path` is the path of the account in the manifest. Pods without an account run under the account `RUNNER`, which is
    always allowed; the settings list the other allowed accounts.
    """
    if account in (None, "", RUNNER):
        return
    if not isinstance(account, str):
        yield Problem(path, "must be the name of a service account")
    elif account not in settings.allowed_service_accounts:
        yield Problem(
            path,
            f"{account!r:.80} is not among the service accounts that are allowed here; leave it out to run as {RUNNER},"
            f" or start the operator with --allowed-service-accounts={account:.80}",
        )


def image_problem(image: Any, settings: OperationSettings, path: str) -> Iterator[Problem]:
    """Yield a problem if `settings` do not allow pods to run `image`, whose path in the manifest is `path`."""
    if not isinstance(image, str) or not image:
        yield Problem(path, "must name an image")
    elif settings.allowed_images and not is_allowed_image(image, settings.allowed_images):
        yield Problem(path, unlisted_image(image, settings.allowed_images))


def restricted_problems(pod: Any, path: str, annotations: Any = None) -> Iterator[Problem]:
    """Yield a problem for each part of a pod's spec that violates the restricted Pod Security profile.

    A part that chooses the pod's node is a problem too. `pod` is the spec, and `path` its path in the manifest.
    `annotations` are the pod's annotations, which must not switch off AppArmor.
    """
    if not isinstance(pod, Mapping):
        yield Problem(path, "must be an object")
        return
    yield from (Problem(join(path, field), "must not be set") for field in _HOST if pod.get(field))
    if pod.get("nodeName"):
        yield Problem(join(path, "nodeName"), "must not be set: the scheduler chooses the node")
    if str(pod.get("priorityClassName") or "").startswith("system-"):
        yield Problem(join(path, "priorityClassName"), "must not be one of the cluster's own")
    yield from _volume_problems(pod.get("volumes"), join(path, "volumes"))
    yield from _pod_context_problems(pod.get("securityContext"), join(path, "securityContext"))
    yield from _annotation_problems(annotations, path)
    for place, container in _containers(pod, path):
        yield from _container_problems(container, pod.get("securityContext"), place)


def _containers(pod: Any, path: str) -> Iterator[tuple[str, Any]]:
    for field in _CONTAINERS:
        containers = get_path(pod, field)
        for number, container in enumerate(
            containers if isinstance(containers, list) else [] if containers is None else [containers]
        ):
            yield index(join(path, field), number), container


def _volume_problems(volumes: Any, path: str) -> Iterator[Problem]:
    if volumes is None:
        return
    if not isinstance(volumes, list):
        yield Problem(path, "must be a list")
        return
    for number, volume in enumerate(volumes):
        place = index(path, number)
        if not isinstance(volume, Mapping):
            yield Problem(place, "must be an object")
            continue
        for kind in sorted(str(key) for key in volume if key != "name" and key not in _VOLUMES):
            yield Problem(join(place, kind[:64]), f"must be one of {', '.join(sorted(_VOLUMES))}")


def _pod_context_problems(context: Any, path: str) -> Iterator[Problem]:
    if context is None:
        return
    if not isinstance(context, Mapping):
        yield Problem(path, "must be an object")
        return
    sysctls = context.get("sysctls")
    for number, sysctl in enumerate(sysctls if isinstance(sysctls, list) else []):
        if get_path(sysctl, "name") not in _SYSCTLS:
            yield Problem(index(join(path, "sysctls"), number), "is not among the sysctls that are safe")
    yield from _shared_problems(context, path)


def _shared_problems(context: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield the problems of `context`, the securityContext of a pod or of a container.

    The rules here are those that are the same for both.
    """
    if context.get("runAsUser") == 0:
        yield Problem(join(path, "runAsUser"), "must not be 0, which is root")
    seccomp = get_path(context, "seccompProfile", "type")
    if seccomp is not None and seccomp not in _PROFILES:
        yield Problem(f"{path}.seccompProfile.type", f"must be {' or '.join(_PROFILES)}")
    armor = get_path(context, "appArmorProfile", "type")
    if armor is not None and armor not in _PROFILES:
        yield Problem(f"{path}.appArmorProfile.type", f"must be {' or '.join(_PROFILES)}")
    if get_path(context, "windowsOptions", "hostProcess"):
        yield Problem(f"{path}.windowsOptions.hostProcess", "must not be true")
    linux = context.get("seLinuxOptions")
    if linux is not None and (
        get_path(linux, "type") not in _SELINUX_TYPES or get_path(linux, "user") or get_path(linux, "role")
    ):
        yield Problem(f"{path}.seLinuxOptions", "must name no user, no role and no type but a container's")


def _annotation_problems(annotations: Any, path: str) -> Iterator[Problem]:
    for key, value in annotations.items() if isinstance(annotations, Mapping) else ():
        if str(key).startswith(_APP_ARMOR) and not str(value).startswith(("runtime/default", "localhost/")):
            yield Problem(path, "AppArmor must not be switched off by an annotation")


def _container_problems(container: Any, pod_context: Any, path: str) -> Iterator[Problem]:
    if not isinstance(container, Mapping):
        yield Problem(path, "must be an object")
        return
    context = container.get("securityContext")
    context = context if isinstance(context, Mapping) else {}
    where = join(path, "securityContext")
    yield from _shared_problems(context, where)
    yield from _privilege_problems(context, where)
    if _effective(context, pod_context, "runAsNonRoot") is not True:
        yield Problem(join(where, "runAsNonRoot"), "must be true")
    if get_path(_effective(context, pod_context, "seccompProfile"), "type") not in _PROFILES:
        yield Problem(f"{where}.seccompProfile.type", f"must be {' or '.join(_PROFILES)}")
    yield from _host_problems(container, path)


def _effective(context: Mapping[str, Any], pod_context: Any, field: str) -> Any:
    """Return the value of `field` in a container's securityContext `context`.

    If the container has no value, return the value in the securityContext of its pod.
    """
    # The kubelet lets a container's value replace that of the pod (core/v1: SecurityContext).
    value = context.get(field)
    return get_path(pod_context, field) if value is None else value


def _privilege_problems(context: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if context.get("privileged"):
        yield Problem(join(path, "privileged"), "must not be true")
    if context.get("allowPrivilegeEscalation") is not False:
        yield Problem(join(path, "allowPrivilegeEscalation"), "must be false")
    if context.get("procMount") not in (None, "Default"):
        yield Problem(join(path, "procMount"), "must be Default")
    # policy/check_capabilities_restricted.go.
    dropped, added = get_path(context, "capabilities", "drop"), get_path(context, "capabilities", "add")
    if not isinstance(dropped, list) or "ALL" not in dropped:
        yield Problem(f"{path}.capabilities.drop", "must hold ALL")
    if added and (not isinstance(added, list) or any(capability != "NET_BIND_SERVICE" for capability in added)):
        yield Problem(f"{path}.capabilities.add", "must hold nothing but NET_BIND_SERVICE")


def _host_problems(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    ports = container.get("ports")
    for number, port in enumerate(ports if isinstance(ports, list) else []):
        if get_path(port, "hostPort"):
            yield Problem(index(join(path, "ports"), number), "must not take a port of the node (hostPort)")
    hooks = [get_path(container, "lifecycle", name) for name in ("postStart", "preStop")]
    for hook in (*hooks, *(container.get(name) for name in _PROBES)):
        if any(get_path(hook, handler, "host") for handler in _HANDLERS):
            yield Problem(path, "its probes and hooks must not name a host")
