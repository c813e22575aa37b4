"""Who owns what after any sequence of writes, told without the server's machinery.

Ownership is a set of paths per manager and operation, a path a tuple of names under `spec`; the empty tuple is
`spec` itself. The model knows five shapes of field: scalars, maps of scalars, sets, lists of named items and
atomic values; which field has which is told by `Shapes`. Nothing here is imported from the server.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs

Path: TypeAlias = tuple[str, ...]
Spec: TypeAlias = dict[str, Any]
Owner: TypeAlias = tuple[str, str]


class Refused(Exception):
    """The write would take fields that others hold; `paths` are those fields."""

    def __init__(self, paths: set[Path]) -> None:
        super().__init__(paths)
        self.paths = paths


class Emptied(Exception):
    """The write would leave null where a map or list loses its last member; `paths` are those fields (S-42)."""

    def __init__(self, paths: set[Path]) -> None:
        super().__init__(paths)
        self.paths = paths


@attrs.frozen
class Shapes:
    """Which fields a spec may have. `defaults` are those of scalars, `item_defaults` those of items by list."""

    whole: tuple[str, ...]
    """Fields that are owned as one: scalars and atomic lists and maps."""
    maps: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    """Lists of items with the key `name`."""
    defaults: Mapping[str, Any] = attrs.field(factory=dict)
    item_defaults: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)

    @property
    def structs(self) -> tuple[str, ...]:
        return (*self.maps, *self.sets, *self.named)

    def knows(self, spec: Spec) -> bool:
        """Whether the model can tell anything about this spec: its fields, and no empty map or list."""
        return all(key in self.whole or (key in self.structs and value) for key, value in spec.items())

    def leaves(self, spec: Spec) -> dict[Path, Any]:
        """Every path that holds a value of its own."""
        out: dict[Path, Any] = {(key,): spec[key] for key in self.whole if key in spec}
        for key in self.maps:
            out |= {(key, name): value for name, value in spec.get(key, {}).items()}
        for key in self.sets:
            out |= {(key, item): True for item in spec.get(key, ())}
        for key in self.named:
            for item in spec.get(key, ()):
                out |= {(key, item["name"], name): value for name, value in item.items()}
        return out

    def items(self, spec: Spec) -> set[Path]:
        """The list items, as wholes."""
        return {(key, item["name"]) for key in self.named for item in spec.get(key, ())}

    def everything(self, spec: Spec) -> set[Path]:
        containers = {(), *((key,) for key in self.structs if key in spec)}
        return set(self.leaves(spec)) | self.items(spec) | containers

    def defaulted(self, spec: Spec) -> Spec:
        """The spec as it is stored."""
        out = {**self.defaults, **spec}
        for key, defaults in self.item_defaults.items():
            if key in out:
                out[key] = [{**defaults, **item} for item in out[key]]
        return out

    def build(self, values: dict[Path, Any], present: set[Path]) -> Spec:
        """The spec that holds exactly these leaves, items and containers."""
        spec: Spec = {key: values[key,] for key in self.whole if (key,) in values}
        spec |= {key: {} if key in self.maps else [] for key in self.structs if (key,) in present}
        for path in sorted(present):
            if self.is_item(path):
                spec[path[0]].append({p[2]: v for p, v in values.items() if p[:2] == path})
        for path, value in values.items():
            if path[0] in self.maps:
                spec[path[0]][path[1]] = value
            elif path[0] in self.sets:
                spec[path[0]].append(path[1])
        return spec

    def is_struct(self, path: Path) -> bool:
        return path == () or (len(path) == 1 and path[0] in self.structs)

    def is_item(self, path: Path) -> bool:
        return len(path) == 2 and path[0] in self.named

    def in_item(self, path: Path) -> bool:
        return len(path) == 3 and path[0] in self.named


def below(path: Path, paths: set[Path]) -> set[Path]:
    return {one for one in paths if one[: len(path)] == path}


class Model:
    """The object's spec (None: it has none) and who owns which of its paths."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self.delete()

    def delete(self) -> None:
        """Nothing remains, owners neither."""
        self.exists = False
        self.spec: Spec | None = None
        self.owners: dict[Owner, set[Path]] = {}

    def apply(self, manager: str, config: Spec, force: bool) -> None:
        me = (manager, "Apply")
        before, owners = self._paths(), self._before_apply()
        live, desired = self.shapes.leaves(self.spec or {}), self.shapes.leaves(config)
        clashes = {
            (owner, path)
            for owner, paths in owners.items()
            if owner != me
            for path, value in desired.items()
            if path in paths and path in live and live[path] != value
        }
        if clashes and not force:
            raise Refused({path for _, path in clashes})
        last = owners.get(me, set())
        owners[me] = set(desired) | self.shapes.items(config) or {()}
        present = before | self.shapes.everything(config)
        gone = self._dropped(last, set().union(*owners.values()), present)
        values = {path: value for path, value in {**live, **desired}.items() if path not in gone}
        present -= gone
        if emptied := self._emptied(set().union(*owners.values()), present, gone):
            raise Emptied(emptied)
        self.spec = self.shapes.defaulted(self.shapes.build(values, present)) if () in present else None
        for owner, path in clashes:
            owners[owner].discard(path)
        self._release(owners, before - present, me)

    def update(self, manager: str, target: Spec) -> None:
        me = (manager, "Update")
        target = self.shapes.defaulted(target)
        tracked = not self.exists or bool(self.owners)
        old, new = self._paths(), self.shapes.everything(target)
        before, after = self.shapes.leaves(self.spec or {}), self.shapes.leaves(target)
        changed = (new - old) | {path for path in after if path in before and after[path] != before[path]}
        owners = {owner: paths - changed for owner, paths in self.owners.items()}
        if tracked and changed:
            owners[me] = self.owners.get(me, set()) | changed
        self.spec = target
        self._release(owners, old - new, None)

    def _paths(self) -> set[Path]:
        return set() if self.spec is None else self.shapes.everything(self.spec)

    def _before_apply(self) -> dict[Owner, set[Path]]:
        if self.exists and not self.owners and self.spec is not None:
            return {("before-first-apply", "Update"): self.shapes.everything(self.spec)}
        return {owner: set(paths) for owner, paths in self.owners.items()}

    def _release(self, owners: dict[Owner, set[Path]], removed: set[Path], applier: Owner | None) -> None:
        """What is no longer there belongs to nobody, but an applier keeps its word."""
        self.exists = True
        left = {owner: paths if owner == applier else paths - removed for owner, paths in owners.items()}
        self.owners = {owner: paths for owner, paths in left.items() if paths}

    def _dropped(self, last: set[Path], owned: set[Path], present: set[Path]) -> set[Path]:
        """What an applier that owned `last` takes away with it, `owned` being what anybody owns from now on.

        A path of its own goes, and so does every struct that led to one, unless something owned is left at it or
        below it once all that nobody owns is thought away. An item counts as left only when it is owned as a whole.
        """
        if not last:
            return set()
        shapes = self.shapes
        structs = {path for path in present if shapes.is_struct(path)}
        held = {path for path in structs if below(path, owned)}
        left = {path for path in present - structs if path in owned and (not shapes.in_item(path) or path[:2] in owned)}
        left |= {(key,) for key in shapes.maps if (key,) in held and not below((key,), left)}
        if () in held and not left and held == {()}:
            left.add(())
        mine = last | {path[:depth] for path in last for depth in range(len(path)) if shapes.is_struct(path[:depth])}
        lost = {path for path in mine if not (below(path, left) if shapes.is_struct(path) else path in left)}
        return {path for one in lost for path in below(one, present)}

    def _emptied(self, owned: set[Path], present: set[Path], gone: set[Path]) -> set[Path]:
        """Return the maps and lists at or below which something is owned, though their last member goes."""
        structs = {path for path in present | gone if self.shapes.is_struct(path) and below(path, owned)}
        found = {path for path in structs if below(path, gone) - {path} and not below(path, present) - structs}
        return found - {()} or found


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


def owners_of(managed_fields: list[dict[str, Any]]) -> dict[Owner, set[Path]]:
    """Who owns what below `spec`, in the model's words."""
    return {
        (entry["manager"], entry["operation"]): (set(flat(fields)) if (fields := entry["fieldsV1"]["f:spec"]) else {()})
        for entry in managed_fields
    }


def told(path: Path, shapes: Shapes) -> str:
    """A path as a conflict names it."""
    if shapes.in_item(path):
        return f'.spec.{path[0]}[name="{path[1]}"].{path[2]}'
    return ".".join((".spec", *path))


def normal(spec: Any, shapes: Shapes) -> Any:
    """A spec whose sets and named lists are compared without order."""
    if spec is None:
        return None
    out = dict(spec)
    out |= {key: sorted(out[key]) for key in shapes.sets if key in out}
    out |= {key: sorted(out[key], key=lambda item: str(item["name"])) for key in shapes.named if key in out}
    return out


def _name(key: str) -> str:
    kind, _, rest = key.partition(":")
    if kind == "k":
        return rest.removeprefix('{"name":"').removesuffix('"}')
    return rest.strip('"') if kind == "v" else rest
