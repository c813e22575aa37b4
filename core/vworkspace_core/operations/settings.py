"""The settings that shape decisions about Operations."""

from collections.abc import Mapping

import attrs

from vworkspace_core.api.admission import AdmissionSettings
from vworkspace_core.api.installation import PRINTED, Installation

RUNNER = "vworkspace-operation-runner"
"""Service account of Jobs and Workflows unless another one is allowed (OPS-8)."""


@attrs.frozen
class OperationSettings:
    """What a cluster may tune.

    `allowed_service_accounts` are those a Job may ask for beside the runner; `allowed_images` are registries, folders
    and images (`kinds.images`), and none allows every image. `timeout_seconds` replaces the engines' default deadlines,
    by engine name.
    """

    cluster_id: str
    velero_namespace: str = "velero"
    allowed_service_accounts: frozenset[str] = frozenset()
    allowed_images: tuple[str, ...] = ()
    timeout_seconds: Mapping[str, int] = attrs.field(factory=dict)
    admission: AdmissionSettings = attrs.field(factory=AdmissionSettings)
    installation: Installation = PRINTED
    """How the operator was installed: what gives it a right that it lacks."""
