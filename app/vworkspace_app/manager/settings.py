"""What the in-cluster operator is told about itself."""

import attrs

from vworkspace_core.api.installation import CREDENTIALS_SECRET
from vworkspace_core.controller.shard import WHOLE, Shard
from vworkspace_core.install.openings import openings_of
from vworkspace_core.instances.context import Settings
from vworkspace_core.operations.builtin import builtin_templates
from vworkspace_core.operations.claims import DEFAULT_BINDINGS
from vworkspace_core.operations.settings import OperationSettings
from vworkspace_core.operations.templates import Templates


@attrs.frozen
class OperatorSettings:
    """What the process is told, beside what shapes decisions."""

    decisions: Settings
    operations: OperationSettings = attrs.field()
    templates: Templates = attrs.field(factory=builtin_templates)
    required_bindings: frozenset[str] = DEFAULT_BINDINGS
    """What every approval claim has to be bound to, beside its Operation's name (OPS-4)."""
    require_signed: bool = False
    """Whether jobs need a signature whatever the Cluster objects say (PULL-9); the Cluster tells where they do not."""
    openings: tuple[str, ...] = ()
    """What stands open beside what shapes decisions, for the Cluster to tell (RUN-12)."""
    workers: int = 16
    """Of each controller."""
    identity: str = "vworkspace-operator"
    resync_seconds: float = 600.0
    """How often everything is looked at whether or not a watch event told of it (REC-8)."""
    namespace: str = "vworkspace-system"
    """The operator's own namespace: what it keeps for itself lies there."""
    shard: Shard = WHOLE
    """Whose namespaces are reconciled here; what is done once in a cluster is done by the first one (RUN-13)."""
    version: str = ""
    credentials_secret: str = CREDENTIALS_SECRET
    """Where the credential is kept, as the Cluster's status names it; empty for a token file."""
    disconnected_seconds: float = 300.0
    """Silence of the control plane that counts as disconnected (PULL-5)."""
    unreachable_seconds: float = 10.0
    """How long polls must fail before the Cluster's status says so; a single one that a proxy drops is no news."""

    @property
    def every_opening(self) -> tuple[str, ...]:
        """What stands open by a setting, each with what it lets happen."""
        return (*openings_of(self.decisions, self.operations, self.required_bindings), *self.openings)

    @operations.default
    def _operations_of_the_cluster(self) -> OperationSettings:
        return OperationSettings(
            self.decisions.cluster_id,
            admission=self.decisions.admission,
            installation=self.decisions.installation,
        )
