"""A Kubernetes API server in memory, in process and over HTTP: `docs/embedded-api-server.md`.

`ApiServer` holds the objects. `InProcessKube` is a `KubeApi` on it, `serve` serves it to kubectl and everything else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kubelab.access.audit import AuditEntry, AuditLog
    from kubelab.http.authority import certificates_for
    from kubelab.http.certificates import Certificates
    from kubelab.http.serving import kubeconfig, serve
    from kubelab.inprocess import InProcessKube, run_sync
    from kubelab.model.calls import ADMIN, Caller
    from kubelab.server import ApiServer

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
    "ADMIN": "kubelab.model.calls",
    "ApiServer": "kubelab.server",
    "AuditEntry": "kubelab.access.audit",
    "AuditLog": "kubelab.access.audit",
    "Caller": "kubelab.model.calls",
    "Certificates": "kubelab.http.certificates",
    "InProcessKube": "kubelab.inprocess",
    "certificates_for": "kubelab.http.authority",
    "kubeconfig": "kubelab.http.serving",
    "run_sync": "kubelab.inprocess",
    "serve": "kubelab.http.serving",
}
"""The module that defines each name. It is imported on first use, because serving needs more packages."""


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
