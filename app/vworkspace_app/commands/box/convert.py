"""The command `box convert`, which makes boxes of the files of other frameworks, and prints or writes them."""

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import attrs
import yaml

from purekube.apimachinery.formats import DNS_LABEL
from purekube.apimachinery.problems import path_of
from purekube.boxes.read import BoxProblem
from purekube.boxes.schemas import CrdProblem, CrdVersions, Schemas
from purekube_convert import ConvertedBox, convert, definition_files
from purekube_convert.result import BoxPath
from purekube_run.boxes.document import MarkedDocument, read_marked
from purekube_run.boxes.load import LoadedBox, further_crds, load_text
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import STDIN, Format, dump, read_documents
from purekube_run.process.yaml_places import YamlPlaces
from vworkspace_app.arguments import Parameter
from vworkspace_app.commands.shared.options import Crds

_MOST_DOCUMENTS: Final = 100
"""The maximum number of documents in a file to convert."""
_UNCONVERTED: Final = re.compile(r"the function ([\w.]+) is not known: ")
_MISSING: Final = re.compile(r"there is no (?:function|method) ([\w.]+)\(\)")
"""The beginnings of the two messages about a function that a box lacks: of the conversion, and of `box check`."""
_POWER: Final = re.compile(r"say `trustParents: \[(\w+)\]`")
"""The pattern of the advice in an error of `box check` to add a word to `trustParents`; its group is that word."""


@attrs.frozen
class Written:
    """A file that a conversion produces: its name and its text."""

    name: str
    text: str


