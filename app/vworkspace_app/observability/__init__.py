"""What the operator shows of itself: metrics and probes (RUN-5)."""

from vworkspace_app.observability.metrics import Metrics
from vworkspace_app.observability.snapshot import Board, Snapshot
from vworkspace_app.observability.telemetry import Watching
from vworkspace_app.observability.web import served, web

__all__ = ["Board", "Metrics", "Snapshot", "Watching", "served", "web"]
