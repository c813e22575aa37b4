"""What `manifests` prints: everything that an installation needs, as plain data (RUN-7)."""

from vworkspace_app.install.everything import installation, rights, tenant, tenant_rights
from vworkspace_app.install.options import InstallOptions

__all__ = ["InstallOptions", "installation", "rights", "tenant", "tenant_rights"]
