"""The Kubernetes side of the operator: `KubeApi` over lightkube and httpx2."""

from vworkspace_kube.api import WATCH_GRACE, LightkubeApi
from vworkspace_kube.config import load_config

__all__ = ["WATCH_GRACE", "LightkubeApi", "load_config"]
