"""A Kubernetes API server in memory, in process and over HTTP: `docs/embedded-api-server.md`.

`ApiServer` holds the objects. `InProcessKube` is a `KubeApi` on it, `serve` serves it to kubectl and everything else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from vworkspace_apiserver.access.audit import AuditEntry, AuditLog
    from vworkspace_apiserver.http.authority import certificates_for
    from vworkspace_apiserver.http.certificates import Certificates
    from vworkspace_apiserver.http.serving import kubeconfig, serve
    from vworkspace_apiserver.inprocess import InProcessKube, run_sync
    from vworkspace_apiserver.model.calls import ADMIN, Caller
    from vworkspace_apiserver.server import ApiServer

__all__ = [
    "ADMIN",
    "ApiServer",
    "AuditEntry",
    "AuditLog",
    "Caller",
    "Certificates",
    "InProcessKube",
    "certificates_for",
    "kubeconfig",
    "run_sync",
    "serve",
]

_MODULES: Final = {
    "ADMIN": "vworkspace_apiserver.model.calls",
    "ApiServer": "vworkspace_apiserver.server",
    "AuditEntry": "vworkspace_apiserver.access.audit",
    "AuditLog": "vworkspace_apiserver.access.audit",
    "Caller": "vworkspace_apiserver.model.calls",
    "Certificates": "vworkspace_apiserver.http.certificates",
    "InProcessKube": "vworkspace_apiserver.inprocess",
    "certificates_for": "vworkspace_apiserver.http.authority",
    "kubeconfig": "vworkspace_apiserver.http.serving",
    "run_sync": "vworkspace_apiserver.inprocess",
    "serve": "vworkspace_apiserver.http.serving",
}
"""The module that defines each name. It is imported on first use, because serving needs more packages."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
