"""The alert rules, for Prometheus as a file and for its operator as an object (RUN-5)."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from vworkspace_app.install.names import NAME
from vworkspace_app.install.options import InstallOptions, meta

_FILE: Final = Path(__file__).with_name("alerts.yaml")


@cache
def alerts_file() -> str:
    """Return the rule file, as Prometheus loads it."""
    return _FILE.read_text(encoding="utf-8")


@cache
def _groups() -> list[Mapping[str, Any]]:
    groups: list[Mapping[str, Any]] = yaml.safe_load(alerts_file())["groups"]
    return groups


def prometheus_rule(options: InstallOptions) -> dict[str, Any]:
    """Return the same rules as a PrometheusRule."""
    metadata = meta(NAME, options.namespace)
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {**metadata, "labels": {**metadata["labels"], **options.prometheus_rule_labels}},
        "spec": {"groups": _groups()},
    }
