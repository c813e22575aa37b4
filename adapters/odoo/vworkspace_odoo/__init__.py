"""The client of the vWorkspace control plane (in Odoo) over HTTPS, with httpx2 (PULL-1, PULL-7).

The control plane sends jobs (units of work) to the operator.
"""

from vworkspace_odoo.admin_client import AdminClient
from vworkspace_odoo.client import MEDIA_TYPE, HttpControlPlane
from vworkspace_odoo.json_sender import CLOUD_EVENT, JsonSender
from vworkspace_odoo.payloads import JosePayloads
from vworkspace_odoo.reloading import ControlPlaneEndpoint, ReloadingControlPlane
from vworkspace_odoo.tls import cleartext_problem, tls_context

__all__ = [
    "CLOUD_EVENT",
    "MEDIA_TYPE",
    "AdminClient",
    "ControlPlaneEndpoint",
    "HttpControlPlane",
    "JosePayloads",
    "JsonSender",
    "ReloadingControlPlane",
    "cleartext_problem",
    "tls_context",
]
