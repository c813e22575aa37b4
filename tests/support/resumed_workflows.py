"""The patch by which users resume an Argo workflow."""

from typing import Any

from kubelab.downstream.workflow_nodes import compressed, written_nodes
from purekube.apimachinery.manifest import Manifest


def resume_patch(workflow: Manifest) -> dict[str, Any]:
    """Return the merge patch by which users resume a workflow.

    Suspended nodes succeed, and `spec.suspend` is removed.
    """
    nodes = {
        id_: {**node, "phase": "Succeeded"} if (node.get("type"), node.get("phase")) == ("Suspend", "Running") else node
        for id_, node in written_nodes(workflow).items()
    }
    packed = "compressedNodes" in (workflow.get("status") or {})
    status = {"compressedNodes": compressed(nodes)} if packed else {"nodes": nodes}
    return {"spec": {"suspend": None}, "status": status}
