"""`control-plane`: the embedded control plane as a process."""

from pathlib import Path
from typing import Any

from vworkspace_app.process.addresses import parse_address
from vworkspace_app.process.errors import USAGE, CommandError
from vworkspace_app.process.signals import run_until_signal
from vworkspace_fake.controlplane.serve import serve
from vworkspace_fake.controlplane.server import ControlPlaneServer


def run_control_plane(
    *,
    listen: str,
    cluster_id: str,
    token: str,
    admin_token: str,
    signing_key: Path | None = None,
    encryption_key: Path | None = None,
) -> None:
    """Serve until a signal. Raises CommandError for a wrong address, one that is in use, or a key of no use."""
    host, port = parse_address(listen)
    if token == admin_token:
        raise CommandError("--token and --admin-token are the same: the agent could offer jobs to itself", status=USAGE)
    server = ControlPlaneServer()
    if signing_key is not None or encryption_key is not None:
        from vworkspace_fake.controlplane.sealing import Sealing

        server.seal = Sealing(_key("--signing-key", signing_key), _key("--encryption-key", encryption_key))
    server.tokens.add(cluster_id, token)

    async def work() -> None:
        await serve(
            server, host, port, admin_token=admin_token, ready=lambda url: print(_told(url, cluster_id), flush=True)
        )

    run_until_signal(work, listen=listen)


def _told(url: str, cluster_id: str) -> str:
    """Where it serves, and how to begin; the tokens are the caller's to fill in."""
    return f"""ready {url}

Offer a job (here: delete an application; kinds and payloads: docs/protocol.md), and see what came of it:

  curl -H "Authorization: Bearer $VWORKSPACE_ADMIN_TOKEN" {url}/api/admin/jobs -d '{{
    "clusterId": "{cluster_id}", "kind": "delete", "idempotencyKey": "ApplicationInstance/org-myteam/podinfo@1",
    "payload": {{"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance",
                "namespace": "org-myteam", "name": "podinfo"}}}}'
  curl -H "Authorization: Bearer $VWORKSPACE_ADMIN_TOKEN" {url}/api/admin/jobs
"""


def _key(option: str, file: Path | None) -> Any:
    """The key in `file`; None without one."""
    from vworkspace_fake.controlplane.sealing import key_in

    if file is None:
        return None
    try:
        return key_in(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{option} {file}: cannot be read: {error.strerror or 'it is no file'}") from error
    except ValueError:
        raise CommandError(f"{option} {file}: is no elliptic-curve key in PEM") from None
