"""The search for objects by their names on the command line: `NAME`, `op/NAME`, `operation/NAME`."""

from collections.abc import Mapping, Sequence
from typing import Final

from purekube.apimachinery.manifest import Kind, Manifest, get_path, ref_of
from purekube.ports import KubeApi
from purekube_run.controller.lookups import all_of
from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_core.api.kinds import APPLICATION_INSTANCE, CLUSTER, OPERATION

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
"""The words by which users may name the operator's kinds, as in kubectl: kind, plural and short name."""

NOTHING: Final[Mapping[str, Kind]] = {}
"""No kinds other than the operator's own."""


def kinds_named(name: str, others: Mapping[str, Kind] = NOTHING, *, acts: bool = False) -> tuple[tuple[Kind, ...], str]:
    """Return the kinds to which `NAME` or `KIND/NAME` may refer, and the name.

    `others` maps further words to kinds. If `acts` is True, a name alone means an instance or an Operation, never a
    Cluster. Raises CommandError for an unknown kind. If `acts` is True, the error's message says that the command is
    only for instances and Operations; otherwise it lists all known words.
    """
    word, slash, bare = name.partition("/")
    if not slash:
        own = (APPLICATION_INSTANCE, OPERATION) if acts else (APPLICATION_INSTANCE, OPERATION, CLUSTER)
        return tuple(dict.fromkeys((*own, *others.values()))), name
    words = {**others, **_WORDS}
    if word.lower() not in words:
        wrong = f"{word} is no kind of the operator's: give {', '.join(sorted(words))}"
        if acts:
            wrong = f"this command is for instances (appinst/NAME) and Operations (op/NAME), not for a {word}"
        raise CommandError(f"{wrong}; of an object in namespace {word}: {bare} -n {word}", status=USAGE)
    return (words[word.lower()],), bare


def is_known(word: str) -> bool:
    """Report whether a word names one of the operator's own kinds."""
    return word.lower() in _WORDS


async def find_named_object(
    api: KubeApi, name: str, namespace: str | None, others: Mapping[str, Kind] = NOTHING, *, acts: bool = False
) -> tuple[Kind, Manifest]:
    """Return the object to which `NAME` or `KIND/NAME` refers, and its kind.

    The object is searched in one namespace, or in all if `namespace` is None. `others` and `acts` are as in
    `kinds_named`. Raises CommandError if there is none or several, and the errors of `KubeApi.list`.
    """
    kinds, bare = kinds_named(name, others, acts=acts)
    found = await _candidates(api, kinds, bare, namespace)
    if not found:
        where = f" in namespace {namespace}" if namespace else ""
        raise CommandError(f"there is no {' or '.join(kind.kind for kind in kinds)} {bare}{where}")
    if len(found) > 1:
        named = "; ".join(str(ref_of(manifest, kind)) for kind, manifest in found)
        raise CommandError(f"{name} may mean {named}: give KIND/NAME and -n NAMESPACE", status=USAGE)
    return found[0]


async def _candidates(
    api: KubeApi, kinds: Sequence[Kind], name: str, namespace: str | None
) -> list[tuple[Kind, Manifest]]:
    return [
        (kind, manifest)
        for kind in kinds
        for manifest in await all_of(api, kind, namespace=namespace if kind.namespaced else None)
        if get_path(manifest, "metadata", "name") == name
    ]
