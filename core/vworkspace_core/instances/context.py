"""Input of a decision about an ApplicationInstance: settings, policy, observed state, time (REC-2)."""

from datetime import datetime

import attrs

from purekube.controller.decision import Snapshot
from vworkspace_core.api.admission import AdmissionSettings
from vworkspace_core.api.application_instance import ReleaseOverride
from vworkspace_core.api.chart import Policy
from vworkspace_core.api.installation import PRINTED, RELEASE_ACCOUNT, Installation


@attrs.frozen
class Settings:
    """The operator's settings that affect decisions about instances.

    Durations that are written into manifests are Go durations (`5m`); the others are numbers of seconds.
    """

    cluster_id: str
    interval: str = "5m"
    timeout: str = "5m"
    max_history: int = 10
    drift_detection: str = "warn"
    default_service_account: str | None = RELEASE_ACCOUNT
    allowed_release_service_accounts: tuple[str, ...] = ()
    allow_unimpersonated_releases: bool = False
    """True if a release without a service account may be installed with Flux's own rights."""
    admission: AdmissionSettings = attrs.field(factory=AdmissionSettings)
    policy: Policy = attrs.field(factory=Policy)
    message_interval_seconds: float = 60.0
    """The shortest time between two writes of a status that differs only in Flux's progress messages."""
    source_grace_seconds: float = 60.0
    """The time for which a Flux source must fail before an instance with a deployed release counts as degraded."""
    source_wait_seconds: float = 15.0
    """The time for which the reason SourceNotReady of a HelmRelease counts as progress.

    This is so if the source itself reports no failure. After that time the chart counts as unreachable.
    """
    stuck_ready_seconds: float = 60.0
    """The time for which Ready=Unknown of a HelmRelease counts as progress, although Flux's last action succeeded.

    After that time it counts as a known defect of Flux (helm-controller#1409), and the release as ready.
    """
    installation: Installation = PRINTED
    """The way the operator was installed, from which follows how to grant a missing right."""
    namespace_end_seconds: float = 300.0
    """The longest time for which an instance waits for Flux in a namespace that is being deleted."""


@attrs.frozen
class InstanceObserved(Snapshot):
    """The observed state on which a decision about an ApplicationInstance is made.

    `override` is the change of the release that a running helm Operation requests. `withdrawn` are the uids of
    Operations whose changes are withdrawn: they failed, were cancelled or are being deleted (REC-9).
    `definition_ending` says that the CRD of ApplicationInstance is being deleted.
    """

    override: ReleaseOverride | None = None
    withdrawn: frozenset[str] = frozenset()
    definition_ending: bool = False


@attrs.frozen
class Context:
    """The inputs of a decision that do not come from the cluster: the settings and the time."""

    settings: Settings
    now: datetime
