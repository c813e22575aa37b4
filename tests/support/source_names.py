"""Names of what the operator makes, computed without it: a source is called after what it fetches (REC-3)."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import HELM_REPOSITORY, OCI_REPOSITORY


def source_name(release: str, chart: Mapping[str, Any], version: str | None = None) -> str:
    """The name of the source of a chart as an instance's spec has it, of another version where one is given."""
    fetched: dict[str, Any] = {key: chart[key] for key in ("secretRef", "certSecretRef") if key in chart}
    if chart["sourceType"] == "oci":
        fetched["url"] = f"{chart['url'].rstrip('/')}/{chart['name']}"
        fetched["ref"] = {"tag": (version or chart["version"]).replace("+", "_")}
    else:
        fetched["url"] = chart["url"]
    return f"{release}-{_hash(fetched)}"


def source_ref(namespace: str, release: str, chart: Mapping[str, Any], version: str | None = None) -> ObjectRef:
    """The source itself."""
    kind = OCI_REPOSITORY if chart["sourceType"] == "oci" else HELM_REPOSITORY
    return ObjectRef(kind, namespace, source_name(release, chart, version))


def fragment_name(release: str, fragment: Mapping[str, Any], uid: str) -> str:
    """The name of the ConfigMap with the integrations' values."""
    return f"{release}-integrations-{_hash({'uid': uid, 'values': fragment})}"


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
