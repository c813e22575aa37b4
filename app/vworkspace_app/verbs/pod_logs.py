"""The logs of the pods of the operator, of an Operation or of an application."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import anyio
import attrs

from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Kind, Manifest, ObjectRef, get_path, ref_of
from purekube.apimachinery.names import bounded_name
from purekube.apimachinery.resources import JOB, POD, WORKFLOW
from purekube.ports import KubeApi
from purekube_http import KubeApiClient
from purekube_run.controller.lookups import all_of
from purekube_run.process.command_line import CommandError
from vworkspace_app.install.options import INSTANCE_LABELS
from vworkspace_app.verbs.named_objects import find_named_object
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, OPERATION
from vworkspace_core.api.labels import OPERATION_UID

_OF_JOB: Final = "batch.kubernetes.io/job-name"
_OF_WORKFLOW: Final = "workflows.argoproj.io/workflow"
_OF_RELEASE: Final = "app.kubernetes.io/instance"
"""The label that charts set by convention on the pods of a release. No controller sets it."""


@attrs.frozen
class LogRequest:
    """A request for logs: the object whose pods are read, the number of lines, and whether to follow new lines.

    An empty `name` means the operator itself, whose pods are in `system_namespace`. If `namespace` is None, the object
    is searched in all namespaces. `tail` is the number of last lines of each container; None means all lines.
    """

    name: str
    namespace: str | None
    follow: bool
    tail: int | None
    system_namespace: str


async def write_logs(api: KubeApiClient, request: LogRequest, write: Callable[[str], None]) -> None:
    """Call `write` with each log line of the requested pods, prefixed with the names of pod and container.

    If the request asks to follow, continue with new lines until cancelled. Raises CommandError if no pod exists.
    """
    pods = [pod async for pod in _pods(api, request)]
    if not pods:
        raise CommandError(f"no pod of {request.name or 'the operator'} is there" + _where(request))
    containers = [(ref_of(pod, POD), name) for pod in pods for name in _containers(pod)]
    if not request.follow:
        for pod, container in containers:
            await _copy(api, pod, container, request, write)
        return
    async with anyio.create_task_group() as group:
        for pod, container in containers:
            group.start_soon(_copy, api, pod, container, request, write)


async def _copy(
    api: KubeApiClient, pod: ObjectRef, container: str, request: LogRequest, write: Callable[[str], None]
) -> None:
    """Write the log of one container. An error, such as that the container has not started, is written as a line."""
    head = f"[{pod.name}/{container}]"
    try:
        async for line in api.pod_log(pod, container, follow=request.follow, tail_lines=request.tail):
            write(f"{head} {line}")
    except OperatorError as error:
        write(f"{head} ({error.message})")


async def _pods(api: KubeApi, request: LogRequest) -> AsyncIterator[Manifest]:
    if not request.name:
        selector = ",".join(f"{label}={value}" for label, value in INSTANCE_LABELS.items())
        for pod in await all_of(api, POD, namespace=request.system_namespace, selector=selector):
            yield pod
        return
    kind, manifest = await find_named_object(api, request.name, request.namespace, acts=True)
    namespace = get_path(manifest, "metadata", "namespace")
    for selector in await _selectors(api, kind, manifest):
        for pod in await all_of(api, POD, namespace=namespace, selector=selector):
            yield pod


async def _selectors(api: KubeApi, kind: Kind, manifest: Manifest) -> Sequence[str]:
    """Return the label selectors of the pods that belong to an object. Raises CommandError for a kind without pods."""
    if kind == APPLICATION_INSTANCE:
        name = get_path(manifest, "spec", "release", "name") or get_path(manifest, "metadata", "name")
        return (f"{_OF_RELEASE}={name}",)
    if kind != OPERATION:
        raise CommandError(f"a {kind.kind} has no pods; without a name the operator's own are told")
    uid, namespace = (get_path(manifest, "metadata", field) for field in ("uid", "namespace"))
    mine = f"{OPERATION_UID}={bounded_name(str(uid))}"
    return [
        f"{label}={get_path(made, 'metadata', 'name')}"
        for engine, label in ((JOB, _OF_JOB), (WORKFLOW, _OF_WORKFLOW))
        for made in await all_of(api, engine, namespace=namespace, selector=mine)
    ]


def _containers(pod: Manifest) -> list[str]:
    spec = get_path(pod, "spec") or {}
    return [str(each["name"]) for field in ("initContainers", "containers") for each in spec.get(field) or ()]


def _where(request: LogRequest) -> str:
    if request.name:
        return ": it has not started one, or they are gone"
    return f" in {request.system_namespace}: give --system-namespace where it is another one"
