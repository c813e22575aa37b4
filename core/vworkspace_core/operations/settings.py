"""The settings that shape decisions about Operations."""

from collections.abc import Mapping

import attrs

from vworkspace_core.api.admission import AdmissionSettings
from vworkspace_core.api.installation import PRINTED, Installation

RUNNER = "vworkspace-operation-runner"
"""The service account of Jobs and Workflows unless another one is allowed (OPS-8)."""


@attrs.frozen
class OperationSettings:
    """The settings of Operations that a cluster may configure.

    `allowed_service_accounts` are those a Job may name in addition to the runner; `allowed_images` are registries,
    folders and images (`api.images`), and an empty list allows every image. `timeout_seconds` replaces the engines'
    default deadlines, by engine name.
    """

    cluster_id: str
    velero_namespace: str = "velero"
    allowed_service_accounts: frozenset[str] = frozenset()
    allowed_images: tuple[str, ...] = ()
    timeout_seconds: Mapping[str, int] = attrs.field(factory=dict)
    admission: AdmissionSettings = attrs.field(factory=AdmissionSettings)
    installation: Installation = PRINTED
    """The way in which the operator was installed, which decides what grants it a missing right."""
