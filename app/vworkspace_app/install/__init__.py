"""The manifests of the operator's installation, which the command `manifests` prints, as plain data (RUN-7)."""

from typing import TYPE_CHECKING

from purekube.lazy_door import lazy_door

if TYPE_CHECKING:
    from vworkspace_app.install.everything import installation, rights, tenant, tenant_rights
    from vworkspace_app.install.options import InstallOptions

__all__ = ["InstallOptions", "installation", "rights", "tenant", "tenant_rights"]

__getattr__, __dir__ = lazy_door(__name__)
