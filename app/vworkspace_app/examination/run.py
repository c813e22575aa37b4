"""The examination of an operator, which starts the operator, runs the chosen checks and returns their findings.

`CODES` and `UNSEEN` say which clauses (numbered requirements) each profile examines, and which cannot be observed from
outside.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import attrs

from kubelab.downstream.crds import downstream_crds
from kubelab.flux.crds import flux_crds
from purekube.apimachinery.errors import AlreadyExists, OperatorError
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.resources import NAMESPACE, VELERO_BACKUP, VOLUME_SNAPSHOT
from purekube_run.examination.examination import Examination, cluster_for, open_examination
from purekube_run.examination.operator_process import OperatorCommand
from purekube_run.examination.verdicts import Check, Finding, Verdict
from vworkspace_app.examination.case import CHART, CHECKS, InstanceCase
from vworkspace_app.examination.checks import operations, pull, reconcile, resources, runtime
from vworkspace_app.examination.played import ENGINES, serve_control_plane
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_fake.controlplane import ControlPlaneServer

MODULES: Final = (resources, reconcile, operations, pull, runtime)
"""The modules of checks: their import fills the catalogue `CHECKS`."""
NAMES: Final = frozenset({"kubeconfig", "cluster_id", "control_plane", "token_file", "namespace"})
"""The placeholders that the command which starts the operator may contain."""
_OWN_NAMESPACE: Final = "vworkspace-system"


class ExaminationProfile(StrEnum):
    """The parts of the specification that an operator implements, and for which it is examined.

    They are Operations with instances (GITOPS), jobs with instances (AGENT), or all of these (FULL).
    """

    GITOPS = "gitops"
    """The operator serves instances and Operations that users and GitOps tools apply."""
    AGENT = "agent"
    """The operator serves instances, and jobs of a control plane."""
    FULL = "full"


CODES: Final[Mapping[ExaminationProfile, tuple[str, ...]]] = {
    ExaminationProfile.GITOPS: ("RES", "REC", "OPS", "RUN"),
    ExaminationProfile.AGENT: ("RES", "REC", "PULL", "RUN"),
    ExaminationProfile.FULL: ("RES", "REC", "OPS", "PULL", "RUN"),
}


def place_of(clause: str) -> tuple[int, int]:
    """Return a sort key for a clause such as `REC-5`: clauses are sorted as in the specification."""
    code, _, number = clause.partition("-")
    return CODES[ExaminationProfile.FULL].index(code), int(number)


UNSEEN: Final[Mapping[str, str]] = {
    "RES-2": "the form of Operations is examined with OPS-1 to OPS-12",
    "PULL-9": "it takes keys that the operator was given; tests/conformance/test_payload_security.py examines ours",
    "PULL-11": "it is about the control plane: `conformance control-plane`",
    "RUN-6": "admission webhooks are called by the API server, not by clients",
    "RUN-7": "what an installation consists of is each operator's own",
    "RUN-8": "it is about the tests of this repository",
    "RUN-9": "it is about the embedded API server: tests/conformance",
    "RUN-10": "it is about the simulation: `simulate`",
    "RUN-13": "how shards are started is each operator's own; tests/e2e/test_shards.py examines ours",
}
"""The clauses without a check, each with the reason."""


@attrs.frozen
class ExaminationRequest:
    """The options of an examination of an operator.

    `command` starts the operator, and `replicas` one of several replicas, for checks of leader election. Without a
    `kubeconfig`, the cluster is an embedded API server. A check waits up to `patience` seconds for an effect. If
    `plays_flux` is True, Flux is simulated; otherwise Flux runs in the cluster.
    """

    command: OperatorCommand
    profile: ExaminationProfile = ExaminationProfile.GITOPS
    kubeconfig: Path | None = None
    clauses: tuple[str, ...] = ()
    """The clauses to examine, or names of checks; empty for all clauses of the profile."""
    patience: float = 15.0
    keep: bool = False
    replicas: OperatorCommand | None = None
    plays_flux: bool = True
    cluster_id: str = "examined"
    chart: str = CHART

    @property
    def checks(self) -> Sequence[Check[InstanceCase]]:
        """The chosen checks in the order of their clauses (numbered requirements)."""
        codes = CODES[self.profile]
        every = [each for each in CHECKS.checks if each.clause.partition("-")[0] in codes]
        chosen = [each for each in every if not self.clauses or {each.clause, each.name} & set(self.clauses)]
        return sorted(chosen, key=lambda each: place_of(each.clause))

    @property
    def unknown(self) -> Sequence[str]:
        """The chosen clauses and names of which the profile has no check and no reason why there is none."""
        known = {name for each in self.checks for name in (each.clause, each.name)}
        return [each for each in self.clauses if each not in known | {finding.clause for finding in self.unseen}]

    @property
    def unseen(self) -> Sequence[Finding]:
        """The findings (results) about chosen clauses that cannot be observed from outside.

        A clause is a numbered requirement. Each finding has the verdict NOT_TRIED and the reason.
        """
        return [
            Finding(clause, "not seen from outside", Verdict.NOT_TRIED, reason)
            for clause, reason in UNSEEN.items()
            if clause.partition("-")[0] in CODES[self.profile] and (not self.clauses or clause in self.clauses)
        ]


async def examine(request: ExaminationRequest, on_finding: Callable[[Finding], None]) -> tuple[list[Finding], str]:
    """Run an examination of an operator; return the findings (results) of all checks, and the name of the API server.

    `on_finding` is called with each finding as soon as its check has ended. Raises CommandError if the operator does
    not start.
    """
    crds = [*crd_manifests(), *flux_crds(), *downstream_crds(ENGINES)]
    async with (
        cluster_for(request.kubeconfig, crds, "") as (config, server),
        open_examination(
            config,
            request.command,
            APPLICATION_INSTANCE,
            patience=request.patience,
            keep=request.keep,
            lasts=request.kubeconfig is not None,
        ) as examination,
    ):
        await _prepare(examination, request)
        await examination.start()
        return [*await examination.run(request.checks, InstanceCase, on_finding), *request.unseen], server


async def _prepare(examination: Examination, request: ExaminationRequest) -> None:
    """Create the objects that every check needs, and record which prerequisites of checks this examination provides."""
    control, token = ControlPlaneServer(), secrets.token_urlsafe(24)
    control.tokens.add(request.cluster_id, token)
    token_file = examination.folder / "token"
    token_file.write_text(token, encoding="utf-8")
    token_file.chmod(0o600)
    url = await examination.group.start(serve_control_plane, control)
    examination.values = {
        "cluster_id": request.cluster_id,
        "control_plane": url,
        "token_file": str(token_file),
        "namespace": _OWN_NAMESPACE,
    }
    for name in (_OWN_NAMESPACE, "velero"):
        with suppress(AlreadyExists):
            made = await examination.api.create(NAMESPACE.manifest(name), kind=NAMESPACE, field_manager="examiner")
            examination.leavings.add(made, NAMESPACE)
    examination.has = frozenset([name async for name in _offers(examination, request)])
    examination.played = {"control": control, "token": token, "replicas": request.replicas, "chart": request.chart}


async def _offers(examination: Examination, request: ExaminationRequest) -> AsyncIterator[str]:
    """Yield the names of the prerequisites of checks that this examination provides: keys of `NEEDS`."""
    served = {"operations": OPERATION, "clusters": CLUSTER, "velero": VELERO_BACKUP, "snapshots": VOLUME_SNAPSHOT}
    for name, kind in served.items():
        if await _is_served(examination, kind):
            yield name
    conditions: Mapping[str, Any] = {
        "control-plane": request.command.names("control_plane", "token_file"),
        "replicas": request.replicas,
        "played-flux": request.plays_flux,
        "embedded": request.kubeconfig is None,
    }
    for name, holds in conditions.items():
        if holds:
            yield name


async def _is_served(examination: Examination, kind: Kind) -> bool:
    try:
        await examination.api.list(kind, limit=1)
    except OperatorError:
        return False
    return True
