"""The spec of a HelmRelease as helm-controller reads it (`api/v2/helmrelease_types.go`), and its condition Ready."""

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from kubelab.flux.artifacts import short_release_name
from kubelab.flux.behaviour import Action, HelmTarget
from kubelab.flux.conditions import READY, RELEASED, REMEDIATED, STALLED, TEST_SUCCESS, FluxCondition
from kubelab.flux.draft import Draft
from kubelab.flux.questions import LoadReleases, StoreReleases
from kubelab.flux.release_history import Snapshot
from kubelab.flux.storage import StoredRelease, replace
from kubelab.simulation.effects import PassStep
from purekube.apimachinery.conditions import conditions_of
from purekube.apimachinery.durations import seconds_of
from purekube.apimachinery.manifest import Manifest, get_path, metadata

# api/v2/helmrelease_types.go: GetTimeout, and GetRetryInterval below.
_DEFAULT_TIMEOUT: Final = 300.0
# Flux's default, not Helm's: `helm upgrade` keeps ten revisions.
_DEFAULT_HISTORY: Final = 5
_DEFAULT_RETRY_INTERVAL: Final = 300.0

FAILURE_COUNTERS: Final = ("failures", "installFailures", "upgradeFailures")
"""The fields of a HelmRelease's status that count failed actions."""


@attrs.frozen
class Remediation:
    """The reaction to a failed install or upgrade. A negative number of `retries` means no limit.

    `counter` is the name of the status field that holds the number of failures.
    """

    retries: int
    remediate_last_failure: bool
    strategy: str
    ignore_test_failures: bool
    counter: str

    def failures(self, status: Mapping[str, Any]) -> int:
        """Return the number of failures in the HelmRelease's `status` that count against the retries so far."""
        return int(status.get(self.counter, 0))

    def exhausted(self, status: Mapping[str, Any]) -> bool:
        """Report whether no retries remain after the failures in the HelmRelease's `status`."""
        # One attempt and `retries` more: the first failure does not count as a retry (RetriesExhausted).
        return 0 <= self.retries < self.failures(status)


@attrs.frozen
class HelmSpec:
    """The names and settings of one HelmRelease, with defaults applied."""

    raw: Mapping[str, Any]
    namespace: str
    name: str

    @classmethod
    def of(cls, manifest: Manifest) -> "HelmSpec":
        """Return the HelmSpec (the names and settings) of the HelmRelease `manifest`."""
        meta = metadata(manifest)
        spec = manifest.get("spec")
        return cls(spec if isinstance(spec, Mapping) else {}, str(meta.get("namespace", "")), str(meta.get("name", "")))

    @property
    def release_name(self) -> str:
        """The release's name in messages: `releaseName` if that is set, and otherwise `[targetNamespace-]name`."""
        # GetReleaseName. Messages about a failure have this name; Helm has the shortened one.
        target = self.raw.get("targetNamespace")
        return str(self.raw.get("releaseName") or (f"{target}-{self.name}" if target else self.name))

    @property
    def stored_name(self) -> str:
        """The name of the Helm release: `release_name`, shortened to what Helm allows."""
        return short_release_name(self.release_name)

    @property
    def release_namespace(self) -> str:
        """The namespace of the objects that the Helm release installs."""
        return str(self.raw.get("targetNamespace") or self.namespace)

    @property
    def storage_namespace(self) -> str:
        """The namespace in which Helm stores its releases."""
        return str(self.raw.get("storageNamespace") or self.namespace)

    @property
    def chart_object(self) -> str:
        """The name of the HelmChart that helm-controller makes from `spec.chart`."""
        return f"{self.namespace}-{self.name}"

    @property
    def interval(self) -> float:
        """The seconds between two passes if no change triggers a pass earlier."""
        return seconds_of(str(self.raw["interval"]))

    @property
    def max_history(self) -> int:
        """The number of revisions that Helm keeps; 0 means all."""
        return int(self.raw.get("maxHistory", _DEFAULT_HISTORY))

    @property
    def tests_enabled(self) -> bool:
        """True if Helm tests run after each install or upgrade."""
        return bool(get_path(self.raw, "test", "enable"))

    @property
    def ignores_test_failures(self) -> bool:
        """True if failed Helm tests do not make the HelmRelease unready."""
        return bool(get_path(self.raw, "test", "ignoreFailures"))

    @property
    def drift_mode(self) -> str:
        """The mode of drift detection: `enabled`, `warn` or `disabled`."""
        return str(get_path(self.raw, "driftDetection", "mode") or "disabled")

    def ignores_drift(self, drifted: str) -> bool:
        """Report whether a rule of `driftDetection.ignore` covers the change `drifted` of a resource.

        The change is given as `<kind>/<namespace>/<name>#<JSON pointer>`.
        """
        resource, _, pointer = drifted.partition("#")
        parts = dict(zip(("kind", "namespace", "name"), resource.split("/"), strict=True))
        return any(
            any(f"{pointer}/".startswith(f"{path}/") for path in rule["paths"])
            and all(re.fullmatch(str(get_path(rule, "target", key) or ".*"), part) for key, part in parts.items())
            for rule in get_path(self.raw, "driftDetection", "ignore") or ()
        )

    def timeout(self, action: str) -> float:
        """Return the time in seconds that the action `action`, such as `upgrade`, may take."""
        # Unlocking and correcting drift have no setting of their own (timeoutForAction).
        text = get_path(self.raw, action, "timeout") or self.raw.get("timeout")
        return seconds_of(str(text)) if text else _DEFAULT_TIMEOUT


