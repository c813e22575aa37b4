"""The settings of the in-cluster operator, which `configuration.py` makes from those of the command `run`."""

from pathlib import Path

import attrs

from purekube.controller.shard import WHOLE, Shard
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.install.weak_settings import weak_settings_of
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.approvals.claims import DEFAULT_BINDINGS
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import Templates


@attrs.frozen
class OperatorSettings:
    """The settings of the operator's process, such as its namespace and the number of workers, and of its decisions."""

    decisions: Settings
    operations: OperationSettings = attrs.field()
    templates: Templates = attrs.field(factory=builtin_templates)
    required_bindings: frozenset[str] = DEFAULT_BINDINGS
    """The fields that an approval claim must be bound to, in addition to its Operation's name (OPS-4)."""
    require_signed: bool = False
    """True to accept only signed jobs, whatever Cluster objects require (PULL-9). False is reported in their status."""
    weak_settings: tuple[str, ...] = ()
    """Sentences for the Cluster's status about settings of the process that weaken security (RUN-12).

    The settings on which decisions depend are examined separately.
    """
    workers: int = 16
    """The number of workers of each controller."""
    identity: str = "vworkspace-operator"
    resync_seconds: float = 600.0
    """The interval at which every object is reconciled even without a watch event (REC-8)."""
    namespace: str = "vworkspace-system"
    """The operator's own namespace, with its Secret, job records and Leases."""
    shard: Shard = WHOLE
    """The shard of this process, which reconciles only the namespaces of its shard (RUN-13).

    The first shard also does the work that is needed once per cluster.
    """
    applied_boxes: bool = False
    """True to run applied boxes, which users apply to the cluster as OperatorBoxes.

    Of several shards, only the first runs them.
    """
    serves_webhooks: bool = False
    """True if this process serves webhooks, which applied boxes with several versions need."""
    box_namespaces: tuple[str, ...] = ()
    """The namespaces in which boxes and pure reconcilers (pure functions in Python) act; empty for all."""
    page_url: str = ""
    """The base URL of the operator's web page, for links to it."""
    notify_url: str = ""
    """The URL of the receiver of notices; empty to send none (SEE-6)."""
    notify_token_file: Path | None = None
    traces_url: str = ""
    """The URL of the collector of traces; empty to record none (SEE-7)."""
    traces_token_file: Path | None = None
    version: str = ""
    credentials_secret: str = CREDENTIALS_SECRET
    """The name of the credentials Secret, for the Cluster's status; empty if a token file is used."""
    disconnected_seconds: float = 300.0
    """The seconds without contact to the control plane until the Cluster's condition Disconnected is True (PULL-5)."""
    unreachable_seconds: float = 10.0
    """The seconds for which polls must fail until the Cluster's condition Connected is False.

    So a single poll that a proxy drops is not reported.
    """

    @property
    def runs_applied_boxes(self) -> bool:
        """Report whether this process runs the boxes that users apply to the cluster as OperatorBoxes."""
        return self.applied_boxes and self.shard.is_first

    @property
    def all_weak_settings(self) -> tuple[str, ...]:
        """All settings that weaken security, each as a sentence with its consequence."""
        return (*weak_settings_of(self.decisions, self.operations, self.required_bindings), *self.weak_settings)

    @operations.default
    def _operations_of_the_cluster(self) -> OperationSettings:
        return OperationSettings(
            self.decisions.cluster_id,
            admission=self.decisions.admission,
            installation=self.decisions.installation,
        )
