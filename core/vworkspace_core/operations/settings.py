"""The settings for decisions about Operations, and the check of container images against the allowed ones (OPS-8)."""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

import attrs

from purekube.apimachinery.formats import quoted
from vworkspace_core.api.admission import AdmissionSettings
from vworkspace_core.api.installation import PRINTED, Installation

_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"\A(?:(?P<host>[a-zA-Z0-9](?:[-.a-zA-Z0-9]*[a-zA-Z0-9])?(?::[0-9]{{1,5}})?)/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][-.A-Za-z0-9_]{0,127})?(?:@[a-z0-9+.]+:[0-9a-f]{32,128})?\Z"
)
_HUB: Final = "docker.io"
_SHOWN: Final = 8


def is_allowed_image(image: str, allowed: Iterable[str]) -> bool:
    """Report whether `image` is one of the registries, folders and images in `allowed`, or is in one of them.

    A malformed image reference is never allowed. If `allowed` is empty, the result is False for every image.
    """
    if _IMAGE.match(image) is None:
        return False
    whole = _in_full(image)
    return any(_covers(entry if _is_host(entry) else _in_full(entry), whole) for entry in allowed if entry)


def unlisted_image(image: str, allowed: Iterable[str]) -> str:
    """Return the message that `image` is not allowed, with the first entries of `allowed`."""
    listed = list(islice(allowed, _SHOWN + 1))
    names = ", ".join(listed[:_SHOWN]) + (", …" if len(listed) > _SHOWN else "")
    return f"must be an image that --allowed-images allows ({names}), not {quoted(image)}"


def _covers(entry: str, image: str) -> bool:
    if image == entry or entry.endswith("/"):
        return image.startswith(entry)
    # After a bare host a colon begins a port.
    ends = "/:@" if "/" in entry else "/"
    return image.startswith(entry) and image[len(entry)] in ends


def _in_full(name: str) -> str:
    """Return the image name `name` with the registry that container runtimes add if the name has none."""
    first, slash, _ = name.partition("/")
    if slash:
        return name if "." in first or ":" in first or first == "localhost" else f"{_HUB}/{name}"
    return f"{_HUB}/library/{name}"


def _is_host(entry: str) -> bool:
    """Report whether `entry`, an item of the list of allowed images, is the host of a registry and not an image.

    It is a host if it has no slash and contains a dot, or is `localhost`. The name of a registry nearly always contains
    a dot; the name of an image contains none.
    """
    name = entry.partition(":")[0]
    return "/" not in entry and ("." in name or name == "localhost")


RUNNER = "vworkspace-operation-runner"
"""The service account of Jobs and Workflows unless another one is allowed (OPS-8)."""


@attrs.frozen
class OperationSettings:
    """The settings of Operations that a cluster may configure.

    `allowed_service_accounts` are the accounts that a Job may name in addition to `RUNNER`, the account under which the
    pods of Operations run by default. `allowed_images` are registries, folders and images (see `is_allowed_image`); an
    empty list allows every image. `timeout_seconds` maps the names of engines to deadlines that replace the default
    ones.
    """

    cluster_id: str
    velero_namespace: str = "velero"
    allowed_service_accounts: frozenset[str] = frozenset()
    allowed_images: tuple[str, ...] = ()
    timeout_seconds: Mapping[str, int] = attrs.field(factory=dict)
    admission: AdmissionSettings = attrs.field(factory=AdmissionSettings)
    installation: Installation = PRINTED
    """The way in which the operator was installed, on which the advice for a missing right depends."""
