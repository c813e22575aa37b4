"""The loading of boxes from files: each is compiled with the CRDs that it needs, and all problems are listed (PH-6)."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, get_path
from purekube.apimachinery.problems import NoPlaces, Place, Places, ValidationProblems, amount, index
from purekube.boxes.box import Box
from purekube.boxes.compiler.compile import BoxExamination, examine
from purekube.boxes.model import KIND, OperatorBox
from purekube.boxes.read import BoxProblem, read_box
from purekube.boxes.schemas import CRD, CrdProblem, CrdVersions, Schemas
from purekube_run.boxes.document import MarkedDocument, UnreadableFile, documents_of, read_marked
from purekube_run.process.command_line import CommandError
from purekube_run.process.yaml_documents import files_in, read_text

_WORD: Final = re.compile(r"[A-Za-z][\w.-]*")
_KIND_SAID: Final = re.compile(r"""kind["']?[ \t]*:[ \t]*["']?([A-Z]\w*)""")
_CRD_SAID: Final = re.compile(r"""name["']?[ \t]*:[ \t]*["']?([a-z][\w-]*\.[\w.-]+)""")
_NAMED_BY: Final = (_KIND_SAID, _CRD_SAID)
"""The patterns of the kinds and of the names of CRDs in a file."""


@attrs.frozen(eq=False)
class LoadedBox:
    """The result of loading one box file: the box (an operator defined in YAML), and all problems found in the file."""

    file: str
    examination: BoxExamination
    model: OperatorBox | None = None
    crd: CrdVersions | None = None
    places: Places = attrs.field(factory=NoPlaces)
    schemas: Schemas | None = None
    """The schemas of all kinds that were known when the box was compiled; None if the file has no readable box."""

    @property
    def box(self) -> Box | None:
        """The compiled box, or None if there are problems."""
        return self.examination.box

    @property
    def problems(self) -> tuple[BoxProblem, ...]:
        """The errors in the box or its CRDs. A box with any error cannot run."""
        return self.examination.problems

    @property
    def warnings(self) -> tuple[BoxProblem, ...]:
        """The warnings about constructs that are allowed, but rarely intended."""
        return self.examination.warnings


def load_boxes(
    files: Sequence[str], crds: Sequence[Path] = (), installed: Sequence[CrdVersions] = ()
) -> list[LoadedBox]:
    """Load the box of each file, and return the results in the order of `files`, with the problems found.

    Each box is compiled with the CRDs in the box files, in the files and folders `crds`, and in `installed`, which are
    CRDs read from a cluster. Raises CommandError for files that cannot be read.
    """
    texts = [read_text(file) for file in files]
    known = [*further_crds(crds, _words_of(texts) if crds else ()), *installed]
    if len(files) > 1:
        known += _crds_of_boxes(files, texts)
    return [load_text(file, text, known) for file, text in zip(files, texts, strict=True)]


def named_in(texts: Sequence[str], crds: Sequence[CrdVersions]) -> list[CrdVersions]:
    """Return those of `crds` whose kind or name is a word in one of `texts`, the texts of box files."""
    words = _words_of(texts) if crds else ()
    return [crd for crd in crds if _is_requested(crd.manifest, words)]


def _words_of(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(word for text in texts for word in _WORD.findall(text))


def _crds_of_boxes(files: Sequence[str], texts: Sequence[str]) -> Iterator[CrdVersions]:
    """Yield the CRDs in the box files, and in the CRD files to which the boxes refer.

    One box may create objects of another box's kind, so it needs the other's CRD. Problems of CRDs are ignored here,
    since each box reports the problems of its own CRD.
    """
    for file, text in zip(files, texts, strict=True):
        documents = _readable(file, text)
        yield from _crds((document for document in documents if get_path(document.value, "kind") == CRD), [])
        for document in documents:
            source = get_path(document.value, "spec", "crd")
            path = Path(file).parent / source if isinstance(source, str) else None
            if path is not None and path.is_file():
                yield from _crds(_readable(str(path), path.read_text(encoding="utf-8", errors="replace")), [])


def _readable(file: str, text: str) -> Sequence[MarkedDocument]:
    try:
        return documents_of(file, text)
    except UnreadableFile:
        return ()


def runnable(loaded: Iterable[LoadedBox]) -> list[Box]:
    """Return the compiled boxes, ready to run. Raises CommandError with the problems of the first box that has any."""
    boxes: list[Box] = []
    for one in loaded:
        if one.box is None:
            told = "\n".join(map(str, one.problems))
            raise CommandError(f"{one.file}: {amount(len(one.problems), 'problem')}; see `box check`\n{told}")
        boxes.append(one.box)
    return boxes


def load_box(file: str, known: Sequence[CrdVersions] = ()) -> LoadedBox:
    """Load the box in a file: compile it, and return the result with all problems.

    `known` are CRDs that the box may use in addition to those in the file. Raises CommandError if the file cannot be
    read.
    """
    return load_text(file, read_text(file), known)


def load_text(
    file: str, text: str, known: Sequence[CrdVersions] = (), beside: Mapping[str, str] | None = None
) -> LoadedBox:
    """Load the box in `text`, as if the file `file` contained it: compile it, and return the result with all problems.

    `known` are CRDs that the box may use in addition to those in `text`. The last argument maps names of CRD files to
    texts, which are used instead of files on disk if the box refers to such a file.
    """
    try:
        documents = documents_of(file, text)
    except UnreadableFile as error:
        return LoadedBox(file, BoxExamination(None, (error.problem,)))
    boxes = [document for document in documents if get_path(document.value, "kind") != CRD]
    if len(boxes) != 1:
        problem = BoxProblem(Place(file=file), f"holds {len(boxes)} boxes; a file holds one {KIND}, and its CRDs")
        return LoadedBox(file, BoxExamination(None, (problem,)))
    inside = [document for document in documents if document is not boxes[0]]
    return _loaded(file, boxes[0], inside, known, beside or {})


def _loaded(
    file: str,
    document: MarkedDocument,
    inside: Sequence[MarkedDocument],
    known: Sequence[CrdVersions],
    beside: Mapping[str, str],
) -> LoadedBox:
    try:
        model = read_box(document.value)
    except ValidationProblems as error:
        problems = [BoxProblem(document.at(problem.path), problem.message) for problem in error.problems]
        return LoadedBox(file, BoxExamination(None, _in_order((*document.problems, *problems))))
    problems = list(document.problems)
    crds = [*known, *_crds(inside, problems)]
    own = _own_crd(model, document, crds, problems, beside)
    schemas = Schemas([*([own] if own is not None else []), *crds], declared_kinds(model))
    found = examine(model, own, schemas, document)
    if own is None and problems:
        found = attrs.evolve(found, problems=())  # the reason why the CRD is not known was already reported
    everything = _in_order((*problems, *found.problems))
    checked = attrs.evolve(found, problems=everything, box=None if everything else found.box)
    return LoadedBox(file, checked, model, own, document, schemas)


def _in_order(problems: Iterable[BoxProblem]) -> tuple[BoxProblem, ...]:
    return tuple(
        sorted(
            problems,
            key=lambda problem: (problem.place.file, problem.place.line, problem.place.column, problem.message),
        )
    )


def declared_kinds(model: OperatorBox) -> Iterator[Kind]:
    """Yield the kinds that a box declares in `spec.kinds`."""
    for declared in model.spec.kinds:
        group, _, version = declared.api_version.rpartition("/")
        yield Kind(group, version, declared.kind, declared.plural, declared.namespaced)


# --- CRDs -------------------------------------------------------------------------------------------------------------


def _own_crd(
    model: OperatorBox,
    document: MarkedDocument,
    crds: Sequence[CrdVersions],
    problems: list[BoxProblem],
    beside: Mapping[str, str],
) -> CrdVersions | None:
    source, place = model.spec.crd, document.at("spec.crd")
    if source.name:
        named = [crd for crd in crds if get_path(crd.manifest, "metadata", "name") == source.name]
        if not named:
            message = f"no CRD {source.name} was given: with --crds DIR from its file, with --kubeconfig from a cluster"
            problems.append(BoxProblem(place, message))
        return named[0] if named else None
    if source.manifest is not None:
        try:
            return CrdVersions.of(source.manifest)
        except CrdProblem as error:
            problems.append(BoxProblem(place, str(error)))
            return None
    path = Path(document.file).parent / source.file
    try:
        text = beside.get(source.file)
        documents = read_marked(str(path)) if text is None else documents_of(str(path), text)
    except UnreadableFile as error:
        problems.append(error.problem)
        return None
    except CommandError as error:
        problems.append(BoxProblem(place, error.message))
        return None
    found = list(_crds(documents, problems))
    if len(found) != 1 and not problems:
        problems.append(BoxProblem(place, f"{path} holds {len(found)} CRDs, not one"))
    return found[0] if found else None


def _crds(documents: Iterable[MarkedDocument], problems: list[BoxProblem]) -> Iterator[CrdVersions]:
    for document in documents:
        problems += document.problems
        try:
            yield CrdVersions.of(document.value, document)
        except CrdProblem as error:
            problems.append(BoxProblem(document.at(""), str(error)))


def further_crds(paths: Sequence[Path], words: Container[str] | None = None) -> Iterator[CrdVersions]:
    """Yield the CRDs in the files and folders `paths`.

    If `words` is given, such as all words in a box file, only CRDs whose kind or name is one of these words are
    yielded. Files without such a word are skipped before they are parsed, since a folder may contain all CRDs of a
    cluster. A file may hold a List of CRDs. Raises CommandError for a path that does not exist, and for a file or CRD
    that cannot be read.
    """
    for path in paths:
        for file in _files(path):
            text = read_text(str(file))
            if words is None or any(word in words for said in _NAMED_BY for word in said.findall(text)):
                for document in documents_of(str(file), text):
                    yield from (_crd(document, *each) for each in _objects(document) if _is_requested(each[0], words))


@attrs.frozen(eq=False)
class _PlacesOfItem:
    """The places of the fields in one item of a List."""

    document: MarkedDocument
    item: str

    def at(self, path: str, offset: int | None = None) -> Place:
        """Return file, line and column of the item's field `path`, or of a character in its text."""
        return self.document.at(f"{self.item}.{path}" if path else self.item, offset)


def _objects(document: MarkedDocument) -> Iterator[tuple[Any, Places]]:
    """Yield each object in a document with its places. A List, as `kubectl get -o yaml` prints it, has several."""
    items = get_path(document.value, "items")
    if not str(get_path(document.value, "kind")).endswith("List") or not isinstance(items, list):
        yield document.value, document
        return
    for number, item in enumerate(items):
        yield item, _PlacesOfItem(document, index("items", number))


def _is_requested(manifest: Any, words: Container[str] | None) -> bool:
    names = (get_path(manifest, "spec", "names", "kind"), get_path(manifest, "metadata", "name"))
    if get_path(manifest, "kind") != CRD:
        return False
    return words is None or any(isinstance(name, str) and name in words for name in names)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise CommandError(f"--crds {path}: there is no such file or folder")
    return files_in(path)


def _crd(document: MarkedDocument, manifest: Any, places: Places) -> CrdVersions:
    if document.problems:
        raise CommandError(str(document.problems[0]))
    try:
        return CrdVersions.of(manifest, places)
    except CrdProblem as error:
        raise CommandError(f"{places.at('')}: {error}") from error


def as_json(problem: BoxProblem, severity: str) -> Mapping[str, Any]:
    """Return a problem as JSON data for editors: its message, its `severity`, and its place.

    The place is the file, the line and column, and the path of the field.
    """
    place = problem.place
    return {
        "severity": severity,
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "path": place.path,
        "message": problem.message,
    }
