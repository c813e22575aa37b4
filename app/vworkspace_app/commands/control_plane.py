"""`control-plane`: the embedded control plane as a process."""

from vworkspace_app.serving import address, run_until_signal
from vworkspace_fake.controlplane.serve import serve
from vworkspace_fake.controlplane.server import ControlPlaneServer

__all__ = ["run_control_plane"]


def run_control_plane(*, listen: str, cluster_id: str, token: str, admin_token: str) -> None:
    """Serve until a signal. Raises CommandError for a wrong address or one that is in use."""
    host, port = address(listen)
    server = ControlPlaneServer()
    server.tokens.add(cluster_id, token)

    async def work() -> None:
        await serve(server, host, port, admin_token=admin_token, ready=lambda url: print(f"ready {url}", flush=True))

    run_until_signal(work, listen=listen)
