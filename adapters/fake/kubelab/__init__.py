"""A Kubernetes API server in memory, in process and over HTTP: `docs/embedded-api-server.md`.

`ApiServer` holds the objects. `InProcessKube` is a `KubeApi` on it, `serve` serves it to kubectl and everything else.
"""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from kubelab.access.audit import AuditEntry, AuditLog
    from kubelab.clock import ManualClock, VirtualClock, virtual_loop
    from kubelab.entropy import SeededEntropy
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
    "ManualClock",
    "SeededEntropy",
    "VirtualClock",
    "certificates_for",
    "kubeconfig",
    "run_sync",
    "serve",
    "virtual_loop",
]

_MODULES = {
    "ADMIN": "kubelab.model.calls",
    "ApiServer": "kubelab.server",
    "AuditEntry": "kubelab.access.audit",
    "AuditLog": "kubelab.access.audit",
    "Caller": "kubelab.model.calls",
    "Certificates": "kubelab.http.certificates",
    "InProcessKube": "kubelab.inprocess",
    "ManualClock": "kubelab.clock",
    "SeededEntropy": "kubelab.entropy",
    "VirtualClock": "kubelab.clock",
    "certificates_for": "kubelab.http.authority",
    "kubeconfig": "kubelab.http.serving",
    "run_sync": "kubelab.inprocess",
    "serve": "kubelab.http.serving",
    "virtual_loop": "kubelab.clock",
}

__getattr__, __dir__ = lazy_door(__name__, _MODULES)
