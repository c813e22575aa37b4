"""CustomResourceDefinitions: read from files, and installed into an API server."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from kubelab.inprocess import InProcessKube, run_sync
from kubelab.server import ApiServer
from purekube.apimachinery.errors import OperatorError
from purekube.apimachinery.manifest import Manifest, get_path
from purekube.apimachinery.resources import CUSTOM_RESOURCE_DEFINITION


class KubelabError(Exception):
    """An error that keeps kubelab from starting. Its message says what to do.

    `option` is the option that caused the error, such as `simulate`. `is_misuse` says that the options themselves are
    wrong.
    """

    def __init__(self, text: str, *, option: str = "", is_misuse: bool = False) -> None:
        super().__init__(f"{option} {text}" if option else text)
        self.text = text
        self.option = option
        self.is_misuse = is_misuse

    @property
    def as_flag(self) -> str:
        """The message for the command line: it names the option that caused the error, as in `--simulate`."""
        return f"--{self.option.replace('_', '-')} {self.text}" if self.option else self.text


Definition: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""A manifest, a YAML file of manifests, or a folder of such files."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A safe loader that reads an unquoted time as a string, as kubectl does."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and the type are PyYAML's
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_definitions(crds: Definition | Iterable[Definition], folder: Path = Path()) -> list[Manifest]:
    """Return the CRDs of manifests, files and folders; objects of other kinds are left out.

    Relative paths begin at `folder`. Raises KubelabError that names the file, and the line where it is known.
    """
    given = [crds] if isinstance(crds, str | os.PathLike | Mapping) else crds
    return [crd for definition in given for crd in _read(definition, folder)]


def install(server: ApiServer, crds: Iterable[Manifest]) -> None:
    """Apply the CRDs as kubectl's field manager, so that `kubectl apply --server-side` can replace them later.

    Raises KubelabError with the name of a refused CRD and the reason.
    """
    api = InProcessKube(server)
    names: set[str] = set()
    for crd in crds:
        name = crd["metadata"]["name"]
        if name in names:
            raise KubelabError(f"CRD {name} is refused: it already exists, from an earlier file")
        names.add(name)
        # A CRD that was exported from a cluster has managedFields, which an apply refuses (S-05).
        meta = {key: value for key, value in crd["metadata"].items() if key != "managedFields"}
        try:
            run_sync(api.apply({**crd, "metadata": meta}, kind=CUSTOM_RESOURCE_DEFINITION, field_manager="kubectl"))
        except OperatorError as error:
            raise KubelabError(f"CRD {name} is refused: {error.message}") from error


def _read(definition: Definition, folder: Path) -> Iterator[Manifest]:
    if isinstance(definition, Mapping):
        yield _named(definition, "a manifest")
        return
    path = folder / definition
    # The order decides which of two files with one CRD is named in the error.
    files = sorted((*path.glob("*.yaml"), *path.glob("*.yml"))) if path.is_dir() else [path]
    if not files:
        raise KubelabError(f"{definition}: the folder holds no .yaml file", option="crds")
    for file in files:
        for document in read_documents(file, "crds"):
            found = (item for item in _items(document) if get_path(item, "kind") == CUSTOM_RESOURCE_DEFINITION.kind)
            yield from (_named(crd, str(file)) for crd in found)


def _named(crd: Mapping[str, Any], what: str) -> Manifest:
    """Return `crd`. Raises KubelabError, which names `what`, if it is no CRD or has no name."""
    kind, name = crd.get("kind"), get_path(crd, "metadata", "name")
    if kind != CUSTOM_RESOURCE_DEFINITION.kind or not isinstance(name, str):
        given = f"{kind or 'of no kind'} {name or 'without a name'}"
        raise KubelabError(f"{what}: is no CustomResourceDefinition with a name, but {given}", option="crds")
    return dict(crd)


def read_documents(file: Path, option: str) -> list[Any]:
    """Return the documents of a file of YAML.

    `option` is the command's option that named the file. Raises KubelabError with the file, the line if known, and the
    option.
    """
    try:
        return list(yaml.load_all(file.read_text(encoding="utf-8-sig"), Loader=_Loader))
    except OSError as error:
        raise KubelabError(f"{file}: cannot be read: {error.strerror}", option=option) from error
    except UnicodeDecodeError as error:
        raise KubelabError(f"{file}: is not UTF-8 text: {error.reason}", option=option) from error
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        line = "" if mark is None else f":{mark.line + 1}"
        why = f": {problem}" if problem else ""
        raise KubelabError(f"{file}{line}: not valid YAML{why}", option=option) from error


def _items(document: Any) -> list[Any]:
    """Return the items of a List, which `kubectl get -o yaml` prints.

    For any other document, return a list that contains only that document.
    """
    is_list = isinstance(document, Mapping) and str(document.get("kind", "")).endswith("List")
    return list(document.get("items") or ()) if is_list else [document]
