"""HOST:PORT options, and errors that say what to do if an address cannot be listened on."""

import errno

from purekube_run.process.errors import USAGE, CommandError


def parse_address(listen: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT (`[::1]:0` for IPv6). Raises CommandError for anything else."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"--listen {listen}: give HOST:PORT, such as 127.0.0.1:8001", status=USAGE)
    return host, int(port)


def cannot_listen(error: OSError, listen: str) -> CommandError:
    """Return an error that says why `listen` cannot be bound, and what to do."""
    match error.errno:
        case errno.EADDRINUSE:
            return CommandError(f"{listen} is in use: stop what listens there, or choose another HOST:PORT")
        case errno.EACCES:
            return CommandError(f"{listen} may not be listened on: choose a port above 1023")
        case errno.EADDRNOTAVAIL:
            return CommandError(f"{listen} is no address of this machine: choose another HOST:PORT")
        case _:
            return CommandError(f"cannot listen on {listen}: {error.strerror or error}")
