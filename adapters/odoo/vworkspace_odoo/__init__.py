"""The control plane over HTTPS, with httpx2 (PULL-1, PULL-7)."""

from vworkspace_odoo.client import MEDIA_TYPE, HttpControlPlane
from vworkspace_odoo.following import Endpoint, FollowingControlPlane
from vworkspace_odoo.payloads import JosePayloads

__all__ = ["MEDIA_TYPE", "Endpoint", "FollowingControlPlane", "HttpControlPlane", "JosePayloads"]
