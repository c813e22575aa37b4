"""Scripted answers of registries and Helm for the simulated Flux controllers.

The rules of a `FluxBehaviour` choose the answers, for example that the upgrade of a release fails twice.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, assert_never

from kubelab.flux.artifacts import chart_version_of_tag, is_range, newest_within, sha256_of
from kubelab.flux.behaviour import (
    Action,
    ActionAnswer,
    FluxBehaviour,
    FluxOutcome,
    HelmTarget,
    OutcomeKind,
    PullAnswer,
    PullRequest,
    PullStage,
    ReleaseRule,
    SourceFault,
    SourceOutcome,
    SourceRule,
)
from purekube.apimachinery.manifest import ObjectRef

_STORED_NOTHING: Final = (OutcomeKind.RENDER_ERROR, OutcomeKind.VALUES_ERROR)
_LATEST: Final = ("*", "latest", "")
_DEFAULT_VERSION: Final = "0.1.0"


class Script:
    """The registries and Helm as the simulated Flux controllers see them. The rules in `behaviour` choose the answers.

    The uses of each rule are counted, because a rule may be limited to a number of uses. `behaviour` may be replaced at
    any time; a rule that is in the old and the new behaviour keeps its count.
    """

    def __init__(self, behaviour: FluxBehaviour) -> None:
        self.behaviour = behaviour
        self._uses: Counter[tuple[ReleaseRule | SourceRule, HelmTarget | tuple[str, str]]] = Counter()
        self._corrected: dict[str, Sequence[str]] = {}

    def decide(self, action: Action, target: HelmTarget, timeout: float) -> ActionAnswer:
        """Return the outcome that the rules choose for the Helm action `action` on the release `target`.

        An action that hangs, or would take longer than `timeout` seconds, times out after `timeout` seconds.
        """
        outcome = self._outcome(action, target)
        seconds = outcome.seconds if outcome.seconds is not None else self.behaviour.seconds_for(action)
        if outcome.kind is OutcomeKind.HANG or seconds > timeout:
            return ActionAnswer(outcome.message or _timed_out(action, target), timeout, timed_out=True)
        return ActionAnswer(
            _error(outcome, target),
            seconds,
            stores_release=outcome.kind not in _STORED_NOTHING,
            hooks=tuple(self.behaviour.hooks.get(target.chart, ())),
        )

    def _outcome(self, action: Action, target: HelmTarget) -> FluxOutcome:
        matching = (rule for rule in self.behaviour.release_rules if rule.matches(action, target))
        return self._chosen(matching, target) or FluxOutcome()

    def _chosen(self, matching: Iterable[Any], user: HelmTarget | tuple[str, str]) -> Any:
        """Return the outcome of the first rule that is not used up for `user`, and count the use. Return None if there
        is no such rule.
        """
        for rule in matching:
            outcome = rule.outcome  # evaluated once, since a rule may count its uses
            if outcome.times is None or self._uses[rule, user] < outcome.times:
                self._uses[rule, user] += 1
                return outcome
        return None

    def pull(self, request: PullRequest) -> PullAnswer:
        """Return the answer of an OCI registry or Helm repository to `request`, as the rules choose it."""
        outcome = self._source_outcome(request)
        seconds = outcome.seconds if outcome.seconds is not None else self.behaviour.source_fetch_seconds
        if outcome.fault is not SourceFault.NONE:
            return PullAnswer(outcome.fault, outcome.message, seconds)
        version = self._resolve(request)
        if version is None:
            return PullAnswer(SourceFault.NOT_FOUND, "", seconds)
        return PullAnswer(SourceFault.NONE, "", seconds, self._digest(request, version), version)

    def _source_outcome(self, request: PullRequest) -> SourceOutcome:
        matching = (rule for rule in self.behaviour.source_rules if rule.matches(request))
        return self._chosen(matching, (request.namespace, request.source)) or SourceOutcome()

    def _resolve(self, request: PullRequest) -> str | None:
        published = self.behaviour.published.get(request.chart)
        if request.stage is PullStage.OCI:
            return self._resolve_oci(request, published)
        if request.version in _LATEST:
            return published[-1] if published else _DEFAULT_VERSION
        return request.version if published is None or request.version in published else None

    def _resolve_oci(self, request: PullRequest, published: Sequence[str] | None) -> str | None:
        """Return the chart version that the tag or range in `request` selects, or None if that version is not
        published.

        For a digest, return the version under which the digest was pushed, or an empty string if that version is
        unknown.
        """
        desired = request.version
        if desired.startswith("sha256:"):
            return next((item for item in published or () if self._digest(request, item, by_tag=True) == desired), "")
        if is_range(desired):
            return newest_within(desired, published or ())
        return desired if published is None or chart_version_of_tag(desired) in published else None

    def _digest(self, request: PullRequest, version: str, *, by_tag: bool = False) -> str:
        match request.stage:
            case PullStage.OCI if request.version.startswith("sha256:") and not by_tag:
                return request.version
            case PullStage.INDEX:
                return sha256_of(f"{request.url}#{self.behaviour.index_revision}")
            case _:
                key = f"{request.url}:{version}"
                return sha256_of(key + self.behaviour.digest_salts.get(key, ""))

    def drift(self, owner: ObjectRef) -> Sequence[str]:
        """Return the drifted resources of the HelmRelease `owner`, each as `<kind>/<namespace>/<name>`.

        They were changed by hand, and Flux has not corrected them since then. A resource may end with `#` and the JSON
        pointer of the changed field.
        """
        key = f"{owner.namespace}/{owner.name}"
        resources = self.behaviour.drifted.get(key, ())
        return () if self._corrected.get(key) is resources else resources

    def correct(self, owner: ObjectRef) -> None:
        """Record that Flux has corrected the drift of the HelmRelease `owner`."""
        key = f"{owner.namespace}/{owner.name}"
        self._corrected[key] = self.behaviour.drifted.get(key, ())

    def can_impersonate(self, namespace: str, name: str) -> bool:
        """Report whether the service account `namespace`/`name` exists, so that Flux can act as it."""
        return f"{namespace}/{name}" not in self.behaviour.missing_service_accounts


def _timed_out(action: Action, target: HelmTarget) -> str:
    """Return Helm 4's message for an action that has not ended within its timeout."""
    not_ready = f"timeout waiting for: [Deployment/{target.namespace}/{target.release} status: 'InProgress']"
    match action:
        case Action.INSTALL | Action.UPGRADE:
            return not_ready
        case Action.ROLLBACK:
            return f"release {target.release} failed: {not_ready}"
        case Action.UNINSTALL | Action.TEST:
            return "context deadline exceeded"
        case _:
            assert_never(action)


_DEFAULT_ERRORS: Final[dict[OutcomeKind, Callable[[HelmTarget], str]]] = {
    OutcomeKind.SUCCEED: lambda _: "",
    OutcomeKind.FAIL: lambda target: f"Deployment/{target.namespace}/{target.release}: progress deadline exceeded",
    OutcomeKind.RENDER_ERROR: lambda target: f"execution error at ({target.chart}/templates/deployment.yaml:1:4): bad",
    OutcomeKind.VALUES_ERROR: lambda target: (
        f"values don't meet the specifications of the schema(s) in the following chart(s):\n{target.chart}:\n"
        "- at '/replicas': got string, want integer"
    ),
}


def _error(outcome: FluxOutcome, target: HelmTarget) -> str:
    return "" if outcome.kind is OutcomeKind.SUCCEED else outcome.message or _DEFAULT_ERRORS[outcome.kind](target)
