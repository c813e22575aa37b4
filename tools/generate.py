"""The generated files of the repository: CRDs, kustomize bases, the Helm chart, completion of shells, and pages derived
from the code.

`python -m tools.generate ROOT` writes them below ROOT; a test compares them with the committed ones (RES-4, RES-6).
"""

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from purekube.boxes.rollouts.applied_definition import applied_box_definition
from purekube_run.process.yaml_documents import Format, dump
from tools.box_schemas import json_schema
from tools.chart.files import chart
from tools.completion_table import completion_table
from tools.dashboard import dashboard
from tools.editor_schemas import editor_schemas
from tools.expressions_page import expressions_page
from tools.operations_page import operations_page
from tools.vocabulary_page import markdown
from vworkspace_app.install.everything import kustomize_bases
from vworkspace_app.install.network_objects import alerts_file
from vworkspace_core.api.crd import crd_manifests


@cache
def generated_files() -> Mapping[str, str]:
    """Return the text of every generated file by its path in the repository."""
    crds = {f"manifests/crds/{crd['metadata']['name']}.yaml": dump([crd], Format.YAML) for crd in crd_manifests()}
    return {
        **crds,
        **kustomize_bases(),
        **chart(),
        **{f"docs/schemas/{name}": dump([schema], Format.JSON) for name, schema in editor_schemas().items()},
        "app/vworkspace_app/completion.json": completion_table(),
        "docs/conditions.md": markdown(),
        "docs/operations.md": operations_page(),
        "docs/schemas/operatorbox.schema.json": dump([json_schema()], Format.JSON),
        "docs/schemas/operatorbox-crd.yaml": dump([applied_box_definition()], Format.YAML),
        "docs/expressions.md": expressions_page(),
        "docs/observability/alerts.yaml": alerts_file(),
        "docs/observability/grafana-dashboard.json": dashboard(),
    }


def main(root: Path) -> None:
    """Write every generated file below `root`."""
    for name, text in generated_files().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
