"""The loading of controllers by name: the name of an installed package's entry point, or `module:attribute` (PH-7).

A package declares an entry point in its pyproject.toml, below `[project.entry-points."vworkspace.controllers"]`, as
`shops = "shops:shop"`. A name refers to a reconciler or watcher (a controller that is notified of changes and writes no
status), a class or function that returns one, or a list of these.
"""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from inspect import isfunction
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final, cast

import attrs

from purekube.apimachinery.manifest import Kind
from purekube.composites.composite import Composite, status_writer
from purekube.composites.status_writers import StatusWriter, shared_statuses
from purekube.ports import KubeApi, KubeTransport
from purekube.reconcilers import Controller, PureReconciler, Resource
from purekube.reconcilers.controllers import AnyController, name_of, resource_of, status_writer_of
from purekube.reconcilers.decide_pure import composite_of
from purekube.reconcilers.pure import AnyPureReconciler
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.reconcilers.controllers import GivenController, bind, refuse_problems

GROUP: Final = "vworkspace.controllers"
"""The group of the entry points by which packages offer controllers."""


@attrs.frozen
class LoadedControllers:
    """The controllers that were loaded by name, in two groups.

    `pure` are pure reconcilers, each of which computes the children of an object by a pure function. `given` are
    controllers that call the API themselves: instances, classes, or factory functions. `made` has an instance for each
    of `given`; these instances have no API, and only serve to be inspected.
    """

    pure: tuple[AnyPureReconciler, ...] = ()
    given: tuple[GivenController, ...] = ()
    made: tuple[AnyController, ...] = ()

    @property
    def composites(self) -> tuple[Composite, ...]:
        """The pure reconcilers, as composites (kinds whose objects have children) to run."""
        return tuple(map(composite_of, self.pure))

    @property
    def writers(self) -> tuple[StatusWriter, ...]:
        """The status writers (a kind, and a title for messages) of the controllers in `made` that write a status."""
        return tuple(writer for one in self.made if (writer := status_writer_of(one)) is not None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all controllers."""
        return (*(pure_reconciler.name for pure_reconciler in self.pure), *map(name_of, self.made))

    @property
    def resources(self) -> tuple[Resource[Any, Any], ...]:
        """The kinds that the controllers define as Python classes, each once."""
        return tuple(self.kinds)

    @property
    def kinds(self) -> Mapping[Resource[Any, Any], str]:
        """The kinds that the controllers define as Python classes, each mapped to the name of its first controller."""
        found = [(pure_reconciler.kind, pure_reconciler.name) for pure_reconciler in self.pure]
        found += [(one, name_of(made)) for made in self.made if (one := resource_of(made))]
        by_kind: dict[Kind, tuple[Resource[Any, Any], str]] = {}
        for resource, name in found:
            by_kind.setdefault(resource.kind, (resource, name))
        return dict(by_kind.values())


def installed() -> tuple[EntryPoint, ...]:
    """Return the entry points by which installed packages offer controllers, sorted by name."""
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry_point: (entry_point.name, entry_point.value)))


def load_controllers(names: Sequence[str]) -> LoadedControllers:
    """Return the controllers to which the names refer, after importing them.

    A name is `module:attribute` or that of an installed entry point. Its value may be one controller or several.

    Raises CommandError for a name that is not found, cannot be imported or is not a controller, and if the controllers
    cannot run together.
    """
    found = [controller for name in names for controller in _find_controllers(name)]
    pure = tuple(controller for controller in found if isinstance(controller, PureReconciler))
    given = tuple(controller for controller in found if not isinstance(controller, PureReconciler))
    made = tuple(bind(controller, KubeApi(cast("KubeTransport", None))) for controller in given)
    refuse_problems(made)
    loaded = LoadedControllers(pure, given, made)
    writers = (*map(status_writer, loaded.composites), *loaded.writers)
    if told := [*_clashes(pure, made), *shared_statuses(writers)]:
        raise CommandError("\n".join(told), status=USAGE)
    return loaded


def controllers_in(name: str) -> tuple[str, ...]:
    """Return the names (`module:attribute`) of all controllers in the module `name`.

    If `name` is an installed entry point or already `module:attribute`, return only `name`. A class is left out if the
    module has an instance of the class. Raises CommandError if the module cannot be imported or has no controller.
    """
    if ":" in name or any(entry.name == name for entry in installed()):
        return (name,)
    module = _imported(name, name)
    own = {attribute: value for attribute, value in vars(module).items() if _is_own(module, value)}
    made = {type(value) for value in own.values()}
    names = tuple(f"{name}:{attribute}" for attribute, value in own.items() if value not in made)
    if not names:
        raise CommandError(f"controller {name}: the module {name} has no controller", status=USAGE)
    return names


def _find_controllers(name: str) -> Iterator[Any]:
    if ":" in name:
        yield from _controllers(name, _attribute(name, name))
        return
    entry = _entry(name)
    where = f"{name} ({entry.value})"
    yield from _controllers(where, _attribute(where, entry.value))


def _entry(name: str) -> EntryPoint:
    offered = installed()
    alike = {(one.value, _package(one)): one for one in offered if one.name == name}
    if len(alike) > 1:
        told = " and ".join(f"{value} of {package}" for value, package in sorted(alike))
        raise CommandError(f"{name} is offered twice: {told}; give one of them as module:attribute", status=USAGE)
    if not alike:
        raise CommandError(_unknown(name, [one.name for one in offered]), status=USAGE)
    return next(iter(alike.values()))


def _unknown(name: str, offered: Sequence[str]) -> str:
    near = get_close_matches(name, offered, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    there = f"installed are {', '.join(dict.fromkeys(offered))}" if offered else "no installed package offers any"
    return f"there is no controller {name}{hint}: {there}; in development give module:attribute"


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown package"


def _attribute(name: str, value: str) -> Any:
    """Return the object that `value` (`module:attribute`) refers to, after importing its module.

    Modules are also found in the working directory. `name` is the name that the user gave, for messages.
    """
    module, _, path = value.partition(":")
    found = _imported(name, module)
    for step in path.split("."):
        if not hasattr(found, step):
            raise CommandError(
                f"controller {name}: {module} has no {path or 'attribute'}{_offers(found)}", status=USAGE
            )
        found = getattr(found, step)
    return found


def _imported(name: str, module: str) -> Any:
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise CommandError(f"controller {name}: {module} cannot be imported: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return the exception as one line of text, with the file and line that raised it."""
    *_, (step, line) = walk_tb(error.__traceback__)
    file = step.f_code.co_filename
    place = f" ({file}, line {line})" if "importlib" not in file else ""
    return f"{type(error).__name__}: {error}{place}"


def _offers(module: Any) -> str:
    names = [name for name, value in vars(module).items() if _is_own(module, value)]
    return f"; it has {', '.join(names)}" if names else "; it has no controller"


def _is_own(module: Any, value: Any) -> bool:
    """Report whether `value` is a controller that the module defines itself and does not import from another module."""
    home = value.function if isinstance(value, PureReconciler) else value if isinstance(value, type) else type(value)
    return _is_controller(value) and home.__module__ == module.__name__


def _is_controller(value: Any) -> bool:
    if isinstance(value, type):
        return issubclass(value, Controller) and not getattr(value, "__abstractmethods__", ())
    return isinstance(value, PureReconciler | Controller)


def _controllers(where: str, value: Any) -> Iterator[Any]:
    for one in value if isinstance(value, list | tuple) else (value,):
        if not _is_controller(one) and not (isfunction(one) and _makes_one(one)):
            raise CommandError(f"controller {where}: {_wrong(one)}", status=USAGE)
        yield one


def _makes_one(function: Any) -> bool:
    """Report whether a function is a factory of controllers: it has at most one parameter, the API.

    A pure reconciler without its decorator has two parameters: the object and its children.
    """
    return bool(function.__code__.co_argcount <= 1)


def _wrong(value: Any) -> str:
    if isfunction(value):
        return f"{value.__name__} is a function: write @pure_reconciler(…) above it, or take the API alone, or nothing"
    kind = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    return f"{kind} is no Reconciler, Watcher or pure reconciler"


def _clashes(pure: Sequence[AnyPureReconciler], made: Sequence[AnyController]) -> Iterator[str]:
    """Yield a message for each name that two controllers have.

    They would share a finalizer, so they cannot run together.
    """
    names: dict[str, str] = {}
    told = [(pure_reconciler.name, f"the function {pure_reconciler.function.__name__}") for pure_reconciler in pure]
    told += [(name_of(controller), type(controller).__name__) for controller in made]
    for name, where in told:
        if (other := names.setdefault(name, where)) != where or [one[0] for one in told].count(name) > 1:
            yield f"two controllers are called {name}, {where} and {other}: give one of them another name"
            return
