"""The behaviour of a simulated Flux: delays, outcomes, existing charts; data that can be changed at run time.

Rules say how Helm actions and requests to registries end. The first rule that matches and is not used up decides;
without one everything succeeds. A rule counts its uses per release and chart version (or per source), so that
`FluxOutcome(OutcomeKind.FAIL, times=2)` fails twice for each.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import attrs


class Action(StrEnum):
    """The Helm actions, named as in Flux's messages."""

    INSTALL = "install"
    UPGRADE = "upgrade"
    ROLLBACK = "rollback"
    UNINSTALL = "uninstall"
    TEST = "test"


class OutcomeKind(StrEnum):
    """The ways in which a Helm action can end."""

    SUCCEED = "succeed"
    FAIL = "fail"
    """The action ran and failed: Helm stored a failed release, and the failure counts against the retries.

    An uninstall fails before it removes anything.
    """
    HANG = "hang"
    """Resources never become ready: the action takes until its timeout, then ends as FAIL.

    An uninstall has removed everything by then, and fails nevertheless.
    """
    RENDER_ERROR = "render-error"
    """Templates do not render: no release is stored, no failure counted, retried with backoff forever."""
    VALUES_ERROR = "values-error"
    """The values violate the chart's schema; the consequences are those of RENDER_ERROR."""


@attrs.frozen
class FluxOutcome:
    """The outcome of one Helm action. `seconds` overrides the action's usual duration.

    `times` limits how often a rule with this outcome is used for each release and chart version.
    """

    kind: OutcomeKind = OutcomeKind.SUCCEED
    message: str = ""
    times: int | None = None
    seconds: float | None = None


@attrs.frozen
class HelmTarget:
    """The Helm release on which an action acts, with its chart.

    `version` is the version that the chart declares. It lacks the digest that Flux adds to the version.
    """

    namespace: str
    release: str
    chart: str
    version: str


@attrs.frozen
class ReleaseRule:
    """A rule that determines the outcome of matching Helm actions in a simulated Flux.

    It matches by action, namespace, release, chart and version. A field that is None matches every action.
    """

    outcome: FluxOutcome
    action: Action | None = None
    namespace: str | None = None
    release: str | None = None
    chart: str | None = None
    version: str | None = None

    def matches(self, action: Action, target: HelmTarget) -> bool:
        """Report whether the rule applies to the Helm action `action` on the release `target`."""
        desired = (self.action, self.namespace, self.release, self.chart, self.version)
        actual = (action, target.namespace, target.release, target.chart, target.version)
        return all(want is None or want == have for want, have in zip(desired, actual, strict=True))


class PullStage(StrEnum):
    """The kinds of requests to a registry or Helm repository."""

    OCI = "oci"
    INDEX = "index"
    CHART = "chart"


class SourceFault(StrEnum):
    """The simulated faults of a registry or repository."""

    NONE = "none"
    NOT_FOUND = "not-found"
    """The tag, the index or the chart version does not exist."""
    UNAUTHORIZED = "unauthorized"
    """The registry answers 401. On an OCIRepository this shows as OCIArtifactPullFailed."""
    CREDENTIALS = "credentials"
    """The credentials cannot be read: AuthenticationFailed."""
    UNAVAILABLE = "unavailable"
    """The registry cannot be reached."""
    INVALID_URL = "invalid-url"
    """The URL cannot be parsed: the source stalls with URLInvalid."""
    CORRUPT = "corrupt"
    """The answer is not an index, or has no chart layer."""


@attrs.frozen
class SourceOutcome:
    """The outcome of one request to a registry or repository. `seconds` overrides the request's usual duration.

    `times` limits how often a rule with this outcome is used for each source.
    """

    fault: SourceFault = SourceFault.NONE
    message: str = ""
    times: int | None = None
    seconds: float | None = None


@attrs.frozen
class PullAnswer:
    """The simulated answer of a registry or Helm repository to a request.

    `digest` is the digest of the artifact or index that was found, as `sha256:…`, and `version` the chart version
    found. `fault` says what failed, with `message`. The answer takes `seconds`.
    """

    fault: SourceFault
    message: str
    seconds: float
    digest: str = ""
    version: str = ""


