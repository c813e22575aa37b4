"""The Grafana dashboard as JSON: the table of panels, laid out. docs/observability is generated from it."""

import json
from collections.abc import Iterator
from typing import Any, Final

from tools.dashboard_panels import ROWS, Panel

_WIDTH: Final = 24
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def dashboard() -> str:
    """Return the dashboard as JSON, for Grafana's import."""
    document = {
        "title": "vWorkspace operator",
        "uid": "vworkspace-operator",
        "tags": ["kubernetes", "operator", "vworkspace"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_variable_source(), _variable_namespace()]},
        "panels": list(_panels()),
    }
    return json.dumps(document, indent=2) + "\n"


def _variable_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable_namespace() -> dict[str, Any]:
    query = "label_values(vworkspace_operator_build_info, namespace)"
    return {
        "name": "namespace",
        "label": "Namespace of the operator",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": "namespace"},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[dict[str, Any]]:
    """Yield rows and panels from top to bottom, each line filled from left to right."""
    serial, x, y = 0, 0, 0
    for row in ROWS:
        serial += 1
        yield {
            "id": serial,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"h": 1, "w": _WIDTH, "x": 0, "y": y},
            "panels": [],
        }
        x, y = 0, y + 1
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, y = 0, y + _HEIGHT
            serial += 1
            yield _panel(panel, serial, x, y)
            x += panel.width
        y += _HEIGHT


def _panel(panel: Panel, serial: int, x: int, y: int) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
        for number, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "id": serial,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }
