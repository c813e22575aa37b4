"""The roles that the operator needs to run boxes which users apply as OperatorBox objects.

A box is an operator that a YAML file declares. The roles are not in `rbac`, because the code of boxes is slow to
import.
"""

from collections.abc import Iterator
from typing import Any, Final

from purekube.apimachinery import resources as known
from purekube.apimachinery.definitions import OPERATOR_BOX
from purekube.apimachinery.resources import Access
from purekube.boxes.rollouts.revisions import CONTROLLER_REVISION
from purekube.boxes.webhooks.admission_policy import BINDING, MUTATING_BINDING, MUTATING_POLICY, POLICY
from purekube.boxes.webhooks.conversion_webhook import VALIDATING_CONFIGURATION
from purekube.composites.rights import FOLLOWED
from vworkspace_app.install.options import InstallOptions
from vworkspace_app.install.rbac import cluster_wide, namespace_rbac

APPLIED_EVERYWHERE: Final = (
    Access(OPERATOR_BOX, ("get", *FOLLOWED, "patch")),
    Access(OPERATOR_BOX, ("patch",), "status"),
    Access(known.CUSTOM_RESOURCE_DEFINITION, ("get", *FOLLOWED, "create", "patch")),
    *(Access(kind, ("get",)) for kind in (POLICY, BINDING, MUTATING_POLICY, MUTATING_BINDING)),
    Access(VALIDATING_CONFIGURATION, ("list",)),
    Access(known.NAMESPACE, FOLLOWED),
    Access(known.EVENT, ("create", "patch")),
)
"""The rights of a process that runs applied boxes (OperatorBoxes in the cluster), without those on each box's kinds."""
APPLIED_OWN: Final = Access(CONTROLLER_REVISION, ("get", *FOLLOWED, "create", "patch", "delete"))


def applied_rbac(options: InstallOptions) -> Iterator[dict[str, Any]]:
    """Yield the operator's roles to run applied boxes, which are boxes that a user applied as OperatorBox objects.

    The roles for the kinds of each box are not included; `box rbac` prints them.
    """
    name = options.role_name("-boxes")
    yield from cluster_wide(name, APPLIED_EVERYWHERE, options)
    yield from namespace_rbac(name, options.namespace, (APPLIED_OWN,), options)
