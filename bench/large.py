"""Instances with values of half a megabyte, and the operator's memory with them.

It is measured while they are made, and at the start of another operator. `python -m bench.worst --only large` runs it.
The values are random, so that they cannot be compressed. Their HelmReleases have the same values again.
"""

import base64
import json
import os
import time
import urllib.request
from typing import Final

import attrs

from bench.operators import CLUSTER, Program
from bench.reaching import Client
from bench.side_by_side import PATIENCE
from bench.stage import SPACES
from vworkspace_app.observability.catalogue import INSTANCES as METRIC
from vworkspace_core.api.kinds import APPLICATION_INSTANCE

INSTANCES: Final = 500
BYTES: Final = 500_000
"""The size of each instance's values, as JSON."""
SPACE: Final = SPACES[0]
_EVERY: Final = 0.5


@attrs.frozen
class Peak:
    """The most resident memory of an operator in a part of its life, in MiB, and how long that part took."""

    name: str
    megabytes: float
    seconds: float


def instance(number: int) -> bytes:
    name = f"large-{number}"
    labels = {"app.vworkspace.io/managed-by": "control-plane", "app.vworkspace.io/cluster-id": CLUSTER}
    text = base64.b64encode(os.urandom(BYTES * 3 // 4)).decode()
    spec = {
        "appRef": {"catalogId": "nextcloud"},
        "chart": {"sourceType": "oci", "url": "oci://charts.example.com/apps", "name": "nextcloud", "version": "1.0.0"},
        "release": {"name": name, "namespace": SPACE},
        "values": {"source": "inline", "inline": {"text": text}},
    }
    manifest = APPLICATION_INSTANCE.manifest(name, SPACE)
    return json.dumps({**manifest, "metadata": {**manifest["metadata"], "labels": labels}, "spec": spec}).encode()


def create(client: Client, count: int) -> None:
    path = f"/apis/{APPLICATION_INSTANCE.api_version}/namespaces/{SPACE}/{APPLICATION_INSTANCE.plural}"
    for number in range(count):
        client.send("POST", path, instance(number))


def ready(metrics: str) -> int:
    """Return how many instances are Ready, by the operator's own metrics."""
    with urllib.request.urlopen(f"{metrics}/metrics", timeout=PATIENCE) as answer:
        rows = answer.read().decode().splitlines()
    return sum(int(float(row.rsplit(" ", 1)[1])) for row in rows if _is_ready(row))


def _is_ready(row: str) -> bool:
    return row.startswith(f"{METRIC.name}{{") and 'condition="Ready"' in row and 'status="True"' in row


def until_ready(program: Program, metrics: str, count: int) -> None:
    limit = time.monotonic() + 4 * PATIENCE
    while (seen := ready(metrics)) < count:
        assert program.process.poll() is None, f"the operator ended with status {program.process.returncode}"
        assert time.monotonic() < limit, f"{seen} of {count} are Ready"
        time.sleep(_EVERY)
