"""The page docs/metrics.md: the metrics from their catalogue, the probes with their limits."""

from collections.abc import Iterable
from typing import Final

from purekube.controller.health import DEFAULT_BOUNDS as B
from vworkspace_app.observability.catalogue import CATALOGUE

_SLACK, _STALE = f"{B.slack:g} s", f"{B.stale:g} s"
_BOTH, _HEALTH, _READY = "both", "`/healthz`", "`/readyz`"
_CHECKS: Final = (
    ("`event loop`", _BOTH, f"it gave no sign of life for {B.loop:g} s"),
    ("`informer KIND`", _HEALTH, f"it did nothing {_SLACK} beyond what its present step may take"),
    ("", "", f"it got no answer, not even a refusal, for {_STALE}"),
    ("`driver CONTROLLER`", _HEALTH, f"a reconcile runs {_SLACK} beyond its limit"),
    ("", "", f"keys wait while a worker is free for {B.idle:g} s"),
    ("`started`", _READY, "the API server and the credential are still waited for"),
    ("`cache KIND`", _READY, f"the kind is not listed yet, or what is known of it is older than {_STALE}"),
    ("`shutdown`", _READY, "the process has been asked to end"),
)


def metrics_page() -> str:
    """Return the page as Markdown."""
    metrics = (
        (f"`{metric.name}`", metric.type.value, ", ".join(f"`{label}`" for label in metric.labels), metric.about)
        for metric in CATALOGUE
    )
    return _PAGE.format(metrics=_rows(metrics), checks=_rows(_CHECKS))


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


_PAGE: Final = """# Metrics and probes

Generated from `app/vworkspace_app/observability/`.

`run --listen 0.0.0.0:8080` serves `/metrics`, `/healthz` and `/readyz` over plain HTTP. Names of controller-runtime and
client-go are kept, so that dashboards made for them work; labels hold no names of objects, unless `--metrics-names`
asks for some. The `process_…` metrics of the Prometheus client are included. [observability/](observability/) has
a Grafana dashboard that begins with applications, and alert rules, each with what to do.

The gauges ending in `_oldest_seconds` measure how long a condition has lasted, so many short installs raise no alarm,
and a single stuck one does. A restart of the operator resets nothing. An object without trouble adds no series.

| metric | type | labels | meaning |
|---|---|---|---|
{metrics}

## Probes

Both answer 200 or 503 with a line for each check, `[+]` or `[-]` with what is wrong. A separate thread serves
them, so a blocked event loop is reported instead of timing out.

| check | of | fails when |
|---|---|---|
{checks}

`/healthz` does not fail for what no restart can fix: a missing CRD, a server that refuses, an absent control plane.
"""
