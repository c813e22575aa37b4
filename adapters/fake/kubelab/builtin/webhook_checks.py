"""The rules of admission webhooks that no schema expresses.

Fields and messages are kube-apiserver's (`pkg/apis/admissionregistration/validation`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from kubelab.builtin.selector_checks import selector_causes
from kubelab.model.definition import NameRule
from kubelab.writes.metadata import name_problems
from purekube.apimachinery.errors import StatusCause
from purekube.schema.causes import invalid_value, not_supported, required

Fields = Mapping[str, Any]
Causes = Iterator[StatusCause]

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_VERSIONS: Final = ("v1", "v1beta1")
_KNOWN: Final = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
    "sideEffects": ("None", "NoneOnDryRun"),
    "reinvocationPolicy": ("IfNeeded", "Never"),
}
_OTHERS: Final = {"operations": "operations", "apiGroups": "API groups", "apiVersions": "API versions"}
"""The fields of a rule that must be alone if they are `*`, each with its name in the message."""
_FORM: Final = "; desired format: https://host[/path]"


def webhook_causes(webhook: Fields, path: str) -> Causes:
    """Yield the problems of a webhook, whose place in its configuration is `path`."""
    # apimachinery: util/validation/validation.go: the name of a webhook is a domain, unlike that of its configuration.
    if len(webhook.get("name", "").split(".")) < 3:
        text = "should be a domain with at least three segments separated by dots"
        yield invalid_value(f"{path}.name", webhook.get("name", ""), text)
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from _rule(rule, f"{path}.rules[{index}]")
    if not webhook.get("sideEffects"):
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    for key, known in _KNOWN.items():
        if (value := webhook.get(key)) and value not in known:
            yield not_supported(f"{path}.{key}", value, known)
    if not 1 <= (seconds := webhook["timeoutSeconds"]) <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{path}.timeoutSeconds", seconds, text)
    for key in ("namespaceSelector", "objectSelector"):
        yield from selector_causes(webhook.get(key), f"{path}.{key}")
    yield from _versions(webhook.get("admissionReviewVersions") or (), f"{path}.admissionReviewVersions")
    yield from _client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")


def _rule(rule: Fields, path: str) -> Causes:
    for key, others in _OTHERS.items():
        values = rule.get(key) or ()
        if not values:
            yield required(f"{path}.{key}")
        if len(values) > 1 and "*" in values:
            yield invalid_value(f"{path}.{key}", values, f"if '*' is present, must not specify other {others}")
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield required(f"{path}.apiVersions[{index}]")
    yield from _resources(rule.get("resources") or (), f"{path}.resources")
    if rule["scope"] not in _SCOPES:
        yield not_supported(f"{path}.scope", rule["scope"], _SCOPES)


def _resources(resources: Sequence[str], path: str) -> Causes:
    if not resources:
        yield required(path)
    parents, subresources = set[str](), set[str]()
    for index, name in enumerate(resources):
        parent, slash, subresource = name.partition("/")
        if not name:
            yield required(f"{path}[{index}]")
        if slash and parent in parents:
            yield invalid_value(f"{path}[{index}]", name, f"if '{parent}/*' is present, must not specify {name}")
        if slash and subresource in subresources:
            yield invalid_value(f"{path}[{index}]", name, f"if '*/{subresource}' is present, must not specify {name}")
        parents |= {parent} if subresource == "*" else set()
        subresources |= {subresource} if slash and parent == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        yield invalid_value(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and any(name and "/" not in name and name != "*" for name in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid_value(path, resources, text)


def _versions(versions: Sequence[str], path: str) -> Causes:
    if not versions:
        yield required(path, f"must specify one of {', '.join(_VERSIONS)}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid_value(f"{path}[{index}]", version, "duplicate version")
            continue
        yield from (
            invalid_value(f"{path}[{index}]", version, text) for text in name_problems(version, NameRule.SERVICE)
        )
    if not set(versions) & set(_VERSIONS):
        yield invalid_value(path, versions, f"must include at least one of {', '.join(_VERSIONS)}")


def _client(client: Fields, path: str) -> Causes:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, f"{path}.url")
    elif service is not None:
        yield from _path(service.get("path") or "/", f"{path}.service.path")


def _url(url: str, path: str) -> Causes:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid_value(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not parts.netloc:
        yield invalid_value(path, "", f"host must be specified{_FORM}")
    if parts.fragment:
        yield invalid_value(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid_value(path, parts.query, "query parameters are not permitted in the URL")


def _path(text: str, path: str) -> Causes:
    if not text.startswith("/"):
        yield invalid_value(path, text, "must start with a '/'")
    steps = text[1:].removesuffix("/").split("/") if text != "/" else ()
    for index, step in enumerate(steps):
        if not step:
            yield invalid_value(path, text, f"segment[{index}] may not be empty")
            continue
        for problem in name_problems(step, NameRule.SUBDOMAIN):
            yield invalid_value(path, text, f"segment[{index}]: {problem}")
