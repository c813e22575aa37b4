"""The API server's address and our credentials, with checks for what lightkube does not handle.

Every problem is raised as a `Permanent` with advice. lightkube does not handle a context without a user, a relative
`tokenFile` or plugin, `KUBECONFIG` with several files, exec credentials `v1` and missing parts of a kubeconfig. For it
an unusable entry of another context is an error. It silently ignores the fields for proxy, server name and
impersonation. This module handles or refuses each of these.
"""

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import msgspec
import yaml
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import Cluster, Context, NameValue, User, UserExec
from lightkube.core import exceptions

from purekube.apimachinery.errors import Permanent
from purekube_http.authorization import sendable

_CLUSTER_FIELDS = frozenset({"proxy-url", "tls-server-name"})
_USER_FIELDS = frozenset({"as", "as-groups", "as-uid", "as-user-extra"})
_ADVICE = "give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster with a service account"
_EXEC_V1 = "client.authentication.k8s.io/v1"
_EXEC_V1BETA1 = "client.authentication.k8s.io/v1beta1"
_EXEC_VERSIONS = (_EXEC_V1, _EXEC_V1BETA1, "client.authentication.k8s.io/v1alpha1")
_PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
"""The fields of a cluster or a user that are paths. Relative ones start at the folder of their kubeconfig."""


class _Plugin(UserExec, omit_defaults=True):
    """A credential plugin with a field that lightkube ignores: whether the plugin wants to know the cluster."""

    provideClusterInfo: bool = False


class _User(User, omit_defaults=True):
    """A user of a kubeconfig, with the plugin as it is read here."""

    exec: _Plugin | None = None


def load_config(
    kubeconfig: str | Path | None = None, context: str | None = None, *, service_account: str | Path = SERVICE_ACCOUNT
) -> SingleConfig:
    """Return the configuration of one cluster.

    The configuration is read from `kubeconfig` if given. Otherwise it is read from the first of these that exists: the
    files that `KUBECONFIG` names, the pod's `service_account` folder, `~/.kube/config`. This is the order of
    controller-runtime. `context` selects a context; the default is the current one. Raises Permanent with the file's
    name, the problem and advice.
    """
    paths = _paths(kubeconfig, Path(service_account))
    origin = os.pathsep.join(map(str, paths)) or "the service account"
    try:
        if paths:
            chosen = _chosen(_documents(paths), context)
            return chosen._replace(user=_usable_user(chosen, origin))
        found = KubeConfig.from_service_account(service_account).get(context)
    except exceptions.ConfigError as error:
        raise Permanent(f"no usable cluster configuration: {error}; {_ADVICE}") from error
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError, yaml.YAMLError, UnicodeError) as error:
        raise Permanent(f"kubeconfig {origin} is not complete: {_problem(error)}; {_ADVICE}") from error
    except OSError as error:
        raise Permanent(f"kubeconfig {origin} cannot be read: {error.strerror}; {_ADVICE}") from error
    assert found is not None  # `get` returns None only for a default, which is not passed
    return found


def with_token(config: SingleConfig, token: str) -> SingleConfig:
    """Return the configuration of the same cluster with `token` as the only credential."""
    return config._replace(user=User(token=token))


def _paths(kubeconfig: str | Path | None, service_account: Path) -> list[Path]:
    """Return the paths of the kubeconfigs to read; none if the configuration is the pod's service account in the folder
    `service_account`.
    """
    if kubeconfig:
        return [Path(kubeconfig)]
    # Who sets the variable means that cluster, also in a pod, such as that of a CI job, which has an account too.
    if named := [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]:
        return named
    if (service_account / "token").is_file() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return []
    return [Path(DEFAULT_KUBECONFIG)]


def _documents(paths: Sequence[Path]) -> list[tuple[Path, Any]]:
    """Return the content of the kubeconfigs at `paths`, each with its absolute path.

    As in kubectl, files that do not exist are left out, unless none exists; then ConfigError is raised.
    """
    files = [path.expanduser().absolute() for path in paths]
    present = [file for file in files if file.is_file()]
    if not present:
        raise exceptions.ConfigError(f"Configuration file {os.pathsep.join(map(str, paths))} not found")
    documents = [(file, yaml.safe_load(file.read_text(encoding="utf-8-sig"))) for file in present]
    if len(documents) == 1:
        return documents
    return [(file, document) for file, document in documents if document is not None]


@attrs.frozen
class _Entry:
    """The fields of a context, a cluster or a user, and the kubeconfig that has it."""

    fields: Mapping[str, Any] = attrs.field(repr=False)
    file: Path

    def resolved(self) -> dict[str, Any]:
        """Return the fields with absolute paths."""
        # clientcmd resolves paths against the folder of the file that has them (tools/clientcmd/loader.go,
        # ResolveLocalPaths).
        folder = self.file.parent
        paths = {name: path for name in _PATHS if isinstance(path := self.fields.get(name), str) and path}
        return {**self.fields, **{name: str(folder / path) for name, path in paths.items()}}


def _entry(documents: Sequence[tuple[Path, Any]], part: str, name: str) -> _Entry:
    """Return the `part` (`context`, `cluster` or `user`) with this name. The first file that has it wins.

    Raises KeyError if there is none.
    """
    for file, document in documents:
        for entry in document.get(f"{part}s") or ():
            if entry["name"] == name:
                return _Entry(entry.get(part) or {}, file)
    raise KeyError(f"{part} {name}")


