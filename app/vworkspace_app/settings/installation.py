"""Reading of how the operator was installed, from its own service account."""

from purekube.apimachinery.errors import OperatorError, Unauthorized, Unavailable
from purekube.apimachinery.manifest import ObjectRef
from purekube.apimachinery.resources import SERVICE_ACCOUNT
from purekube.ports import KubeApi
from purekube_run.controller.lookups import find
from vworkspace_core.api.installation import Installation, installation_of
from vworkspace_core.api.labels import FIELD_MANAGER


async def find_installation(api: KubeApi, namespace: str, *, agent: bool) -> Installation:
    """Return how the operator of that namespace was installed.

    If its account cannot be read, assume that the printed manifests were applied. Raises Unavailable and Unauthorized.
    """
    try:
        account = await find(api, ObjectRef(SERVICE_ACCOUNT, namespace, FIELD_MANAGER))
    except (Unavailable, Unauthorized):
        raise
    except OperatorError:
        account = None
    return installation_of(account, namespace, agent=agent)
