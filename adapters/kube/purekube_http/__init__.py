"""The client of a real Kubernetes API server: `KubeApi` over HTTP, with credentials, TLS and watches."""

from purekube_http.api import KubeApiClient
from purekube_http.config import load_config, with_token
from purekube_http.http import WATCH_GRACE

__all__ = ["WATCH_GRACE", "KubeApiClient", "load_config", "with_token"]
