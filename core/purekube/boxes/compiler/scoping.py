"""The variables that an expression may read at its place, and who controls the names of objects (PH-6, RUN-12)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.manifest import Kind, get_path
from purekube.boxes.compiler.children import ChildNames, readable
from purekube.boxes.compiler.taint import PARENT, TRUSTED, Origin, Taint, child, external, taint_of
from purekube.boxes.expressions import FUNCTIONS, BoxExpression
from purekube.boxes.model import BoxResource, OperatorBox
from purekube.boxes.read import Findings
from purekube.boxes.schemas import KnownKind
from purekube.boxes.templates import TextPart, text_parts
from purekube.cel import BOOL, ITEM, LIMITS, STRING, Absence, CelSyntaxError, CelType, Checked, Program, VariablePath
from purekube.cel.check import check, facts_of
from purekube.cel.evaluate import TYPES, build
from purekube.cel.parser import parse
from purekube.cel.syntax import Expression, Identifier, children

_SHELL: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
_MEANT: Final = {
    "undeclared reference to 'spec'": "self.spec",
    "undeclared reference to 'metadata'": "self.metadata",
    "undeclared reference to 'status'": "self.status",
    "undeclared reference to 'schema'": "self",
}
"""The errors of variables that exist in gates or in kro but not in expressions of a box, and what to write instead."""
SECRETS_ONLY: Final = (
    "data of a Secret may flow into data of a Secret only; of a Secret itself only its name, namespace, uid, labels, "
    "type and isReady() may be read elsewhere, and rollOn rolls pods when it changes"
)


@attrs.frozen(eq=False)
class Variables:
    """The variables that an expression may read, with their types.

    `certain` are the variables for which the schema shows which fields always exist: `self`, and items of lists in
    `self`. Any field of another variable may be missing. `aliases` maps a variable of `forEach` to the path of the list
    whose items it holds.
    """

    types: Mapping[str, CelType]
    taints: Mapping[str, Taint] = attrs.field(factory=dict)
    certain: frozenset[str] = frozenset(("self",))
    aliases: Mapping[str, VariablePath] = attrs.field(factory=dict)
    present: frozenset[VariablePath] = frozenset()
    """The paths of fields that exist whenever the expression is evaluated, since `includeWhen` tests them first."""
    itself: str = ""
    """The id of the resource to which the expression belongs, and which it therefore cannot read."""

    def only(self, *names: str) -> "Variables":
        """Return a copy that has only the variables with these names."""
        return attrs.evolve(self, types={name: kind for name, kind in self.types.items() if name in names})

    def without(self, *names: str) -> "Variables":
        """Return a copy without the variables with these names."""
        return attrs.evolve(self, types={name: kind for name, kind in self.types.items() if name not in names})

    def making(self, name: str) -> "Variables":
        """Return the variables that expressions of the resource `name` may read: all except the resource itself."""
        return attrs.evolve(self.without(name), itself=name)

    def given(self, conditions: Iterable[BoxExpression]) -> "Variables":
        """Return a copy in which the fields that `conditions` test with `has(…)` are known to exist."""
        return attrs.evolve(
            self, present=self.present.union(*(facts_of(condition.program.tree) for condition in conditions))
        )

    def with_variable(self, name: str, kind: CelType, taint: Taint = TRUSTED) -> "Variables":
        """Return a copy with one more variable, which replaces a variable of the same name. `kind` is the type of the
        variable. `taint` says whether its value may be secret, and who controls it.
        """
        return attrs.evolve(self, types={**self.types, name: kind}, taints={**self.taints, name: taint})

    def places_of(self, checked: Checked) -> Iterator[tuple[VariablePath, bool]]:
        """Yield every path that the expression `checked` reads, each with True if the expression works although the
        path is absent. A variable of `forEach` is replaced by the path of its list.
        """
        for read in sorted(checked.reads):
            alias = self.aliases.get(read.path[0])
            yield (read.path if alias is None else (*alias, *read.path[1:])), read.soft


@attrs.frozen(eq=False)
class ExpressionCompiler:
    """A compiler for the expressions of one box, which adds their errors to `findings`, the problems of the box."""

    findings: Findings
    children: ChildNames
    lists: Mapping[str, CelType]
    """The types of the variables `children.<kind>[*]`, by name."""
    where: Callable[..., str]
    """A function that returns, as text, the place in the CRD that declares the parent's field at a given path."""
    unchecked: set[VariablePath] = attrs.field(factory=set)
    made: list[BoxExpression] = attrs.field(factory=list)

    def piece(
        self, piece: TextPart, path: str, variables: Variables, *, wanted: CelType | None = None, secret: bool = False
    ) -> BoxExpression | None:
        """Compile an expression that is part of a string of the file; report an invalid expression and return None.

        `path` is the path of the text in the file. `wanted` is the type that the value must have; None for any type.
        `secret` permits the value to reveal data of Secrets.
        """
        return self.text(piece.text, path, variables, begin=piece.at, wanted=wanted, secret=secret)

    def text(
        self,
        text: str,
        path: str,
        variables: Variables,
        *,
        begin: int | None = None,
        wanted: CelType | None = None,
        secret: bool = False,
    ) -> BoxExpression | None:
        """Compile an expression from its text; report an invalid expression and return None.

        `path` is the path of the field in the file. `begin` is the expression's position in the field's text, None for
        an expression generated from a `when` gate. `wanted` is the type that the value must have; None for any type.
        `secret` permits the value to reveal data of Secrets.
        """
        try:
            program = self.program(text, variables)
        except CelSyntaxError as error:
            self.findings.syntax(path, _with_hint(error, text, variables.itself), text, begin)
            return None
        assert program.checked is not None
        self._absences(program.checked, variables, path, begin)
        self.unchecked.update(program.checked.unknown)
        tainted = taint_of(program.tree, variables.taints).whole.data
        if tainted and not secret:
            self.findings.problem(path, SECRETS_ONLY, begin)
        if wanted is not None and program.type.name not in ("dyn", wanted.name):
            self.findings.problem(path, _unwanted(program.type, wanted), begin)
        expression = BoxExpression(program, self.findings.place(path, begin), tainted)
        self.made.append(expression)
        return expression

    def program(self, text: str, variables: Variables) -> Program:
        """Compile the expression `text` without reporting errors. Raises CelSyntaxError if it is invalid."""
        source = readable(text)
        tree = self.children.resolve(parse(source), source)
        types = self._types(tree, variables)
        checked = check(tree, text, types, FUNCTIONS)
        return Program(text, tree, checked, LIMITS, build(tree, FUNCTIONS, frozenset(types)))

    def _types(self, tree: Expression, variables: Variables) -> Mapping[str, CelType]:
        """Return the types of the variables that the expression `tree` reads, by name. If it reads an unknown variable,
        return the types of all variables, so that the error can suggest a similar name.
        """
        names = set(names_in(tree))
        lists = self._lists(variables) if any(name in self.lists for name in names) else {}
        known = {name: kind for name in names if (kind := variables.types.get(name) or lists.get(name)) is not None}
        return known if known.keys() >= names - TYPES.keys() else {**variables.types, **lists}

    def _lists(self, variables: Variables) -> Mapping[str, CelType]:
        """Return the types of the variables `children.<kind>[*]`, which hold all children of a kind.

        A kind is included if all its resources are among `variables`.
        """
        known = variables.types.keys()
        return {name: kind for name, kind in self.lists.items() if known >= set(self.children.lists[name])}

    def _absences(self, checked: Checked, variables: Variables, path: str, begin: int | None) -> None:
        for absence in checked.absences:
            if absence.path[0] in variables.certain and absence.path not in variables.present:
                offset = None if begin is None else begin + absence.at
                self.findings.problem(path, _absent(absence, self.where), offset)


