"""The operator's metrics and probes (RUN-5)."""

from vworkspace_app.observability.endpoints import application, serving_in_thread
from vworkspace_app.observability.metrics import Metrics
from vworkspace_app.observability.metrics_telemetry import MetricsTelemetry
from vworkspace_app.observability.stats import LatestStats, ProcessStats

__all__ = ["LatestStats", "Metrics", "MetricsTelemetry", "ProcessStats", "application", "serving_in_thread"]
