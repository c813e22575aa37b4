"""The Kubernetes side of the operator: `KubeApi` over HTTP."""

from vworkspace_kube.api import WATCH_GRACE, KubeApiClient
from vworkspace_kube.config import load_config, with_token

__all__ = ["WATCH_GRACE", "KubeApiClient", "load_config", "with_token"]
