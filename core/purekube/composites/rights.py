"""The rights of a composite's controller by kind and namespace, and the command that grants them (RUN-7, REC-13).

A composite is the description of a kind whose objects (parents) have children, which the controller creates.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from purekube.apimachinery import resources as known
from purekube.apimachinery.conditions import STALLED, DesiredCondition
from purekube.apimachinery.errors import Right, refused_right
from purekube.apimachinery.manifest import Kind
from purekube.apimachinery.meta import ConditionStatus
from purekube.apimachinery.resources import SERVICE_ACCOUNT_USERS, Access
from purekube.composites.composite import Composite
from purekube.composites.parent import Parent, kinds_annotation

FOLLOWED: Final = ("list", "watch")
"""The verbs that an informer needs on a kind."""
LEASE: Final = (Access(known.LEASE, ("get", "create", "update")),)
FORMER: Final = ("list", "patch", "delete")
"""The verbs for pruning objects of a kind that the composite's definition no longer names.

`patch` is for objects that must be kept: they are orphaned instead of deleted.
"""
_MADE: Final = ("get", "create", "patch", "delete")


@attrs.frozen
class CompositeAccess:
    """The rights that a controller of parents and children needs, by the place where it needs them.

    `everywhere` are rights that a ClusterRole grants. `tenant` are rights that the controller needs in the namespaces
    with its objects: a Role in each namespace grants them, or the ClusterRole. A process that watches only some
    namespaces needs `tenant` only in these. `own` are rights in the namespace of the process, for leader election.
    """

    everywhere: tuple[Access, ...]
    tenant: tuple[Access, ...] = ()
    own: tuple[Access, ...] = LEASE


def parent_rights(composite: Composite, *, near: bool) -> Iterator[Access]:
    """Yield the rights on parents (objects of the composite's kind). If no ServiceAccounts act for the parents, yield
    the rights on children (`child_rights`) too.

    With `near`, yield only the rights needed in the parents' namespaces; without it, only the rights needed elsewhere.
    The rights on namespaced parents are all needed in their namespaces.
    """
    if composite.kind.namespaced is near:
        yield Access(composite.kind, ("get", *FOLLOWED, "patch"))
        yield Access(composite.kind, ("patch",), "status")
    if not composite.impersonates:
        yield from child_rights(composite, near=near)


def child_rights(composite: Composite, *, near: bool) -> Iterator[Access]:
    """Yield the rights to watch or read children and externals (objects that are only read). The controller needs them,
    or the parent's ServiceAccount if one acts for the parent.

    With `near`, yield only the rights needed in the parents' namespaces; without it, only the rights needed elsewhere.
    """
    for kind in composite.child_kinds:
        if composite.is_near(kind) is near:
            yield Access(kind, FOLLOWED)
    for external in composite.externals:
        if composite.is_read_near(external) is near:
            yield Access(external.kind, FOLLOWED if external.watch else ("get",))


def shared_access(composites: Iterable[Composite]) -> Iterator[Access]:
    """Yield the rights that the controllers need in addition to the rights on parents and children: on CRDs, on Events,
    and on Namespaces if one of the composites needs them.
    """
    yield Access(known.CUSTOM_RESOURCE_DEFINITION, FOLLOWED)
    yield Access(known.EVENT, ("create", "patch"))
    if any(composite.namespaces or composite.asks_namespaces for composite in composites):
        yield Access(known.NAMESPACE, FOLLOWED)


def composite_access(composite: Composite) -> CompositeAccess:
    """Return the rights of the composite's controller, by the place where they are needed.

    A composite is the description of a kind whose objects, the parents, have children. The rights are those on parents,
    on CRDs and Events, on Namespaces if needed, and those to create, patch and delete children.
    """
    made = {kind: Access(kind, _MADE) for kind in composite.child_kinds}
    wide = [made[kind] for kind in made if not composite.is_near(kind)]
    near = [made[kind] for kind in made if composite.is_near(kind)]
    everywhere = (*shared_access((composite,)), *parent_rights(composite, near=False), *wide)
    return CompositeAccess(everywhere, (*near, *parent_rights(composite, near=True)))


def owner_access(composites: Iterable[Composite]) -> Iterator[Access]:
    """Yield the RBAC rights that are needed to set `blockOwnerDeletion` in owner references. Clusters check these
    rights if the admission plugin OwnerReferencesPermissionEnforcement is enabled.
    """
    return (Access(composite.kind, ("update",), "finalizers") for composite in composites if composite.references)


HIDDEN: Final = "Forbidden"
"""The reason of a parent's condition Stalled while the operator may not list a former kind of its children.

Only an earlier definition of the composite (the parent kind) used the former kind.
"""
_SYSTEM_NAMESPACE: Final = "vworkspace-system"


def not_permitted(composite: Composite, right: Right) -> str:
    """Return the message that the composite's controller, or the ServiceAccount that acts for a parent, lacks `right`.

    It ends with the command that grants the right.
    """
    who = right.user.removeprefix(SERVICE_ACCOUNT_USERS).replace(":", "/")
    subject = f"ServiceAccount {who}" if is_of_account(composite, right) else f"the {composite.title}"
    return f"{subject} may not {right}. To fix: {remedy(composite, right)}"


def is_of_account(composite: Composite, right: Right) -> bool:
    """Report whether the missing right is needed by the parent's ServiceAccount, not by the operator.

    This is so for rights on children and externals (objects that are only read).
    """
    kinds = (*composite.child_kinds, *(external.kind for external in composite.externals))
    named = {(kind.group, kind.plural) for kind in kinds}
    return composite.impersonates and (right.group, right.resource) in named


def remedy(composite: Composite, right: Right, former: Iterable[Kind] = ()) -> str:
    """Return the shell command that grants the missing right `right`, by printing a role and applying it.

    The role is that of the composite's controller, or of the parent's ServiceAccount if that lacks the right. It also
    covers the kinds in `former`, which only an earlier definition used.
    """
    of_former = "".join(f" --former {shlex.quote(kinds_annotation((kind,)))}" for kind in former)
    if is_of_account(composite, right) or (composite.impersonates and of_former):
        namespace, _, name = right.user.removeprefix(SERVICE_ACCOUNT_USERS).partition(":")
        return role_applied(f"{composite.role_command}{of_former} --for-account {namespace}/{name}", right)
    default = f"vworkspace-{composite.word}-{composite.name}"
    return role_applied(f"{composite.role_command}{of_former}", right, default)


def role_applied(command: str, right: Right, default_account: str = "") -> str:
    """Return a shell command that grants the missing right `right`: it pipes the role that `command` prints to kubectl.

    `default_account` is the ServiceAccount for which `command` prints the role by default. For another account, an
    option is added, unless `default_account` is empty.
    """
    where = f" --namespace {right.namespace}" if right.namespace else ""
    return f"{command}{where}{_account(right.user, default_account)} | kubectl apply --server-side -f -"


def _account(user: str, default: str) -> str:
    """Return the command's options that name the ServiceAccount `user`; "" if that is the command's default."""
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT_USERS).partition(":")
    if not user.startswith(SERVICE_ACCOUNT_USERS) or not default:
        return ""
    place = f" --system-namespace {namespace}" if namespace != _SYSTEM_NAMESPACE else ""
    return place + (f" --service-account {name}" if name != default else "")


def with_remedies(
    composite: Composite, parent: Parent, hidden: Mapping[Kind, Right], desired: Iterable[DesiredCondition]
) -> Iterator[DesiredCondition]:
    """Yield the parent's conditions `desired`, with a command added to each message about a missing right: the command
    grants that right.

    Objects of the kinds in `hidden` cannot be pruned, because the operator may not list these kinds. As long as there
    are such kinds, Stalled is True; Ready is not changed, since all desired objects may be ready.
    """
    former = tuple(kind for kind in composite.recorded_kinds(parent) if kind not in composite.child_kinds)
    for condition in desired:
        right = refused_right(condition.message)
        if right is not None and right.verb == "impersonate":
            right = attrs.evolve(right, namespace=parent.namespace or "")
        if right is not None:
            of = [kind for kind in former if (kind.group, kind.plural) == (right.group, right.resource)]
            yield attrs.evolve(condition, message=f"{condition.message}. To fix: {remedy(composite, right, of)}")
        elif hidden and condition.type == STALLED and condition.status is ConditionStatus.FALSE:
            yield DesiredCondition(STALLED, ConditionStatus.TRUE, HIDDEN, hidden_message(composite, hidden))
        else:
            yield condition


def hidden_message(composite: Composite, hidden: Mapping[Kind, Right]) -> str:
    """Return the message that the operator may not list kinds of an earlier definition, and so cannot prune their
    objects.

    It ends with the command that permits listing. `hidden` maps each kind to the missing right.
    """
    kinds = sorted(hidden)
    named = ", ".join(kind.kind for kind in kinds)
    rights = "; ".join(f"may not {hidden[kind]}" for kind in kinds)
    command = remedy(composite, hidden[kinds[0]], kinds)
    return (
        f"{composite.title} does not make {named} any more and cannot prune what it made: it {rights}. "
        f"To fix: {command}"
    )