def remediation_for(spec: HelmSpec, action: Action) -> Remediation:
    """Return the remediation that `spec` configures for `action`, an install or an upgrade."""
    remediation = get_path(spec.raw, action.value, "remediation") or {}
    retries = int(remediation.get("retries", 0))
    upgrade = action is Action.UPGRADE
    return Remediation(
        retries=retries,
        remediate_last_failure=bool(remediation.get("remediateLastFailure", upgrade and retries > 0)),
        strategy=str(remediation.get("strategy", "rollback")) if upgrade else "uninstall",
        ignore_test_failures=bool(remediation.get("ignoreTestFailures", spec.ignores_test_failures)),
        counter="upgradeFailures" if upgrade else "installFailures",
    )


def active_remediation(spec: HelmSpec, status: Mapping[str, Any]) -> Remediation | None:
    """Return the remediation that `spec` configures for the last attempted Helm action, or None before the first one.

    The HelmRelease's `status` records which action was attempted last.
    """
    action = status.get("lastAttemptedReleaseAction")
    return remediation_for(spec, Action(action)) if action else None


def active_retry_interval(spec: HelmSpec, status: Mapping[str, Any]) -> float | None:
    """Return the seconds between retries that `spec` sets, or None if the strategy is not RetryOnFailure.

    The strategy is the one for the last action that `status`, the HelmRelease's status, records as attempted.
    """
    action = status.get("lastAttemptedReleaseAction")
    strategy = (get_path(spec.raw, action, "strategy") if action else None) or {}
    if strategy.get("name") != "RetryOnFailure":
        return None
    text = strategy.get("retryInterval")
    return seconds_of(str(text)) if text else _DEFAULT_RETRY_INTERVAL


@attrs.frozen
class Chart:
    """A chart that helm-controller has loaded for a Helm release.

    `version` includes the digest of an OCI source; `own_version` is the version in the chart itself.
    """

    name: str
    version: str
    own_version: str
    oci_digest: str = ""


@attrs.frozen
class HelmValues:
    """The values of a release.

    `inline` are the values in the HelmRelease's spec. `digest` covers them and the content of `valuesFrom`.
    """

    inline: Mapping[str, Any]
    digest: str