@attrs.frozen
class ConvertedFile:
    """The result of converting a file of another framework (Orkestra or kro) to boxes.

    `boxes` is the number of boxes and `files` the files to write. `problems` has a line for each part that could not be
    converted. `refused` has the problems that `box check` finds in the new boxes. `trusts` has a line for each box with
    the powers that it gives to the authors of its parents.
    """

    boxes: int
    files: tuple[Written, ...]
    problems: tuple[str, ...]
    refused: tuple[str, ...] = ()
    trusts: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The summary of the conversion, in one line."""
        wrong = [f"{len(self.problems)} not converted"] if self.problems else []
        wrong += [f"{len(self.refused)} to be put right by hand: box check refuses them"] if self.refused else []
        boxes = f"{self.boxes} box{'es' * (self.boxes != 1)}"
        return f"convert: {boxes}, {', '.join(wrong) or 'everything converted and checked'}"


def convert_file(
    file: str, crds: Sequence[Path] = (), *, trusting: bool = True, output: Path | None = None
) -> ConvertedFile:
    """Convert a file in which another framework defines operators to boxes.

    Such a file has a Katalog of Orkestra or a ResourceGraphDefinition of kro.

    `crds` are files with CRDs of kinds that the boxes use. Some files let users choose namespaces, names or accounts of
    children in the objects that they write. If `trusting` is True, the boxes allow that by `trustParents`, so that they
    mean what the file means; else these choices are among the `refused`. `output` is the folder into which the files
    are written, which the lines of `refused` and `trusts` name. Raises CommandError if a file cannot be read.
    """
    marked_documents = read_marked(file)
    if not marked_documents:
        raise CommandError(f"{file}: holds no document")
    if len(marked_documents) > _MOST_DOCUMENTS:
        raise CommandError(f"{file}: holds more than {_MOST_DOCUMENTS} documents")
    folder = Path() if file in STDIN else Path(file).parent
    boxes = 0
    files: dict[str, str] = {}
    problems: list[str] = []
    refused: list[str] = []
    trusts: list[str] = []
    given = list(further_crds(crds))
    defined = {document: _defined(document, folder, given) for document in marked_documents}
    for document in marked_documents:
        further = [*given, *(crd for other, found in defined.items() if other is not document for crd in found)]
        conversion = convert(document.value, _definitions(document.value, folder), Schemas(further))
        defined[document] = []
        boxes += len(conversion.boxes)
        told = [(problem.place, problem.message) for problem in document.problems]
        told += [(document.at(problem.path), problem.message) for problem in conversion.problems]
        told.sort(key=lambda one: (one[0].line, one[0].column))
        problems += [f"{place}: {message}" for place, message in told]
        for made in conversion.boxes:
            of_box, checked = _checked(made, file, files, further, output)
            if trusting and (powers := sorted(set(_POWER.findall("\n".join(map(str, checked.problems)))))):
                of_box, checked = _checked(_trusting(made, powers), file, files, further, output)
                trusts.append(_trust_line(made, powers, output))
            if clashing := [name for name, text in of_box.items() if files.get(name, text) != text]:
                place = document.at("metadata.name")
                problems.append(
                    f"{place}: is not written: the file {clashing[0]} is of another box: rename one of them"
                )
                continue
            files |= of_box
            lacking = {name for problem in conversion.problems for name in _UNCONVERTED.findall(problem.message)}
            refused += [str(problem) for problem in checked.problems if not _is_about(problem, lacking)]
            own = [checked.crd] if checked.crd is not None else []
            defined[document] += own
            further += own
    written = tuple(Written(*entry) for entry in files.items())
    return ConvertedFile(boxes, written, tuple(problems), tuple(dict.fromkeys(refused)), tuple(trusts))


def _defined(document: MarkedDocument, folder: Path, given: Sequence[CrdVersions]) -> list[CrdVersions]:
    """Return the CRDs of the kinds that a document defines, which the documents before it may use, too.

    `given` are the CRDs of other kinds. A CRD that cannot be used is left out; its box is checked later.
    """
    definitions = _definitions(document.value, folder)
    boxes = convert(document.value, definitions, Schemas(given)).boxes
    found: list[CrdVersions] = []
    for manifest in (*definitions.values(), *(made.crd for made in boxes if made.crd is not None)):
        with suppress(CrdProblem):
            found.append(CrdVersions.of(manifest))
    return found


def _checked(
    made: ConvertedBox, file: str, taken: Mapping[str, str], further: Sequence[CrdVersions], output: Path | None
) -> tuple[Mapping[str, str], LoadedBox]:
    """Return the texts of a converted box's files, by file name, and the box loaded from these texts, with its
    problems.

    `taken` are the files of other boxes. `further` are CRDs that are not in these files. `output` is the folder in
    which the problems say that they are.
    """
    files = dict(_files(made, file, taken))
    name = f"{made.name}.yaml"
    return files, load_text(str((output or Path()) / name), files[name], further, files)


def _is_about(problem: BoxProblem, functions: Collection[str]) -> bool:
    """Report whether the problem is that one of these functions does not exist."""
    missing = _MISSING.match(problem.message)
    return missing is not None and missing[1] in functions


def _trusting(made: ConvertedBox, powers: Sequence[str]) -> ConvertedBox:
    note = "whoever writes these objects may decide this, as the original lets them: take away what tenants must not"
    box = {**made.box, "spec": {**made.box["spec"], "trustParents": list(powers)}}
    return attrs.evolve(made, box=box, notes={**made.notes, ("spec", "trustParents"): note})


def _trust_line(made: ConvertedBox, powers: Sequence[str], output: Path | None) -> str:
    box = (output or Path()) / f"{made.name}.yaml"
    return (
        f"{box}: trustParents: [{', '.join(powers)}]: whoever writes its objects decides "
        "this, as in the original; where they are tenants, convert with --no-trust-parents, which names each place"
    )


def write_files(files: tuple[Written, ...], folder: Path) -> Iterator[Path]:
    """Write the files into `folder`, and yield the path of each.

    Raises CommandError if a file cannot be written, or, before any is written, if one exists with other content.
    """
    try:
        for path, file in ((folder / file.name, file) for file in files):
            if path.exists() and path.read_text(encoding="utf-8") != file.text:
                raise CommandError(f"{path} exists, with other content: remove it, or name another folder with -o")
        for file in files:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / file.name
            path.write_text(file.text, encoding="utf-8")
            yield path
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{folder}: cannot be written: {error}") from error


def _definitions(document: Any, folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return the CRDs in the files that a Katalog (the file format of the framework Orkestra) names, by file name.

    CRDs at a URL are left out.
    """
    out: dict[str, Mapping[str, Any]] = {}
    for name in definition_files(document):
        if "://" not in name:
            out[name] = next(iter(read_documents([str(folder / name)])), {})
    return out


