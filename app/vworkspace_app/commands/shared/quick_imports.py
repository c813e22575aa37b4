"""The faster import of a command's modules, without work that no command needs (SEE-5).

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
    """Make imports in the block faster: aiohttp loads no certificate authorities, and the garbage collector is paused.

    At its import, aiohttp (`aiohttp.connector`, 3.14) parses the system's file of authorities twice, for its default
    TLS contexts. This program never uses them: each of its requests has a context of its own. Imports leave hardly any
    garbage. Do not use this for commands that run code of users, whose requests may need the default contexts.
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