def names_in(node: Expression) -> Iterator[str]:
    """Yield the name of every variable in an expression, including those that macros introduce."""
    if isinstance(node, Identifier):
        yield node.name
    for below in children(node):
        yield from names_in(below)


def _absent(absence: Absence, where: Callable[..., str]) -> str:
    steps = [step for step in absence.path if step != ITEM]
    read, optional = ".".join(steps), f"{'.'.join(steps[:-1])}.?{steps[-1]}"
    default = f", or require it or give it a default in {where(*absence.path[1:])}" if absence.path[0] == "self" else ""
    return f"{read.removeprefix('self.')} may be absent: write {optional}, ask has({read}){default}"


def _with_hint(error: CelSyntaxError, text: str, itself: str) -> CelSyntaxError:
    name, problem = text.strip(), ""
    if itself and error.problem.startswith(f"undeclared reference to {itself!r}"):
        problem = f"{itself} cannot read itself: this is what it is made of. Read self, or another resource"
    elif error.problem.startswith("undeclared reference") and _SHELL.fullmatch(name):
        problem = f"there is no variable {name}; a shell variable? write $${{{name}}}"
    elif (meant := _MEANT.get(error.problem)) is not None:
        problem = f"{error.problem}; did you mean {meant!r}?"
    if not problem:
        return error
    hinted = CelSyntaxError(problem)
    hinted.line, hinted.column = error.line, error.column
    return hinted


