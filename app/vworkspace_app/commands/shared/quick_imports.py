"""The faster import of a command's modules, without work that no command needs (SEE-5).

`python -m bench.starting` measures the start of commands.
"""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final

_CA_FILE: Final = "SSL_CERT_FILE"
"""The environment variable with which OpenSSL replaces its file of certificate authorities."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Make imports in the block faster: aiohttp loads no certificate authorities, the garbage collector is paused, and
    lightkube is imported in part.

    At its import, aiohttp (`aiohttp.connector`, 3.14) parses the system's file of authorities twice, for its default
    TLS contexts. This program never uses them: each of its requests has a context of its own. Imports leave hardly any
    garbage. Do not use this for commands that run code of users, whose requests may need the default contexts.
    """
    former, collects = os.environ.get(_CA_FILE), gc.isenabled()
    os.environ[_CA_FILE] = os.devnull
    gc.disable()
    _defer()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        if former is None:
            del os.environ[_CA_FILE]
        else:
            os.environ[_CA_FILE] = former


class _DeferredModule(ModuleType):
    """A module whose code runs only when a name is read from it. Modules below it can be imported before that."""

    def __getattr__(self, name: str) -> Any:
        object.__setattr__(self, "__class__", ModuleType)
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(self)
        return getattr(self, name)


def _defer() -> None:
    """Defer the import of lightkube and its errors, unless they are imported already.

    Only lightkube's reader of kubeconfigs is needed. Its clients and errors import an HTTP client and the models of
    Kubernetes, which would take a fifth of a command's start.
    """
    for name in ("lightkube", "lightkube.core.exceptions"):
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            sys.modules[name] = module = module_from_spec(spec)
            module.__class__ = _DeferredModule
