"""`manifests`: what is to be installed, for `kubectl apply -f -`."""

import re
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vworkspace_app.documents import Format, dump
from vworkspace_app.install import InstallOptions, installation, tenant
from vworkspace_app.problems import USAGE, CommandError
from vworkspace_core.kinds.crd import crd_manifests
from vworkspace_core.kinds.labels import CLUSTER_ID, LABEL_RULE, is_label_value

__all__ = ["read_authority", "render_manifests"]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def render_manifests(
    options: InstallOptions, output: Format, *, crds_only: bool = False, namespaces: Sequence[str] = ()
) -> str:
    """The CRDs, or what the gated `namespaces` need, or else the operator. Raises CommandError."""
    if crds_only and namespaces:
        raise CommandError("--crds-only and --namespace print different things: give one of them", status=USAGE)
    _check_agent(options, whole=not crds_only and not namespaces)
    named = (("--system-namespace", options.namespace), *(("--namespace", name) for name in namespaces))
    if options.velero_namespace:
        named = (*named, ("--velero-namespace", options.velero_namespace))
    for flag, name in named:
        if not _LABEL.fullmatch(name):
            raise CommandError(f"{flag} {name}: not the name of a namespace", status=USAGE)
    if crds_only:
        return dump(crd_manifests(), output)
    if namespaces:
        return dump([one for name in namespaces for one in tenant(name, options)], output)
    return dump(list(installation(options)), output)


def _check_agent(options: InstallOptions, *, whole: bool) -> None:
    """Raises CommandError where the cluster's id is missing, or stands where it would be ignored."""
    if options.agent and options.cluster_id:
        raise CommandError("--cluster-id is for --no-agent: else the credentials Secret names it", status=USAGE)
    if whole and not options.agent and not options.cluster_id:
        raise CommandError(f"--no-agent needs --cluster-id: what the label {CLUSTER_ID} says on objects", status=USAGE)
    if options.cluster_id and not is_label_value(options.cluster_id):
        raise CommandError(f"--cluster-id {options.cluster_id}: not the value of a label: {LABEL_RULE}", status=USAGE)


def read_authority(path: Path) -> bytes:
    """The PEM certificates of a file. Raises CommandError for a file that holds none."""
    try:
        pem = path.read_bytes()
        ssl.create_default_context(cadata=pem.decode())
    except (ssl.SSLError, ValueError) as error:  # an SSLError is an OSError too
        raise CommandError(f"--webhook-ca {path}: holds no certificate in PEM form") from error
    except OSError as error:
        raise CommandError(f"--webhook-ca {path}: cannot be read: {error.strerror}") from error
    return pem
