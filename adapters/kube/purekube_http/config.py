"""The API server's address and our credentials, read by lightkube, with checks for what lightkube does not handle.

Every problem is raised as a `Permanent` with advice. lightkube does not handle a context without a user, a
relative `tokenFile`, `KUBECONFIG` with several paths, exec credentials `v1` and missing parts of a kubeconfig. It
silently ignores the fields for proxy, server name and impersonation. This module handles or refuses each of these.
"""

import os
from pathlib import Path

import msgspec
import yaml
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import NameValue, User, UserExec
from lightkube.core import exceptions

from purekube.apimachinery.errors import Permanent
from purekube_http.authorization import sendable

_CLUSTER_FIELDS = frozenset({"proxy-url", "tls-server-name"})
_USER_FIELDS = frozenset({"as", "as-groups", "as-uid", "as-user-extra"})
_ADVICE = "give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster with a service account"
_EXEC_V1 = "client.authentication.k8s.io/v1"
_EXEC_V1BETA1 = "client.authentication.k8s.io/v1beta1"
_EXEC_VERSIONS = (_EXEC_V1, _EXEC_V1BETA1, "client.authentication.k8s.io/v1alpha1")


def load_config(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    service_account: str | Path = SERVICE_ACCOUNT,
) -> SingleConfig:
    """Return the configuration of one cluster.

    The configuration is read from `kubeconfig` if given. Otherwise it is read from the first of these that exists: the
    pod's `service_account` folder, the file that `KUBECONFIG` names, `~/.kube/config`. `context` selects a context; the
    default is the current one. Raises Permanent with the file's name, the problem and advice.
    """
    path = kubeconfig or _kubeconfig_path(Path(service_account))
    origin = str(path) if path else "the service account"
    try:
        source = KubeConfig.from_file(path) if path else KubeConfig.from_service_account(service_account)
        chosen = source.get(context)
        if path:
            _refuse_unsupported(Path(path).expanduser(), source, context)
    except exceptions.ConfigError as error:
        raise Permanent(f"no usable cluster configuration: {error}; {_ADVICE}") from error
    except (KeyError, TypeError, AttributeError, msgspec.ValidationError, yaml.YAMLError) as error:
        raise Permanent(f"kubeconfig {origin} is not complete: {_problem(error)}; {_ADVICE}") from error
    except OSError as error:
        raise Permanent(f"kubeconfig {origin} cannot be read: {error.strerror}; {_ADVICE}") from error
    assert chosen is not None  # `get` returns None only for a default, which is not passed
    return chosen._replace(user=_usable_user(chosen, origin))


def with_token(config: SingleConfig, token: str) -> SingleConfig:
    """Return the configuration of the same cluster with `token` as the only credential."""
    return config._replace(user=User(token=token))


def _refuse_unsupported(path: Path, source: KubeConfig, context: str | None) -> None:
    """Raise Permanent if `context` has fields that lightkube ignores.

    Otherwise lightkube would connect in another way or as another user.
    """
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    desired = context or source.current_context
    named = {entry["name"]: entry.get("context") or {} for entry in document.get("contexts") or ()}.get(desired, {})
    for part, where, fields in (("clusters", "cluster", _CLUSTER_FIELDS), ("users", "user", _USER_FIELDS)):
        section = {entry["name"]: entry.get(where) or {} for entry in document.get(part) or ()}.get(
            named.get(where), {}
        )
        if left_out := sorted(fields & section.keys()):
            names = ", ".join(left_out)
            raise Permanent(f"kubeconfig {path}: {where} {named[where]} has {names}, which is not supported; remove it")


def _kubeconfig_path(service_account: Path) -> str | None:
    """Return the path of the kubeconfig to read, or None if the configuration is the pod's service account in the
    folder `service_account`.
    """
    if (service_account / "token").is_file() and "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    named = os.environ.get("KUBECONFIG", "")
    if os.pathsep in named:
        raise Permanent(f"KUBECONFIG names several files, which are not merged here: {named}; give --kubeconfig FILE")
    return named or DEFAULT_KUBECONFIG


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
    token_file = str(config.abs_file(user.token_file)) if user.token_file else None
    return msgspec.structs.replace(user, token_file=token_file, exec=_exec(user.exec, origin))


def _exec(plugin: UserExec | None, origin: str) -> UserExec | None:
    """Return `plugin` in a form that lightkube accepts, or None if there is no plugin.

    lightkube refuses the API version `v1`, so it is replaced by `v1beta1`, and the variable KUBERNETES_EXEC_INFO tells
    the plugin its true version. Raises Permanent for other versions; the message names the kubeconfig, `origin`.
    """
    if plugin is None:
        return None
    if plugin.apiVersion not in _EXEC_VERSIONS:
        raise Permanent(f"kubeconfig {origin}: exec credentials of {plugin.apiVersion} are not supported")
    exec_credential = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
    info = NameValue("KUBERNETES_EXEC_INFO", msgspec.json.encode(exec_credential).decode())
    version = _EXEC_V1BETA1 if plugin.apiVersion == _EXEC_V1 else plugin.apiVersion
    return msgspec.structs.replace(plugin, apiVersion=version, env=[*(plugin.env or []), info])


def _problem(error: Exception) -> str:
    """Return a description of a parse error without the file's content, which may include tokens."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    return "it is not a kubeconfig in YAML"
