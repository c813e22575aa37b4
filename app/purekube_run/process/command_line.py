"""Parts that command lines share: the error that ends a command, files and addresses as options, formats of the log."""

import errno
from pathlib import Path
from typing import Final

FAILURE = 1
USAGE = 2
# The convention of shells: 128 and the number of SIGINT, 2.
INTERRUPTED = 130


class CommandError(Exception):
    """The error that ends a command. `message` is one line without secrets; `status` is the exit status."""

    def __init__(self, message: str, *, status: int = FAILURE) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def read_text(option: str, file: Path) -> str:
    """Return the content of `file`, which `option` names, without surrounding white space.

    Raises CommandError if the file cannot be read or is empty; the message quotes nothing of the content.
    """
    try:
        text = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise CommandError(f"{option} {file}: cannot be read: it is not UTF-8 text") from None
    except OSError as error:
        raise CommandError(f"{option} {file}: cannot be read: {error.strerror or 'it is no file'}") from error
    if not text:
        raise CommandError(f"{option} {file}: is empty")
    return text


def parse_address(listen: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT (`[::1]:0` for IPv6). Raises CommandError for any other string."""
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"--listen {listen}: give HOST:PORT, such as 127.0.0.1:8001", status=USAGE)
    return host, int(port)


def cannot_listen(error: OSError, listen: str) -> CommandError:
    """Return the error that ends the command if the address `listen` cannot be bound, with the cause and the remedy."""
    match error.errno:
        case errno.EADDRINUSE:
            return CommandError(f"{listen} is in use: stop what listens there, or choose another HOST:PORT")
        case errno.EACCES:
            return CommandError(f"{listen} may not be listened on: choose a port above 1023")
        case errno.EADDRNOTAVAIL:
            return CommandError(f"{listen} is no address of this machine: choose another HOST:PORT")
        case _:
            return CommandError(f"cannot listen on {listen}: {error.strerror or error}")


LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("auto", "json", "text")
