"""What `manifests` prints: everything that an installation needs, as plain data (RUN-7)."""

from vworkspace_app.install.everything import installation, tenant
from vworkspace_app.install.options import InstallOptions

__all__ = ["InstallOptions", "installation", "tenant"]
