"""The installation as `manifests` prints it: every object that it needs, as plain data (RUN-7)."""

from vworkspace_app.install.everything import installation, rights, tenant, tenant_rights
from vworkspace_app.install.options import InstallOptions

__all__ = ["InstallOptions", "installation", "rights", "tenant", "tenant_rights"]
