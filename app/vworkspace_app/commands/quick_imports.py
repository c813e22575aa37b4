"""The import of a command without work that the command never needs (SEE-5).

`python -m bench.starting` measures the start of commands.
"""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_CA_FILE: Final = "SSL_CERT_FILE"
"""The environment variable with which OpenSSL replaces its file of certificate authorities."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Let aiohttp be imported without the system's certificate authorities, and pause the garbage collector.

    aiohttp parses the file of authorities twice at its import (`aiohttp.connector`, 3.14), for TLS contexts that serve
    only requests without a context of their own, of which this program has none. The collector finds hardly any garbage
    during imports. Do not use this for commands that run code of users: their requests may need these contexts.
    """
    former, collects = os.environ.get(_CA_FILE), gc.isenabled()
    os.environ[_CA_FILE] = os.devnull
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        if former is None:
            del os.environ[_CA_FILE]
        else:
            os.environ[_CA_FILE] = former