@attrs.frozen
class PullRequest:
    """One request to a registry or repository. `version` is a tag, a digest or a chart version."""

    stage: PullStage
    namespace: str
    source: str
    url: str
    chart: str = ""
    version: str = ""


@attrs.frozen
class SourceRule:
    """A rule that determines the outcome of matching requests of a simulated Flux to a registry or Helm repository.

    It matches by the kind of the request (`stage`), by name and namespace of the Flux source, and by URL, chart and
    version. A field that is None matches every request.
    """

    outcome: SourceOutcome
    stage: PullStage | None = None
    namespace: str | None = None
    source: str | None = None
    url: str | None = None
    chart: str | None = None
    version: str | None = None

    def matches(self, request: PullRequest) -> bool:
        """Report whether the rule applies to `request`, a request of Flux to a registry or Helm repository."""
        desired = (self.stage, self.namespace, self.source, self.url, self.chart, self.version)
        actual = (request.stage, request.namespace, request.source, request.url, request.chart, request.version)
        return all(want is None or want == have for want, have in zip(desired, actual, strict=True))


@attrs.frozen
class ChartHook:
    """A Helm hook of a chart, as Helm records it with the release. `manifest` is YAML or JSON text."""

    name: str
    kind: str
    manifest: str
    events: tuple[str, ...] = ("post-install",)


@attrs.frozen
class ActionAnswer:
    """The simulated outcome of one Helm action, which takes `seconds`. An empty `error` means success.

    `stores_release` says whether Helm stores a release, even a failed one. `hooks` are stored with it.
    """

    error: str
    seconds: float
    timed_out: bool = False
    stores_release: bool = True
    hooks: tuple[ChartHook, ...] = ()


@attrs.frozen
class FluxBehaviour:
    """All settings of the simulated Flux controllers. Times are seconds.

    `published` has the existing versions of charts; a chart without an entry exists in every version. `digest_salts`
    maps `<url>:<tag>` to a string; a new text changes the tag's digest, as if the tag was pushed again. A new
    `index_revision` changes the index of every Helm repository, as publishing a chart does. `drifted` maps
    `<namespace>/<HelmRelease>` to the resources that were changed by hand. Each is `<kind>/<namespace>/<name>`, and may
    end with `#` and the JSON pointer of the changed field, for rules of `driftDetection.ignore`. `hooks` maps a chart
    to its Helm hooks. `missing_service_accounts` has the `<namespace>/<name>` of accounts that Flux cannot impersonate;
    it then skips the uninstall. `ready_stuck_unknown` imitates the bug helm-controller#1409: after a success the
    condition Released is lost, and Ready stays Unknown. With `release_secrets` Helm's storage is mirrored into Secrets.
    With `events` the controllers post Events; the operator does not read them.
    """

    source_fetch_seconds: float = 1.0
    install_seconds: float = 5.0
    upgrade_seconds: float = 5.0
    rollback_seconds: float = 2.0
    uninstall_seconds: float = 2.0
    test_seconds: float = 1.0
    release_rules: Sequence[ReleaseRule] = ()
    source_rules: Sequence[SourceRule] = ()
    published: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    digest_salts: Mapping[str, str] = attrs.field(factory=dict)
    index_revision: int = 1
    drifted: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    hooks: Mapping[str, Sequence[ChartHook]] = attrs.field(factory=dict)
    missing_service_accounts: frozenset[str] = frozenset()
    ready_stuck_unknown: bool = False
    release_secrets: bool = True
    events: bool = False
    # The defaults of the flags --requeue-dependency, --min-retry-delay and --max-retry-delay; the requeue for a
    # dependency is fixed, retries grow (helm-controller: main.go; fluxcd/pkg: runtime/controller/rate_limiter.go).
    dependency_requeue_seconds: float = 30.0
    min_retry_seconds: float = 0.75
    max_retry_seconds: float = 900.0

    def seconds_for(self, action: Action) -> float:
        """Return the duration in seconds of a Helm action whose outcome sets no duration."""
        return float(getattr(self, f"{action.value}_seconds"))
