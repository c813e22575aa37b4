"""What runs controllers in Python in a cluster: one process for all that are named together (PH-7, RUN-7)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vworkspace_app.install.options import HEALTH_PORT
from vworkspace_app.install.roles import RoleOptions, deployment_of, labels_of, meta_of
from vworkspace_app.install.workload import container, pod


def controllers_installation(
    name: str, names: Sequence[str], roles: Iterable[Mapping[str, Any]], image: str, options: RoleOptions
) -> Iterator[Mapping[str, Any]]:
    """Everything but the CRDs: whoever deletes those deletes every object of the kinds.

    `name` is that of the process and of its account, to which `roles` are bound; `image` holds the packages.
    """
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta_of(name, options.namespace)}
    yield from roles
    runs = container(image, "", _arguments(name, names, options))
    yield deployment_of(name, pod(name, runs, {"matchLabels": labels_of(name)}), options, {})


def _arguments(name: str, names: Sequence[str], options: RoleOptions) -> list[str]:
    elect = ["--leader-elect", f"--leader-elect-resource-name={name}"] if options.elects else []
    return [
        *("controllers", "run", *names),
        f"--namespace={options.namespace}",
        f"--listen=0.0.0.0:{HEALTH_PORT}",
        *elect,
    ]
