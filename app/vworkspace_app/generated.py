"""Files of the repository that are generated: CRDs, kustomize bases, and pages about what the code knows best.

`python -m vworkspace_app.generated ROOT` writes them below ROOT; a test compares (RES-4, RES-6).
"""

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from vworkspace_app.documents import Format, dump
from vworkspace_app.install.kustomize import bases
from vworkspace_app.observability.dashboard import dashboard
from vworkspace_app.observability.page import metrics_page
from vworkspace_app.reference import commands_page, operations_page
from vworkspace_app.reference.expressions_page import expressions_page
from vworkspace_app.settings import shown
from vworkspace_core.kinds.crd import crd_manifests
from vworkspace_core.kinds.vocabulary_page import markdown

__all__ = ["generated_files", "main"]


@cache
def generated_files() -> Mapping[str, str]:
    """Text of every generated file by its path in the repository."""
    crds = {f"manifests/crds/{crd['metadata']['name']}.yaml": dump([crd], Format.YAML) for crd in crd_manifests()}
    return {
        **crds,
        **bases(),
        "docs/cli.md": commands_page(),
        "docs/conditions.md": markdown(),
        "docs/operations.md": operations_page(),
        "docs/expressions.md": expressions_page(),
        "docs/settings.md": shown.markdown(),
        "docs/metrics.md": metrics_page(),
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
