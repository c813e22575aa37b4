"""The settings of the in-cluster operator."""

from pathlib import Path

import attrs

from purekube.controller.shard import WHOLE, Shard
from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.install.weak_settings import weak_settings_of
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.claims import DEFAULT_BINDINGS
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import Templates


@attrs.frozen
class OperatorSettings:
    """The settings of the operator's process, and of its decisions."""

    decisions: Settings
    operations: OperationSettings = attrs.field()
    templates: Templates = attrs.field(factory=builtin_templates)
    required_bindings: frozenset[str] = DEFAULT_BINDINGS
    """The fields that an approval claim must be bound to, in addition to its Operation's name (OPS-4)."""
    require_signed: bool = False
    """True to accept only signed jobs, whatever Cluster objects require (PULL-9). False is reported in their status."""
    weak_settings: tuple[str, ...] = ()
    """The weak settings that no decision depends on, as sentences for the Cluster's status (RUN-12)."""
    workers: int = 16
    """The number of workers of each controller."""
    identity: str = "vworkspace-operator"
    resync_seconds: float = 600.0
    """The interval at which every object is reconciled even without a watch event (REC-8)."""
    namespace: str = "vworkspace-system"
    """The operator's own namespace, with its Secret, job records and Leases."""
    shard: Shard = WHOLE
    """The shard whose namespaces are reconciled here; the first shard also does the work needed once per cluster
    (RUN-13).
    """
    applied_boxes: bool = False
    """True to run the boxes that are applied to the cluster; if there are several shards, only the first runs them."""
    serves_webhooks: bool = False
    """True if this process serves webhooks, which applied boxes with several versions need."""
    box_namespaces: tuple[str, ...] = ()
    """The namespaces in which boxes and pure reconcilers act; empty for all."""
    page_url: str = ""
    """The base URL of links to the page."""
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
    """The seconds without an answer of the control plane after which it counts as disconnected (PULL-5)."""
    unreachable_seconds: float = 10.0
    """The seconds for which polls must fail before the Cluster reports it: a poll that a proxy drops does not count."""

    @property
    def runs_applied_boxes(self) -> bool:
        """Report whether the boxes that are applied to the cluster run in this process."""
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
