"""The inputs of one pass over a HelmRelease, and the summary that becomes its Ready condition."""

from collections.abc import Mapping
from typing import Any

import attrs

from kubelab.flux.behaviour import HelmTarget
from kubelab.flux.conditions import READY, RELEASED, REMEDIATED, STALLED, TEST_SUCCESS, FluxCondition, conditions_of
from kubelab.flux.draft import Draft
from kubelab.flux.helm_spec import HelmSpec
from kubelab.flux.history import Snapshot
from kubelab.flux.questions import StoreReleases, load_releases
from kubelab.flux.storage import StoredRelease, replace
from kubelab.simulation.effects import PassStep


@attrs.frozen
class Chart:
    """A loaded chart. `version` includes the digest of an OCI source, `own_version` is the chart's own."""

    name: str
    version: str
    own_version: str
    oci_digest: str = ""


@attrs.frozen
class HelmValues:
    """Composed values: the inline ones, and the digest over all parts."""

    inline: Mapping[str, Any]
    digest: str


@attrs.frozen
class HelmRequest:
    """One HelmRelease with its chart and values."""

    draft: Draft
    spec: HelmSpec
    chart: Chart
    values: HelmValues

    @property
    def target(self) -> HelmTarget:
        """The release of this request's Helm actions."""
        return HelmTarget(self.spec.release_namespace, self.spec.stored_name, self.chart.name, self.chart.own_version)

    @property
    def history(self) -> list[Snapshot]:
        """The entries of `status.history`, newest first."""
        return list(self.draft.status.get("history") or ())

    def set_history(self, history: list[Snapshot]) -> None:
        """Replace `status.history`."""
        if history:
            self.draft.status["history"] = sorted(history, key=lambda entry: -int(entry["version"]))
        else:
            self.draft.status.pop("history", None)

    def load(self) -> PassStep[tuple[StoredRelease, ...]]:
        """Return Helm's storage of this release."""
        return (yield from load_releases(self.draft.status["storageNamespace"], self.spec.stored_name, self.draft.ref))

    def store(self, *changed: StoredRelease) -> PassStep[None]:
        """Add or replace revisions in Helm's storage."""
        yield from self.store_all(replace((yield from self.load()), *changed))

    def store_all(self, releases: tuple[StoredRelease, ...]) -> PassStep[None]:
        """Replace Helm's storage of this release."""
        yield StoreReleases(self.draft.status["storageNamespace"], self.spec.stored_name, releases, self.draft.ref)


def summarize_release(draft: Draft, spec: HelmSpec) -> None:
    """Copy the decisive one of Remediated, TestSuccess and Released to Ready; the latest generation comes first.

    Remediated makes Ready False even if the remediation succeeded (`internal/reconcile/release.go`, summarize). Without
    any of the three, the first condition is copied, even Ready itself: therefore a lost Released leaves Ready=Unknown
    for good (helm-controller#1409).
    """
    scope = [REMEDIATED, TEST_SUCCESS, RELEASED]
    if not spec.tests_enabled:
        draft.unmark(TEST_SUCCESS)
    if not spec.tests_enabled or spec.ignores_test_failures:
        scope.remove(TEST_SUCCESS)
    conditions = conditions_of(draft.object)
    if not conditions:
        return
    winner = _winner(conditions, scope)
    status = "False" if winner["type"] == REMEDIATED else str(winner["status"])
    if status == "True":
        draft.unmark(STALLED)
    draft.mark(READY, status, str(winner["reason"]), str(winner["message"]))


def _winner(conditions: "list[FluxCondition] | Any", scope: list[str]) -> FluxCondition:
    ranked = [item for item in conditions if item["type"] in scope]
    if not ranked:
        first: FluxCondition = conditions[0]
        return first
    return min(ranked, key=lambda item: (-int(item.get("observedGeneration", 0)), scope.index(item["type"])))
