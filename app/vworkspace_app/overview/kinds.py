"""Which kind a word on the command line means: `appinst`, `op`, `operation/NAME`."""

from typing import Final

from vworkspace_app.process.errors import USAGE, CommandError
from vworkspace_core.apimachinery.manifest import Kind
from vworkspace_core.apimachinery.resources import APPLICATION_INSTANCE, CLUSTER, OPERATION

_WORDS: Final = {
    "applicationinstance": APPLICATION_INSTANCE,
    "applicationinstances": APPLICATION_INSTANCE,
    "appinst": APPLICATION_INSTANCE,
    "operation": OPERATION,
    "op": OPERATION,
    "operations": OPERATION,
    "cluster": CLUSTER,
    "clusters": CLUSTER,
}
"""Kinds, plurals and short names, as kubectl takes them."""


def kinds_named(name: str) -> tuple[tuple[Kind, ...], str]:
    """The kinds that `NAME` or `KIND/NAME` may mean, and the name. Raises CommandError for an unknown kind."""
    word, slash, bare = name.partition("/")
    if not slash:
        return (APPLICATION_INSTANCE, OPERATION, CLUSTER), name
    if word.lower() not in _WORDS:
        raise CommandError(f"{word} is no kind of the operator's: give {', '.join(sorted(_WORDS))}", status=USAGE)
    return (_WORDS[word.lower()],), bare