def _unwanted(actual: CelType, cel_type: CelType) -> str:
    if actual.name == "optional":
        return f"must give {_article(cel_type)}, and may be without a value: add .orValue(…)"
    hint = ": write string(…)" if cel_type == STRING and actual.name in ("int", "uint", "double", "bool") else ""
    return f"must give {_article(cel_type)}, not {actual}{hint}"


def _article(cel_type: CelType) -> str:
    return "true or false" if cel_type == BOOL else "a list" if cel_type.name == "list" else f"a {cel_type}"


def read_by(expression: BoxExpression, variables: Variables) -> Iterator[tuple[VariablePath, bool]]:
    """Yield the paths that an expression reads, each with True if the expression works although the path is absent.

    `variables` are the variables that the expression may use.
    """
    checked = expression.program.checked
    return iter(()) if checked is None else variables.places_of(checked)


def paths_of(expression: BoxExpression, variables: Variables) -> Iterator[VariablePath]:
    """Yield the paths, such as `self.spec.image`, that an expression of a box reads.

    `variables` are the variables that it may use.
    """
    return (path for path, _ in read_by(expression, variables))


def taints_of(model: OperatorBox, kinds: Mapping[str, KnownKind], names: ChildNames) -> Mapping[str, Taint]:
    """Return the taint of every variable of a box: whether its value may be secret, and who controls it.

    The variables are the parent (object of the box's kind), its children and lists of them, and externals (objects of
    others that the box only reads).
    """
    taints: dict[str, Taint] = {"self": PARENT}
    for resource in _resources(model):
        if resource.id in kinds:
            meta = get_path(resource.template, "metadata", "name")
            is_list = resource.for_each is not None
            taints[resource.id] = child(kinds[resource.id].kind, origin_of(meta), listed=is_list)
    for one in model.spec.externals:
        if one.id in kinds:
            taints[one.id] = _external(kinds[one.id].kind, one.metadata)
    for name, ids in names.lists.items():
        if ids[0] in kinds:
            named = max(
                origin_of(get_path(resource.template, "metadata", "name"))
                for resource in _resources(model)
                if resource.id in ids
            )
            taints[name] = child(kinds[ids[0]].kind, named, listed=True)
    return taints


def _resources(model: OperatorBox) -> Iterator[BoxResource]:
    yield from model.spec.resources
    for phase in model.spec.phases:
        yield from phase.resources
    for last in model.spec.deletion.phases:
        yield from last.resources


def _external(kind: Kind, metadata: Mapping[str, Any]) -> Taint:
    namespace = metadata.get("namespace")
    elsewhere = not kind.namespaced or (namespace is not None and origin_of(namespace, literal=True) is Origin.AUTHOR)
    return external(kind, origin_of(metadata.get("name")), elsewhere=elsewhere)


def origin_of(text: Any, *, literal: bool = False) -> Origin:
    """Return who controls a string in a template.

    These are the box's author, or the users who name or write the parent (object of the box's kind). With `literal`,
    any text that contains an expression counts as chosen by those users.
    """
    if not isinstance(text, str):
        return Origin.CHOSEN
    try:
        trees = [parse(piece.text) for piece in text_parts(text) if piece.is_expression]
    except CelSyntaxError:
        return Origin.CHOSEN
    if literal and trees:
        return Origin.CHOSEN
    return max((_origin(tree) for tree in trees), default=Origin.AUTHOR)


def _origin(tree: Expression) -> Origin:
    """Return who controls the value of the expression `tree`.

    `self` is the parent (object of the box's kind); any other variable counts as chosen by users.
    """
    chosen = dict.fromkeys(names_in(tree), Taint(origin=Origin.CHOSEN))
    return taint_of(tree, {**chosen, "self": PARENT}).whole.origin
