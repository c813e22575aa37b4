"""A Kubernetes API server in memory, in process and over HTTP: `docs/embedded-api-server.md`.

`serve` serves a cluster to any client from a thread; `kubelab serve` does so as a command, the pytest fixture `kubelab`
for each test. `ApiServer` holds the objects. `InProcessKube` gives access to it without HTTP, by the interface
`KubeApi` with which the operator calls every API server.
"""

# The comments name where the behaviour of other systems is known from, as `system: file, function`. The files are those
# of Kubernetes 1.36.3 below `pkg/` of the repository kubernetes/kubernetes (`kubernetes:`), kubernetes/apiserver
# (`apiserver:`, and `handlers/` is `endpoints/handlers/`), kubernetes/apimachinery (`apimachinery:`) and
# kubernetes/apiextensions-apiserver (`apiextensions:`). S-01 to W-39 are rules of docs/spec/api-server.md, and
# "measured" means on a kube-apiserver 1.36.3.
from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from kubelab.access.audit_log import AuditEntry, AuditLog
    from kubelab.clock import ManualClock, VirtualClock, virtual_loop
    from kubelab.cluster.definitions import KubelabError
    from kubelab.cluster.embedded import EmbeddedCluster
    from kubelab.cluster.serving import Server, serve, serve_cluster
    from kubelab.cluster.simulators import SIMULATORS
    from kubelab.entropy import SeededEntropy
    from kubelab.http.authority import certificates_for
    from kubelab.http.certificates import Certificates
    from kubelab.http.serving import kubeconfig, serve_forever
    from kubelab.inprocess import InProcessKube, run_sync
    from kubelab.model.calls import ADMIN, Caller
    from kubelab.server import ApiServer

__all__ = [
    "ADMIN",
    "SIMULATORS",
    "ApiServer",
    "AuditEntry",
    "AuditLog",
    "Caller",
    "Certificates",
    "EmbeddedCluster",
    "InProcessKube",
    "KubelabError",
    "ManualClock",
    "SeededEntropy",
    "Server",
    "VirtualClock",
    "certificates_for",
    "kubeconfig",
    "run_sync",
    "serve",
    "serve_cluster",
    "serve_forever",
    "virtual_loop",
]

__getattr__, __dir__ = lazy_door(__name__)
