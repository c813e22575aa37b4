"""Pages that are generated for `make docs-site` and not committed: `python -m tools.site_pages FOLDER`.

In the repository a page of the same name says where the generated one is, so that links hold there, too.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.docs import decision_pages, spec_pages
from tools.commands_page import commands_page
from tools.flux_page import flux_page
from tools.metrics_page import metrics_page
from tools.modules_page import modules_page
from tools.operations_page import engines_page
from vworkspace_app.settings import loading


def site_pages() -> Mapping[str, str]:
    """Return the text of every generated page by its path on the site."""
    return {
        "docs/cli.md": commands_page(),
        "docs/engines.md": engines_page(),
        "docs/flux-scenarios.md": flux_page(),
        "docs/metrics.md": metrics_page(),
        "docs/modules.md": modules_page(),
        "docs/settings.md": loading.markdown(),
        "docs/decisions/README.md": decision_pages.page(),
        "docs/spec/proofs.md": spec_pages.page(),
    }


def main(folder: Path) -> None:
    """Write every generated page below a folder."""
    for name, text in site_pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
