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

Generated from `app/vworkspace_app/observability/` by `make manifests`; do not edit.

`run --listen 0.0.0.0:8080` serves `/metrics`, `/healthz` and `/readyz` over plain HTTP. Names of controller-runtime and
client-go are kept, so that dashboards made for them work; labels hold no names of objects, unless `--metrics-names`
asks for some. Beside these come the `process_…` metrics of the Prometheus client. [observability/](observability/) has
a Grafana dashboard that begins with applications, and alert rules, each with what to do.

How long something has been in the way is told as an age by condition, status and reason. So many short installs are no
alarm, one that is stuck is, and a restart of the operator resets nothing. What is well costs nothing.

| metric | type | labels | meaning |
|---|---|---|---|
{metrics}

## Probes

Both answer 200 or 503 with a line for each check, `[+]` or `[-]` with what is wrong. They are served by a thread of
their own, so that a blocked event loop is told instead of timing out.

| check | of | fails when |
|---|---|---|
{checks}

`/healthz` does not fail for what no restart can mend: a kind whose CRD is missing, a server that refuses, a control
plane that is away.
"""
