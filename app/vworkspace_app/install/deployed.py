"""The operator's Deployments in a cluster, and the settings that their containers show (SEE-1, RUN-7)."""

import re
from collections.abc import Iterator
from typing import Final

import attrs

from purekube.apimachinery.errors import Forbidden, Unauthorized
from purekube.apimachinery.manifest import Manifest, ObjectRef, get_path, metadata
from purekube.apimachinery.resources import DEPLOYMENT
from purekube.ports import KubeApi
from purekube_run.controller.lookups import find
from vworkspace_app.arguments import flag_of, variable_of
from vworkspace_app.install.names import DEPLOYMENTS, NAME

_SHARD_OR_WHOLE: Final = re.compile(re.escape(NAME) + "(-shard-[0-9]+)?")
"""The pattern of the names of the operator's Deployments."""


@attrs.frozen
class LeasePlace:
    """The Lease for which the replicas of an operator compete: its namespace and name; of several shards, the first
    one's.
    """

    namespace: str
    name: str = NAME


def is_operator(deployment: Manifest) -> bool:
    """Report whether a Deployment is the operator's, or that of one of its shards, by its name."""
    return _SHARD_OR_WHOLE.fullmatch(str(metadata(deployment)["name"])) is not None


async def permitted_deployment(api: KubeApi, namespace: str) -> tuple[Manifest | None, Forbidden | None]:
    """Return the operator's Deployment, or that of its first shard, and the error if the user may not read it.

    Both are None if there is no Deployment. Raises the errors of `KubeApi.get` except NotFound and Forbidden, but
    Unauthorized, with which nothing can be read.
    """
    try:
        for name in DEPLOYMENTS:
            if (found := await find(api, ObjectRef(DEPLOYMENT, namespace, name))) is not None:
                return found, None
    except Unauthorized:
        raise
    except Forbidden as error:
        return None, error
    return None, None


def settings_shown(deployment: Manifest | None, name: str) -> Iterator[str]:
    """Yield the values of the setting `name` in a Deployment: of environment variables, then of arguments, which win.

    A settings file in a ConfigMap is not read.
    """
    containers = get_path(deployment, "spec", "template", "spec", "containers") or ()
    for container in containers:
        for variable in container.get("env") or ():
            if variable.get("name") == variable_of(name) and variable.get("value"):
                yield str(variable["value"])
    for container in containers:
        words = [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]
        for word, following in zip(words, [*words[1:], ""], strict=True):
            flag, equals, value = word.partition("=")
            if flag == flag_of(name) and (value or (not equals and following)):
                yield value or following


def lease_place(deployment: Manifest | None, namespace: str) -> LeasePlace:
    """Return where the replicas of the operator's Deployment in `namespace` have their Lease.

    If the Deployment is None, such as where an operator runs outside the cluster, the default is returned.
    """
    *_, name = (NAME, *settings_shown(deployment, "leader_elect_resource_name"))
    *_, place = (namespace, *settings_shown(deployment, "leader_elect_resource_namespace"))
    return LeasePlace(place, name)
