"""The kinds that CustomResourceDefinitions define, and the names by which people refer to them (SEE-1).

A module of its own, since every command about objects starts with it, and the lists of objects import the graph engine.
"""

from collections.abc import Iterator

from purekube.apimachinery.manifest import Kind, Manifest, get_path


def kind_of(definition: Manifest) -> Kind | None:
    """Return the kind that the CRD `definition` defines, in its storage version, or None if the CRD is malformed."""
    spec = get_path(definition, "spec")
    group, kind, plural = (get_path(spec, *path) for path in (("group",), ("names", "kind"), ("names", "plural")))
    version = next((get_path(each, "name") for each in _versions(spec) if get_path(each, "storage") is True), None)
    if not all(isinstance(text, str) and text for text in (group, version, kind, plural)):
        return None
    return Kind(str(group), str(version), str(kind), str(plural), namespaced=get_path(spec, "scope") != "Cluster")


def words_of(definition: Manifest) -> Iterator[str]:
    """Yield the names, in lower case, by which kubectl accepts the kind that the CRD `definition` defines.

    These are kind, plural, singular, short names, and plural.group.
    """
    names = get_path(definition, "spec", "names")
    short = get_path(names, "shortNames")
    said = [get_path(names, field) for field in ("kind", "plural", "singular")]
    for word in (*said, *(short if isinstance(short, list) else ()), get_path(definition, "metadata", "name")):
        if isinstance(word, str) and word:
            yield word.lower()


def _versions(spec: object) -> list[Manifest]:
    versions = get_path(spec, "versions")
    return versions if isinstance(versions, list) else []
