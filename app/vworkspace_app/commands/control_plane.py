"""`control-plane`: the embedded control plane as a process."""

from pathlib import Path
from typing import Any

from vworkspace_app.problems import CommandError
from vworkspace_app.serving import address, run_until_signal
from vworkspace_fake.controlplane.serve import serve
from vworkspace_fake.controlplane.server import ControlPlaneServer

__all__ = ["run_control_plane"]


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
    host, port = address(listen)
    server = ControlPlaneServer()
    if signing_key is not None or encryption_key is not None:
        from vworkspace_fake.controlplane.sealing import Sealing

        server.seal = Sealing(_key("--signing-key", signing_key), _key("--encryption-key", encryption_key))
    server.tokens.add(cluster_id, token)

    async def work() -> None:
        await serve(server, host, port, admin_token=admin_token, ready=lambda url: print(f"ready {url}", flush=True))

    run_until_signal(work, listen=listen)


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
