"""The Kubernetes side of the operator: `KubeApi` over HTTP."""

from purekube_http.api import KubeApiClient
from purekube_http.config import load_config, with_token
from purekube_http.http import WATCH_GRACE

__all__ = ["WATCH_GRACE", "KubeApiClient", "load_config", "with_token"]
