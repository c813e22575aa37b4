"""The playground that `demo --keep` leaves running: an application, and commands to try on it."""

from collections.abc import Iterator
from typing import Any

from purekube_run.process.yaml_documents import Format, dump
from vworkspace_app.demo.demo_world import ADMIN_TOKEN, DemoWorld
from vworkspace_app.demo.narrator import Narrator
from vworkspace_app.demo.operations_scene import CAPABILITIES, OperationRequest
from vworkspace_app.demo.scene import APPLICATION, CLUSTER, FIRST, NAME, NAMESPACE_NAME, WANTED
from vworkspace_core.api.labels import CAPABILITY_PREFIX, CLUSTER_ID, MANAGED_BY, MANAGED_BY_VALUE

_BACKUP = "backup.yaml"


def application() -> dict[str, Any]:
    """Return the ApplicationInstance as Odoo requests it, with an annotation for each simulated engine."""
    desired = APPLICATION.manifest(FIRST)
    marks = {CAPABILITY_PREFIX + name: engine for name, engine in CAPABILITIES.items()}
    return {**desired, "metadata": {**desired["metadata"], "annotations": marks}}


async def prepare_playground(narrator: Narrator[DemoWorld]) -> None:
    """Request the demo's application by a job after the story, which may have deleted it, and await the result.

    Then write a file with an Operation of type Backup, which the user can apply. Raises TooSlow after the time limit.
    """
    world = narrator.world
    job = world.control.enqueue(
        CLUSTER,
        kind="apply",
        payload=application(),
        idempotency_key=APPLICATION.key(100),
        job_id="job-playground",
    )
    await narrator.result(job)
    backup = OperationRequest("my-backup", "Backup", "velero", {"retention": "30d"}).manifest
    labels = {**backup["metadata"]["labels"], MANAGED_BY: MANAGED_BY_VALUE, CLUSTER_ID: CLUSTER}
    text = dump([{**backup, "metadata": {**backup["metadata"], "labels": labels}}], Format.YAML)
    (world.kubeconfig.parent / _BACKUP).write_text(text, encoding="utf-8")


def commands(world: DemoWorld) -> tuple[tuple[str, str], ...]:
    """Return commands that the user can try unchanged, each with a description."""
    here, where = world.kubeconfig.parent, f"-n {NAMESPACE_NAME}"
    version = f'{{"spec":{{"chart":{{"version":"{WANTED}"}}}}}}'
    return (
        ("kubectl get vworkspace -A", "everything that the operator looks after"),
        (f"kubectl describe appinst {NAME} {where}", "one application: its conditions and Events"),
        (f"kubectl patch appinst {NAME} {where} --type merge \\\n    -p '{version}'", "another version: Flux upgrades"),
        (f"kubectl apply -f {here}/{_BACKUP}", "a backup; follow it with: kubectl get op -A -w"),
        (f"kubectl delete appinst {NAME} {where}", "the application goes, its release first"),
    )


def lines(world: DemoWorld) -> Iterator[str]:
    """Yield the lines that the demo prints at the end: addresses, files, and commands to try."""
    yield f'"{NAME}" is running, and so are the operator and the controllers'
    yield "that it relies on (simulated). Try, in another shell:"
    yield ""
    yield f"  export KUBECONFIG={world.kubeconfig}"
    for command, about in commands(world):
        yield ""
        yield f"  # {about}"
        yield f"  {command}"
    yield ""
    yield "What the control plane knows of it (its jobs and their results):"
    yield ""
    yield f"  curl -H 'Authorization: Bearer {ADMIN_TOKEN}' \\"
    yield f"    {world.control_url}/api/admin/jobs"
    yield ""
    yield "Ctrl-C ends everything."
