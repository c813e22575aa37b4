"""`conformance operator --flux real` on a cluster of real controllers: our operator passes (CONF-1)."""

import json
from pathlib import Path

import anyio
import pytest

from purekube_http import KubeApiClient, load_config
from tests.support.commands import COMMAND, run
from tests.support.definitions import have_defined
from tools.cluster.charts import Repository
from tools.cluster.up import Cluster
from vworkspace_core.api.crd import crd_manifests

OPERATOR = (
    f"{COMMAND} run --kubeconfig {{kubeconfig}} --control-plane-url {{control_plane}} --cluster-id {{cluster_id}}"
    " --token-file {token_file}"
)
CLAUSES = ("REC-4", "REC-5", "REC-9", "REC-10", "OPS-8", "OPS-11", "OPS-12", "PULL-2", "RUN-4")
"""Releases, Jobs that hang, jobs of the control plane, replicas."""
PLAYED = ("chart_unreachable", "deletion_waits", "failed_install", "failed_upgrade", "installing", "main_job")
"""Checks of these clauses that ask Flux to fail, or to take its time."""

_AT_MOST = 540.0

pytestmark = pytest.mark.operator


@pytest.fixture(autouse=True)
def defined(cluster: Cluster) -> None:
    """Other tests use the definitions at the same time: they stay."""

    async def define() -> None:
        async with KubeApiClient(load_config(cluster.kubeconfig)) as api:
            await have_defined(crd_manifests(), api)

    anyio.run(define)


def test_our_operator_passes_beside_a_real_flux(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.registries is not None
    charts = Repository(cluster.registries.trusted, "examined", cluster.registries.authority)
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        charts.push("shop", version, like="settings")
    report = tmp_path / "report.json"
    chosen = [word for clause in CLAUSES for word in ("--clause", clause)]
    where: tuple[str | Path, ...] = (
        "--kubeconfig",
        cluster.kubeconfig,
        "--flux",
        "real",
        "--chart",
        f"{charts.oci}/shop",
        "--timeout",
        "40s",
    )

    ended = run(
        *("conformance", "operator", "--profile", "full", *chosen, *where, "--report", report),
        *("--operator", OPERATOR, "--replicas", f"{OPERATOR} --leader-elect"),
        cold=True,
        seconds=_AT_MOST,
    )

    assert ended.status == 0, ended.out + ended.err
    verdicts = {check["check"]: check["verdict"] for check in json.loads(report.read_text())["checks"]}
    assert {check for check, verdict in verdicts.items() if verdict != "pass"} == set(PLAYED)
    assert len(verdicts) > 2 * len(PLAYED)
