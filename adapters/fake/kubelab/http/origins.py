"""Refusal of requests from web pages while the server needs no token.

Without tokens every caller is the administrator. A page in a user's browser must not gain these rights: neither through
a host name of its own that resolves to this machine (DNS rebinding), nor by a request from its own origin.
"""

from ipaddress import ip_address

from starlette.requests import Request

from kubelab.model.failure import ApiFailure


def refuse_web_pages(request: Request) -> None:
    """Raise ApiFailure 403 for a request of another origin, or to a Host that is neither an address nor localhost."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin", "")
    if origin and origin.partition("://")[2] != host:
        raise _refused(f"a request from {origin} is taken with a token only")
    if not _is_local(_name(host)):
        raise _refused(f"Host {host}: without a token only addresses and localhost are answered")


def _name(host: str) -> str:
    name, _, port = host.rpartition(":")
    return (name if port.isdecimal() else host).strip("[]")


def _is_local(name: str) -> bool:
    if name in ("", "localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _refused(message: str) -> ApiFailure:
    return ApiFailure(403, "Forbidden", message)
