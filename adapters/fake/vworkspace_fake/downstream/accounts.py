"""The check of service accounts, as by every API server: a pod whose account does not exist is refused."""

from typing import Any

from vworkspace_core.apimachinery.manifest import ObjectRef
from vworkspace_fake.downstream.controller import ObjectView
from vworkspace_fake.downstream.kinds import SERVICE_ACCOUNT


def account_refusal(view: ObjectView, account: Any, pod: str) -> str:
    """Return the refusal of a pod with that account; empty if the account exists. `default` always exists."""
    name, space = str(account or "default"), view.ref.namespace
    if name == "default" or ObjectRef(SERVICE_ACCOUNT, space, name) in view.world:
        return ""
    missing = f'serviceaccount "{name}" not found'
    return f'pods "{pod}" is forbidden: error looking up service account {space}/{name}: {missing}'
