"""The check of service accounts: as on every API server, a pod is refused if its account does not exist."""

from typing import Any

from kubelab.downstream.controller import ObjectView
from kubelab.downstream.kinds import SERVICE_ACCOUNT
from purekube.apimachinery.manifest import ObjectRef


def account_refusal(view: ObjectView, account: Any, pod: str) -> str:
    """Return the refusal of a pod with that account; empty if the account exists. `default` always exists."""
    name, space = str(account or "default"), view.ref.namespace
    if name == "default" or ObjectRef(SERVICE_ACCOUNT, space, name) in view.world:
        return ""
    missing = f'serviceaccount "{name}" not found'
    return f'pods "{pod}" is forbidden: error looking up service account {space}/{name}: {missing}'
