"""The CRDs of the projects downstream, where they are at hand: read once for all tests of a process."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "crds"


def projects_crds(pattern: str = "*.yaml") -> dict[str, Any]:
    """Those CRDs by name, not to be changed; skips where none are."""
    found = crds_at_hand(pattern)
    if not found:
        pytest.skip(f"the projects' own CRDs are not at hand in {FOLDER}")
    return dict(found)


@cache
def crds_at_hand(pattern: str = "*.yaml") -> dict[str, Any]:
    """Return those CRDs by name, not to be changed; none where the folder is absent."""
    yaml = pytest.importorskip("yaml", reason="reading CRDs needs PyYAML")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts = (file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob(pattern)))
    return {
        document["metadata"]["name"]: document for text in texts for document in yaml.load_all(text, loader) if document
    }