@attrs.frozen
class HelmRequest:
    """One HelmRelease with the chart and the values for its Helm actions."""

    draft: Draft
    spec: HelmSpec
    chart: Chart
    values: HelmValues

    @property
    def target(self) -> HelmTarget:
        """The Helm release on which this request's actions act, with its chart."""
        return HelmTarget(self.spec.release_namespace, self.spec.stored_name, self.chart.name, self.chart.own_version)

    @property
    def history(self) -> list[Snapshot]:
        """The entries of the HelmRelease's `status.history`, newest first."""
        return list(self.draft.status.get("history") or ())

    def set_history(self, history: list[Snapshot]) -> None:
        """Replace the HelmRelease's `status.history` by the entries in `history`, sorted with the newest first."""
        if history:
            self.draft.status["history"] = sorted(history, key=lambda entry: -int(entry["version"]))
        else:
            self.draft.status.pop("history", None)

    def load(self) -> PassStep[tuple[StoredRelease, ...]]:
        """Return the revisions of this release in Helm's storage, oldest first."""
        place = (self.draft.status["storageNamespace"], self.spec.stored_name)
        return (yield from LoadReleases(*place, self.draft.ref).ask())

    def store(self, *changed: StoredRelease) -> PassStep[None]:
        """Add the revisions `changed` of this release to Helm's storage, in place of any with the same numbers."""
        yield from self.store_all(replace((yield from self.load()), *changed))

    def store_all(self, releases: tuple[StoredRelease, ...]) -> PassStep[None]:
        """Make `releases` the only revisions of this release in Helm's storage.

        Stored revisions that are not in `releases` are removed.
        """
        yield StoreReleases(self.draft.status["storageNamespace"], self.spec.stored_name, releases, self.draft.ref)


def summarize_release(draft: Draft, spec: HelmSpec) -> None:
    """Set the condition Ready of the HelmRelease in `draft`, derived from Remediated, TestSuccess and Released.

    Ready is copied from the one of them with the latest `observedGeneration`; among equals, the first in this order
    counts. TestSuccess counts only if `spec` enables tests and does not ignore their failures. Remediated makes Ready
    False even if the remediation succeeded (`internal/reconcile/release.go`, summarize), and is removed if the release
    has succeeded since. If the object has none of the three, its first condition is copied, even if that is Ready
    itself. A lost Released therefore leaves Ready=Unknown for good (helm-controller#1409).
    """
    scope = [REMEDIATED, TEST_SUCCESS, RELEASED]
    if not spec.tests_enabled:
        draft.unmark(TEST_SUCCESS)
    if not spec.tests_enabled or spec.ignores_test_failures:
        scope.remove(TEST_SUCCESS)
    if _is_released_since(conditions_of(draft.object), scope):
        draft.unmark(REMEDIATED)
    conditions = conditions_of(draft.object)
    if not conditions:
        return
    # Generations of conditions count, not that of the object: a new generation without a new release is still Ready.
    winner = _winner(conditions, scope)
    status = "False" if winner["type"] == REMEDIATED else str(winner["status"])
    if status == "True":
        draft.unmark(STALLED)
    draft.mark(READY, status, str(winner["reason"]), str(winner["message"]))


def _is_released_since(conditions: "list[FluxCondition] | Any", scope: list[str]) -> bool:
    """Report whether the release has succeeded, in its tests too if they are in `scope`, since it was remediated.

    Only generations are compared (`internal/reconcile/release.go`, conditionallyDeleteRemediated).
    """
    found: dict[str, FluxCondition] = {item["type"]: item for item in conditions}
    remediated, released = found.get(REMEDIATED), found.get(RELEASED)
    last = found.get(TEST_SUCCESS) if TEST_SUCCESS in scope else released
    if remediated is None or released is None or last is None:
        return False
    is_later = int(last.get("observedGeneration", 0)) >= int(remediated.get("observedGeneration", 0))
    return (released["status"], last["status"]) == ("True", "True") and is_later


def _winner(conditions: "list[FluxCondition] | Any", scope: list[str]) -> FluxCondition:
    ranked = [item for item in conditions if item["type"] in scope]
    if not ranked:
        first: FluxCondition = conditions[0]
        return first
    return min(ranked, key=lambda item: (-int(item.get("observedGeneration", 0)), scope.index(item["type"])))
