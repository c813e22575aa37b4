"""`manifests`: what is to be installed, for `kubectl apply -f -`."""

from vworkspace_app.documents import Format, dump
from vworkspace_app.problems import USAGE, CommandError
from vworkspace_core.kinds.crd import crd_manifests

__all__ = ["render_manifests"]


def render_manifests(*, crds_only: bool, output: Format) -> str:
    """The manifests as text. Raises CommandError for what this version does not print."""
    if not crds_only:
        raise CommandError("this version prints the CustomResourceDefinitions only: add --crds-only", status=USAGE)
    return dump(crd_manifests(), output)
