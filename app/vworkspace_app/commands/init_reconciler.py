"""The command `init reconciler`, which writes a Python project with a kind, its reconciler and a passing test.

The kind is a new one, or the kind of an existing CRD.
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from string import Template
from typing import Annotated, Any, Final

from purekube.apimachinery.manifest import Manifest, get_path
from purekube.boxes.schemas import CRD, CrdProblem, CrdVersions
from purekube.reconcilers.crd_source import KindSource, UnfitCrd, constant_of, kind_source
from purekube.reconcilers.resource import plural_of
from purekube.reconcilers.source_text import Group, Node, imported, laid_out, literal
from purekube.schema.node import ANYTHING
from purekube_run.examples.data_source import DataSource, Seeded, SimplestData
from purekube_run.examples.examples import Examples, NoExample
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.yaml_documents import STDIN, read_documents
from vworkspace_app import VERSION
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.box.init import GROUP, KIND, PROJECT, check_name, module_of, write_new
from vworkspace_app.commands.reconciler_project import CRD_FILES, FILES

_ATTEMPTS: Final = 20
"""The number of random specs that are generated to find one that satisfies the rules of a CRD."""
_NO_EXAMPLE: Final = "no object that its rules admit was found: write the spec of EXAMPLE in the test yourself"


def write_project(project: str, group: str, kind: str, directory: Path) -> None:
    """Write a project for a new kind into the folder `directory`, and print the paths of its files.

    Raises CommandError for invalid names, and if a file exists already.
    """
    for given, form in ((group, GROUP), (kind, KIND)):
        check_name(given, form)
    _write(FILES, _words(project, group, kind, plural_of(kind)), directory)


def write_project_for(project: str, crd: CrdVersions, directory: Path) -> None:
    """Write a project for the kind of a CRD, in its storage version, into the folder `directory`.

    Parts of the CRD that the project's classes cannot express are printed on standard error. Raises CommandError for an
    invalid name or an existing file, and UnfitCrd if the kind cannot be written as classes; nothing is written then.
    """
    source = kind_source(crd.manifest, crd.storage)
    kind = source.kind
    words = _words(project, kind.group, kind.kind, kind.plural) | _parts(project, source)
    spec = _example(crd)
    words["example"] = _lines("EXAMPLE: dict[str, Any] = ", literal(kind.manifest("mine", spec=spec or {})))
    _write({**FILES, **CRD_FILES}, words, directory)
    for note in (*source.notes, *([_NO_EXAMPLE] if spec is None else [])):
        print(note, file=sys.stderr)


def _example(crd: CrdVersions) -> Any:
    """Return a small spec that is valid by the CRD's schema and rules; None if none was found."""
    known = crd.stored
    choices: Sequence[DataSource] = (SimplestData(), *(Seeded(Random(seed)) for seed in range(_ATTEMPTS)))
    for choose in choices:
        with suppress(NoExample):
            return Examples(known.schema or ANYTHING, choose).object_of(known.kind, {})["spec"]
    return None


def _parts(project: str, source: KindSource) -> dict[str, str]:
    kind, module = source.kind.kind, module_of(project)
    names = (constant_of(kind), kind, f"{kind}Status")
    arguments = Group("(", [("", f"self: {kind}"), ("", "children: Children")], ")")
    return {
        "api": source.text,
        "imports": "\n".join(imported(f"{module}.api", names)),
        "signature": _lines(f"def {module}", arguments, f" -> Desired[{kind}Status]:"),
        "namespace": "" if source.kind.namespaced else ', "namespace": "default"',
    }


def _lines(prefix: str, node: Node, suffix: str = "") -> str:
    return "\n".join(laid_out(prefix, node, suffix))


def _words(project: str, group: str, kind: str, plural: str) -> dict[str, str]:
    check_name(project, PROJECT)
    return {
        "project": project,
        "module": module_of(project),
        "group": group,
        "kind": kind,
        "constant": constant_of(kind),
        "plural": plural,
        "version": VERSION,
    }


def _write(files: Mapping[str, str], words: dict[str, str], directory: Path) -> None:
    write_new({directory / _filled(path, words): _filled(text, words) for path, text in files.items()})


def _filled(text: str, words: dict[str, str]) -> str:
    return Template(text).substitute(words)


def _chosen(file: str, kind: str, group: str) -> CrdVersions:
    """Return the CRD in a file. If the file has several CRDs, return the one with this kind and group.

    Raises CommandError if there is no such CRD or more than one, or if the CRD is not usable.
    """
    found = [document for document in _read(file) if document["kind"] == CRD]
    chosen = [document for document in found if _is_of(document, kind, group)]
    if len(chosen) != 1:
        known = ", ".join(sorted(str(get_path(document, "metadata", "name")) for document in chosen or found))
        problem = "choose one with --kind and --group" if chosen else "none is of that kind"
        raise _unfit(file, f"it has {known}: {problem}" if found else f"it has no {CRD}")
    try:
        return CrdVersions.of(chosen[0])
    except CrdProblem as error:
        raise _unfit(file, str(error)) from error


def _is_of(document: Manifest, kind: str, group: str) -> bool:
    names = (get_path(document, "spec", "names", "kind"), kind), (get_path(document, "spec", "group"), group)
    return all(wanted in ("", name) for name, wanted in names)


def _read(file: str) -> Sequence[Mapping[str, Any]]:
    try:
        return read_documents([file])
    except CommandError as error:
        raise CommandError(error.message, status=USAGE) from error


def _unfit(file: str, problem: str) -> CommandError:
    return CommandError(f"{'standard input' if file in STDIN else file}: {problem}", status=USAGE)


def reconciler(
    name: Annotated[str, Parameter(help="Name of the project and of the controller, as `shops`.")],
    /,
    *,
    kind: Annotated[str, Parameter(help="The kind that is to be made, as `Shop`, or the one of FILE.")] = "",
    group: Annotated[str, Parameter(help="Group of the kind; example.com if neither it nor FILE is given.")] = "",
    from_crd: Annotated[
        str, Parameter(name="--from-crd", help="File with a CRD: classes for its kind; `-` is standard input.")
    ] = "",
    directory: Annotated[Path | None, Parameter(help="Folder for the project; without it one of its name.")] = None,
) -> None:
    """Write a project with a kind, its reconciler in Python and a test, which passes as it is.

    With --from-crd the project has classes for the storage version of an existing CRD. The parts of the CRD that
    classes cannot express are printed on standard error with their paths. Examples:

        vworkspace-operator init reconciler shops --group example.com --kind Shop
        kubectl get crd certificates.cert-manager.io -o yaml | vworkspace-operator init reconciler certs --from-crd -
    """
    folder = Path(name) if directory is None else directory
    if not from_crd:
        if not kind:
            raise CommandError(
                "--kind or --from-crd is missing (see vworkspace-operator init reconciler --help)", status=USAGE
            )
        write_project(name, group or "example.com", kind, folder)
        return
    try:
        write_project_for(name, _chosen(from_crd, kind, group), folder)
    except UnfitCrd as error:
        raise _unfit(from_crd, str(error)) from error
