"""Who owns what after any sequence of writes, told without the server's machinery.

Ownership is a set of paths per manager and operation, a path a tuple of names under `spec`; the empty tuple is
`spec` itself. The model knows the five shapes of field that matter: scalars (`str`, `str2`, and `mode` with a
default), a map (`gm`), a set (`set`), a list of named items (`named`) and an atomic list (`al`). Nothing here
is imported from the server.
"""

from collections.abc import Iterator
from typing import Any

SCALARS = ("str", "str2", "mode")
DEFAULT_MODE = "normal"

Path = tuple[str, ...]
Spec = dict[str, Any]
Owner = tuple[str, str]


class Refused(Exception):
    """The write would take fields that others hold; `paths` are those fields."""

    def __init__(self, paths: set[Path]) -> None:
        super().__init__(paths)
        self.paths = paths


def leaves(spec: Spec) -> dict[Path, Any]:
    """Every path that holds a value of its own."""
    out: dict[Path, Any] = {(key,): spec[key] for key in (*SCALARS, "al") if key in spec}
    out |= {("gm", key): value for key, value in spec.get("gm", {}).items()}
    out |= {("set", item): True for item in spec.get("set", ())}
    for item in spec.get("named", ()):
        out |= {("named", item["name"], key): value for key, value in item.items()}
    return out


def items(spec: Spec) -> set[Path]:
    """The list items, as wholes."""
    return {("named", item["name"]) for item in spec.get("named", ())}


def containers(spec: Spec) -> set[Path]:
    """The structs that are there: `spec` and its maps and lists."""
    return {(), *((key,) for key in ("gm", "set", "named") if key in spec)}


def everything(spec: Spec) -> set[Path]:
    return set(leaves(spec)) | items(spec) | containers(spec)


def below(path: Path, paths: set[Path]) -> set[Path]:
    return {one for one in paths if one[: len(path)] == path}


def build(values: dict[Path, Any], present: set[Path]) -> Spec:
    """The spec that holds exactly these leaves, items and containers."""
    spec: Spec = {key: values[key,] for key in (*SCALARS, "al") if (key,) in values}
    for key, empty in (("gm", {}), ("set", []), ("named", [])):
        if (key,) in present:
            spec[key] = empty
    for path in sorted(present):
        if len(path) == 2 and path[0] == "named":
            spec["named"].append({p[2]: v for p, v in values.items() if p[:2] == path})
    for path, value in values.items():
        if path[0] == "gm":
            spec["gm"][path[1]] = value
        elif path[0] == "set":
            spec["set"].append(path[1])
    return spec


class Model:
    """The object's spec (None: it has none) and who owns which of its paths."""

    def __init__(self) -> None:
        self.exists = False
        self.spec: Spec | None = None
        self.owners: dict[Owner, set[Path]] = {}

    def apply(self, manager: str, config: Spec, force: bool) -> None:
        me = (manager, "Apply")
        before, owners = self._paths(), self._before_apply()
        live, wanted = leaves(self.spec or {}), leaves(config)
        clashes = {
            (owner, path)
            for owner, paths in owners.items()
            if owner != me
            for path, value in wanted.items()
            if path in paths and path in live and live[path] != value
        }
        if clashes and not force:
            raise Refused({path for _, path in clashes})
        last = owners.get(me, set())
        owners[me] = set(wanted) | items(config) or {()}
        present = before | everything(config)
        gone = dropped(last, set().union(*owners.values()), present)
        values = {path: value for path, value in {**live, **wanted}.items() if path not in gone}
        present -= gone
        self.spec = {"mode": DEFAULT_MODE, **build(values, present)} if () in present else None
        for owner, path in clashes:
            owners[owner].discard(path)
        self._release(owners, before - present, me)

    def update(self, manager: str, target: Spec) -> None:
        me = (manager, "Update")
        target = {"mode": DEFAULT_MODE, **target}
        tracked = not self.exists or bool(self.owners)
        old, new = self._paths(), everything(target)
        before, after = leaves(self.spec or {}), leaves(target)
        changed = (new - old) | {path for path in after if path in before and after[path] != before[path]}
        owners = {owner: paths - changed for owner, paths in self.owners.items()}
        if tracked and changed:
            owners[me] = self.owners.get(me, set()) | changed
        self.spec = target
        self._release(owners, old - new, None)

    def _paths(self) -> set[Path]:
        return set() if self.spec is None else everything(self.spec)

    def _before_apply(self) -> dict[Owner, set[Path]]:
        if self.exists and not self.owners and self.spec is not None:
            return {("before-first-apply", "Update"): everything(self.spec)}
        return {owner: set(paths) for owner, paths in self.owners.items()}

    def _release(self, owners: dict[Owner, set[Path]], removed: set[Path], applier: Owner | None) -> None:
        """What is no longer there belongs to nobody, but an applier keeps its word."""
        self.exists = True
        left = {owner: paths if owner == applier else paths - removed for owner, paths in owners.items()}
        self.owners = {owner: paths for owner, paths in left.items() if paths}


def dropped(last: set[Path], owned: set[Path], present: set[Path]) -> set[Path]:
    """What an applier that owned `last` takes away with it, `owned` being what anybody owns from now on.

    A path of its own goes, and so does every struct that led to one, unless something owned is left at it or
    below it once all that nobody owns is thought away. An item counts as left only when it is owned as a whole.
    """
    if not last:
        return set()
    structs = {path for path in present if is_struct(path)}
    held = {path for path in structs if below(path, owned)}
    left = {path for path in present - structs if path in owned and (not of_item(path) or path[:2] in owned)}
    if ("gm",) in held and not below(("gm",), left):
        left.add(("gm",))
    if () in held and not left and held == {()}:
        left.add(())
    mine = last | {path[:depth] for path in last for depth in range(len(path)) if is_struct(path[:depth])}
    lost = {path for path in mine if not (below(path, left) if is_struct(path) else path in left)}
    return {path for one in lost for path in below(one, present)}


def is_struct(path: Path) -> bool:
    return path == () or path in (("gm",), ("set",), ("named",))


def of_item(path: Path) -> bool:
    """Whether a path leads into a list item."""
    return len(path) == 3 and path[0] == "named"


def flat(fields: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of a fieldsV1 tree below `f:spec`, in the model's words."""
    for key, node in fields.items():
        if key == ".":
            yield path
            continue
        here = (*path, _name(key))
        if not node:
            yield here
        else:
            yield from flat(node, here)


def _name(key: str) -> str:
    kind, _, rest = key.partition(":")
    if kind == "k":
        return rest.removeprefix('{"name":"').removesuffix('"}')
    return rest.strip('"') if kind == "v" else rest