def _files(made: ConvertedBox, source: str, taken: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file of a box converted from the file `source`.

    `taken` are the files of other boxes. A CRD file whose name is taken, such as by the CRD of another folder, is named
    after the box.
    """
    if not re.fullmatch(DNS_LABEL, made.name):
        raise CommandError(f"{made.name[:80]!r} cannot be the name of a box: small letters, digits and hyphens")
    folder = Path() if source in STDIN else Path(source).parent
    crd, box, own = made.box["spec"].get("crd"), made.box, f"{made.name}-crd.yaml"
    text = dump([made.crd], Format.YAML) if made.crd is not None else None
    if isinstance(crd, str) and made.crd is None:
        text = (folder / crd).read_text(encoding="utf-8") if (folder / crd).is_file() else None
        plain = Path(crd).name
        own = own if plain == f"{made.name}.yaml" or taken.get(plain, text) != text else plain
        box = {**box, "spec": {**box["spec"], "crd": own}}
    yield f"{made.name}.yaml", annotated(box, made.notes, f"Converted from {Path(source).name}.")
    if text is not None:
        yield own, text


def annotated(box: Mapping[str, Any], notes: Mapping[BoxPath, str], head: str) -> str:
    """Return a box as YAML after the comment `head`. Each note is a comment above the field at its path.

    A note explains to the author of the box how the field was converted.
    """
    text = dump([box], Format.YAML)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert root is not None
    places = YamlPlaces("", root, text)
    lines = text.splitlines()
    above: dict[int, list[str]] = {}
    for place, note in notes.items():
        above.setdefault(places.at(path_of(place)).line - 1, []).append(note)
    out = [f"# {head}"]
    for number, line in enumerate(lines):
        margin = line[: len(line) - len(line.lstrip(" "))]
        out += [f"{margin}# {' '.join(note.split())}" for note in above.get(number, ())]
        out.append(line)
    return "\n".join(out) + "\n"


def convert_box(
    file: Annotated[str, Parameter(name="FILE", help="A YAML file; `-` is standard input.")],
    /,
    *,
    crds: Crds = None,
    trust_parents: Annotated[
        bool, Parameter(help="Let the authors of the objects decide what the original lets them decide.")
    ] = True,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write files into this folder instead of printing them.")
    ] = None,
) -> int:
    """Convert a Katalog of Orkestra, or a ResourceGraphDefinition of kro, to boxes, and check them.

    Both define operators in YAML, in the way of another framework. Boxes are made even of a file that cannot be
    converted completely. Each part without a counterpart in a box is then printed on standard error with its line, as
    is each problem that `box check` finds in the new boxes, and the exit status is 1. A CRD that a Katalog names is
    read from the file next to it. Give the CRDs of other kinds with --crds, or their plurals are guessed. Where the
    original lets an instance choose a namespace, a name or an account, the box has `trustParents`, and a line on
    standard error says so; with --no-trust-parents each such place is a problem. Examples:

        vworkspace-operator box convert webapp.katalog.yaml
        vworkspace-operator box convert webapp.rgd.yaml -o boxes --crds crds/
    """
    converted_file = convert_file(file, crds or (), trusting=trust_parents, output=output)
    if output is None:
        print("---\n".join(made.text for made in converted_file.files), end="")
    else:
        for path in write_files(converted_file.files, output):
            print(path)
    for line in (*converted_file.problems, *converted_file.refused, *converted_file.trusts):
        print(line, file=sys.stderr)
    print(converted_file.told, file=sys.stderr)
    return int(bool(converted_file.problems or converted_file.refused))
