"""How a simulated Flux behaves: delays, outcomes, what exists. All of it data, all of it changeable at run time.

The first rule that matches and is not used up decides; without one everything succeeds. A rule counts
its uses per release (or per source), so that `FluxOutcome(OutcomeKind.FAIL, times=2)` fails twice for each.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import attrs


class Action(StrEnum):
    """A Helm action, by the name it has in Flux's messages."""

    INSTALL = "install"
    UPGRADE = "upgrade"
    ROLLBACK = "rollback"
    UNINSTALL = "uninstall"
    TEST = "test"


class OutcomeKind(StrEnum):
    """How a Helm action ends."""

    SUCCEED = "succeed"
    FAIL = "fail"
    """The action ran and failed: Helm stored a failed release, the failure counts against the retries.

    An uninstall fails before it took anything away.
    """
    HANG = "hang"
    """Resources never become ready: busy until the action's timeout, then as FAIL.

    An uninstall has taken everything away by then, and fails nevertheless.
    """
    RENDER_ERROR = "render-error"
    """Templates do not render: nothing is stored, nothing is counted, retried with backoff for ever."""
    VALUES_ERROR = "values-error"
    """The values do not meet the chart's schema: as RENDER_ERROR."""


@attrs.frozen
class FluxOutcome:
    """The end of one Helm action. `seconds` overrides the delay of the action; `times` limits a rule's use."""

    kind: OutcomeKind = OutcomeKind.SUCCEED
    message: str = ""
    times: int | None = None
    seconds: float | None = None


@attrs.frozen
class HelmTarget:
    """What a Helm action works on. `version` is the chart's own, without the digest Flux adds."""

    namespace: str
    release: str
    chart: str
    version: str


@attrs.frozen
class ReleaseRule:
    """An outcome for the actions it matches; a field that is None matches everything."""

    outcome: FluxOutcome
    action: Action | None = None
    namespace: str | None = None
    release: str | None = None
    chart: str | None = None
    version: str | None = None

    def matches(self, action: Action, target: HelmTarget) -> bool:
        """Whether this rule speaks about that action on that target."""
        wanted = (self.action, self.namespace, self.release, self.chart, self.version)
        actual = (action, target.namespace, target.release, target.chart, target.version)
        return all(want is None or want == have for want, have in zip(wanted, actual, strict=True))


class PullStage(StrEnum):
    """Which request to a registry or repository is meant."""

    OCI = "oci"
    INDEX = "index"
    CHART = "chart"


class SourceFault(StrEnum):
    """What is wrong with a registry or repository."""

    NONE = "none"
    NOT_FOUND = "not-found"
    """The tag, the index or the chart version does not exist."""
    UNAUTHORIZED = "unauthorized"
    """The registry answers 401. On an OCIRepository this shows as OCIArtifactPullFailed."""
    CREDENTIALS = "credentials"
    """The credentials cannot even be read: AuthenticationFailed."""
    UNAVAILABLE = "unavailable"
    """The registry cannot be reached."""
    INVALID_URL = "invalid-url"
    """The URL cannot be parsed: stalls with URLInvalid."""
    CORRUPT = "corrupt"
    """What came back is not an index, or has no chart layer."""


@attrs.frozen
class SourceOutcome:
    """The end of one request. `times` limits a rule's use."""

    fault: SourceFault = SourceFault.NONE
    message: str = ""
    times: int | None = None
    seconds: float | None = None


@attrs.frozen
class PullAnswer:
    """What a registry or repository answers. `digest` is `sha256:…`, `version` the chart version found."""

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
    """An outcome for the requests it matches; a field that is None matches everything."""

    outcome: SourceOutcome
    stage: PullStage | None = None
    namespace: str | None = None
    source: str | None = None
    url: str | None = None
    chart: str | None = None
    version: str | None = None

    def matches(self, request: PullRequest) -> bool:
        """Whether this rule speaks about that request."""
        wanted = (self.stage, self.namespace, self.source, self.url, self.chart, self.version)
        actual = (request.stage, request.namespace, request.source, request.url, request.chart, request.version)
        return all(want is None or want == have for want, have in zip(wanted, actual, strict=True))


@attrs.frozen
class ChartHook:
    """A Helm hook of a chart, as Helm records it with the release. `manifest` is YAML or JSON text."""

    name: str
    kind: str
    manifest: str
    events: tuple[str, ...] = ("post-install",)


@attrs.frozen
class ActionAnswer:
    """How one Helm action is going to end, everything decided. An empty `error` is success."""

    error: str
    seconds: float
    timed_out: bool = False
    stores_release: bool = True
    hooks: tuple[ChartHook, ...] = ()


@attrs.frozen
class FluxBehaviour:
    """Everything settable about the simulated controllers. Times are seconds.

    `published` names the versions that exist of a chart; a chart that is not named exists in every
    version. `digest_salts` maps `<url>:<tag>` to a text that changes its digest: the same tag pushed again.
    `index_revision` moves every Helm repository's index, as publishing any chart does. `drifted` maps
    `<namespace>/<HelmRelease>` to resources that were changed by hand, `<kind>/<namespace>/<name>`, with `#` and a JSON
    pointer where rules of `driftDetection.ignore` are to meet it. `missing_service_accounts` holds
    `<namespace>/<name>`: Flux cannot impersonate them and skips the uninstall. `ready_stuck_unknown` is
    helm-controller#1409: after a success Released is lost and Ready stays Unknown for good. With `events` the
    controllers post Events, which nothing of ours reads.
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
    dependency_requeue_seconds: float = 30.0
    min_retry_seconds: float = 0.75
    max_retry_seconds: float = 900.0

    def seconds_for(self, action: Action) -> float:
        """How long a Helm action takes when its outcome does not say."""
        return {
            Action.INSTALL: self.install_seconds,
            Action.UPGRADE: self.upgrade_seconds,
            Action.ROLLBACK: self.rollback_seconds,
            Action.UNINSTALL: self.uninstall_seconds,
            Action.TEST: self.test_seconds,
        }[action]
