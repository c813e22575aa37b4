"""The Kubernetes side of the operator: `KubeApi` over HTTP."""

from purekube_http.api import WATCH_GRACE, KubeApiClient
from purekube_http.config import load_config, with_token

__all__ = ["WATCH_GRACE", "KubeApiClient", "load_config", "with_token"]
