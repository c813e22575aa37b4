"""The objects that run controllers in Python in a cluster: one process for all named together (PH-7, RUN-7)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from vworkspace_app.install.box_webhooks import WebhookTrust, serve_webhooks, webhook_service
from vworkspace_app.install.options import HEALTH_PORT, WEBHOOK_PORT
from vworkspace_app.install.roles import RoleOptions, deployment_of, guards_of, labels_of, meta_of
from vworkspace_app.install.workload import container, pod

SERVED_AS: Final = "vworkspace-controllers"
"""The prefix of the webhook Service's name, which continues with -webhook."""


def controllers_installation(
    name: str,
    names: Sequence[str],
    roles: Iterable[Mapping[str, Any]],
    image: str,
    options: RoleOptions,
    trust: WebhookTrust | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Yield everything except the CRDs, since deleting those deletes every object of the kinds.

    `name` is that of the process and of its account, to which `roles` are bound; `image` holds the packages. With
    `trust` it serves the webhook that converts.
    """
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta_of(name, options.namespace)}
    yield from roles
    runs = container(image, "", _arguments(name, names, options))
    spec = pod(name, runs, {"matchLabels": labels_of(name)})
    if trust is not None:
        serve_webhooks(runs, spec, SERVED_AS)
    yield deployment_of(name, spec, options, {})
    yield from guards_of(name, options, (HEALTH_PORT, *([WEBHOOK_PORT] if trust is not None else ())))
    if trust is not None:
        yield from webhook_service(SERVED_AS, meta_of(name, options.namespace), trust)


def _arguments(name: str, names: Sequence[str], options: RoleOptions) -> list[str]:
    elect = ["--leader-elect", f"--leader-elect-resource-name={name}"] if options.elects else []
    return [
        *("controllers", "run", *names),
        f"--namespace={options.namespace}",
        *(f"--watch-namespace={namespace}" for namespace in options.tenants),
        f"--listen=0.0.0.0:{HEALTH_PORT}",
        *elect,
    ]
