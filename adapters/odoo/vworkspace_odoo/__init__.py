"""The control plane over HTTPS, with httpx2 (PULL-1, PULL-7)."""

from vworkspace_odoo.client import MEDIA_TYPE, HttpControlPlane

__all__ = ["MEDIA_TYPE", "HttpControlPlane"]
