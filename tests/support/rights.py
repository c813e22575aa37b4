"""Rights on an API server: those that printed manifests grant, and those that an audit log shows in use (RUN-7)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import yaml

from purekube_kit.kube_apiserver import OPERATOR_USER
from tests.support.audited_story import Request
from tests.support.commands import run
from tests.support.e2e_world import OWN_NS

EVERYWHERE = "*"


@attrs.frozen(order=True)
class Right:
    """A verb on a resource, in a namespace or everywhere."""

    where: str
    group: str
    resource: str
    verb: str

    def covers(self, other: "Right") -> bool:
        """Whether who has this right has the other too."""
        return self.where in (EVERYWHERE, other.where) and attrs.evolve(self, where=other.where) == other


# --- what is granted: from the printed manifests ---------------------------------------------------------------------


def printed(*words: str) -> list[dict[str, Any]]:
    ended = run("manifests", *words)
    assert ended.status == 0, ended.err
    return list(yaml.safe_load_all(ended.out))


def granted(manifests: Iterable[dict[str, Any]]) -> Iterator[Right]:
    """Every right that the roles bound to the operator's service account hold."""
    manifests = list(manifests)
    bound = {
        (manifest["roleRef"]["kind"], manifest["roleRef"]["name"], manifest["metadata"].get("namespace"))
        for manifest in manifests
        if manifest["kind"] in ("RoleBinding", "ClusterRoleBinding")
        if manifest["subjects"]
        == [{"kind": "ServiceAccount", "name": OPERATOR_USER.split(":")[3], "namespace": OWN_NS}]
    }
    for role in manifests:
        meta = role["metadata"]
        if (role["kind"], meta["name"], meta.get("namespace")) not in bound:
            continue
        for rule in role["rules"]:
            assert set(rule) - {"resourceNames"} == {"apiGroups", "resources", "verbs"}
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        assert "*" not in (group, resource, verb)
                        yield Right(meta.get("namespace", EVERYWHERE), group, resource, verb)


# --- what is used: from the audit log --------------------------------------------------------------------------------

PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/?]+)(?:/(?P<name>[^/?]+)(?:/(?P<below>[^/?]+))?)?"
)


def used(entries: Iterable[Request]) -> Iterator[Right]:
    """Every right that the operator's requests needed; server-side apply of what is not there needs two."""
    for entry in entries:
        match = PATH.match(entry.path)
        if entry.user != OPERATOR_USER or match is None:
            continue
        if entry.impersonated:
            yield Right(entry.impersonated.split(":")[2], "", "serviceaccounts", "impersonate")
            continue
        resource = f"{match['plural']}/{match['below']}" if match["below"] else match["plural"]
        right = Right(match["namespace"] or EVERYWHERE, match["group"] or "", resource, entry.verb)
        yield right
        if entry.verb == "patch" and entry.status == 201:
            yield attrs.evolve(right, verb="create")


def unused(rights: Iterable[Right], needed: Iterable[Right]) -> set[Right]:
    """Rights without which everything would have gone the same way; a wider right makes a narrower one needless."""
    rights, needed = set(rights), set(needed)
    wide = {right for right in rights if right.where == EVERYWHERE}
    kept = {right for right in wide if any(right.covers(one) for one in needed)}
    uncovered = [one for one in needed if not any(right.covers(one) for right in wide)]
    kept |= {right for right in rights - wide if right in uncovered}
    return rights - kept
