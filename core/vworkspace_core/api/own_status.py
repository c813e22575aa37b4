"""Ownership of our kinds' statuses: they are the operator's, except conditions of other types (RES-4)."""

from typing import Final

from purekube.controller.managed_fields import StatusOwner
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION
from vworkspace_core.api.labels import FIELD_MANAGER
from vworkspace_core.api.reasons import ClusterConditionType, InstanceConditionType, OperationConditionType

OWN_STATUS: Final = StatusOwner(
    FIELD_MANAGER,
    {
        APPLICATION_INSTANCE: frozenset(InstanceConditionType),
        OPERATION: frozenset(OperationConditionType),
        CLUSTER: frozenset(ClusterConditionType),
    },
)