def _chosen(documents: Sequence[tuple[Path, Any]], context: str | None) -> SingleConfig:
    """Return the configuration of `context`, or of the current context if it is None. Other contexts are not checked.

    Raises ConfigError if there is no such context, and KeyError if its cluster or user is missing.
    """
    name = context or next((named for _, each in documents if (named := each.get("current-context"))), None)
    if not name:
        raise exceptions.ConfigError("No current context set and no default provided")
    try:
        found = _entry(documents, "context", name)
    except KeyError as error:
        raise exceptions.ConfigError(f"Context {name!r} not found") from error
    entry = msgspec.convert(found.fields, Context)
    cluster = _entry(documents, "cluster", entry.cluster)
    _refuse_unsupported(cluster, f"cluster {entry.cluster}", _CLUSTER_FIELDS)
    user = None
    if entry.user:
        owner = _entry(documents, "user", entry.user)
        _refuse_unsupported(owner, f"user {entry.user}", _USER_FIELDS)
        user = msgspec.convert(_with_plugin(owner), _User)
    return SingleConfig(name, entry, msgspec.convert(cluster.resolved(), Cluster), user, found.file)


def _refuse_unsupported(entry: _Entry, named: str, fields: frozenset[str]) -> None:
    """Raise Permanent if `entry` has some of `fields`, which lightkube ignores.

    Otherwise lightkube would connect in another way or as another user.
    """
    if left_out := sorted(fields & entry.fields.keys()):
        names = ", ".join(left_out)
        raise Permanent(f"kubeconfig {entry.file}: {named} has {names}, which is not supported; remove it")


def _with_plugin(entry: _Entry) -> dict[str, Any]:
    """Return the fields of a user with absolute paths. That includes the plugin's, unless it is searched in PATH."""
    fields = entry.resolved()
    plugin = fields.get("exec")
    if not isinstance(plugin, dict):
        return fields
    command = plugin.get("command")
    # A bare name is searched in PATH (tools/clientcmd/loader.go, GetAuthInfoFileReferences).
    if isinstance(command, str) and os.sep in command:
        command = str(entry.file.parent / command)
    return {**fields, "exec": {**plugin, "command": command, "env": list(_variables(plugin.get("env")))}}


def _variables(env: Any) -> Iterator[Any]:
    """Yield the environment variables of a plugin. One without a value is empty, as for kubectl."""
    for variable in env or ():
        yield {"value": "", **variable} if isinstance(variable, dict) else variable


def _usable_user(config: SingleConfig, origin: str) -> User:
    user = config.user or User()
    if user.auth_provider:
        raise Permanent(
            f"kubeconfig {origin}: auth-provider was removed from Kubernetes; use an exec credential plugin"
        )
    try:
        if user.token and not user.token_file:
            sendable(user.token, f"kubeconfig {origin}: user token")
    except exceptions.ConfigError as error:
        raise Permanent(str(error)) from None
    plugin = user.exec if isinstance(user.exec, _Plugin) else None
    return msgspec.structs.replace(user, exec=None if plugin is None else _exec(plugin, config.cluster, origin))


def _exec(plugin: _Plugin, cluster: Cluster, origin: str) -> UserExec:
    """Return `plugin` in a form that lightkube accepts.

    lightkube refuses the API version `v1`, so it is replaced by `v1beta1`. The variable KUBERNETES_EXEC_INFO names the
    true version to the plugin, and the cluster if the plugin wants to know it. Raises Permanent for other versions; the
    message names the kubeconfig, `origin`.
    """
    if plugin.apiVersion not in _EXEC_VERSIONS:
        raise Permanent(f"kubeconfig {origin}: exec credentials of {plugin.apiVersion} are not supported")
    # A controller has no terminal on which a plugin could ask; client-go says so by this field (auth/exec/exec.go).
    spec = {"interactive": False, **({"cluster": _cluster_info(cluster)} if plugin.provideClusterInfo else {})}
    exec_credential = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": spec}
    info = NameValue("KUBERNETES_EXEC_INFO", msgspec.json.encode(exec_credential).decode())
    version = _EXEC_V1BETA1 if plugin.apiVersion == _EXEC_V1 else plugin.apiVersion
    return msgspec.structs.replace(plugin, apiVersion=version, env=[*(plugin.env or []), info])


def _cluster_info(cluster: Cluster) -> dict[str, Any]:
    """Return what a plugin with `provideClusterInfo` gets about its cluster: the address and how to trust it."""
    authority = cluster.certificate_auth_data
    if not authority and cluster.certificate_auth:
        authority = base64.b64encode(Path(cluster.certificate_auth).read_bytes()).decode()
    fields = {"certificate-authority-data": authority, "insecure-skip-tls-verify": cluster.insecure}
    return {"server": cluster.server, **{name: value for name, value in fields.items() if value}}


def _problem(error: Exception) -> str:
    """Return a description of a parse error without the file's content, which may include tokens."""
    if isinstance(error, KeyError):
        return f"{error.args[0]!r} is missing"
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    return "it is not a kubeconfig in YAML"
