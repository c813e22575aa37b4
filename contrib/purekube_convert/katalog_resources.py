"""The short forms of resources in a Katalog (Orkestra's description of operators), and builders of their manifests.

An entry is read through `KatalogEntry`, which records the keys that were read: all others are reported at the end, so
that no part of a Katalog is dropped silently.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from purekube.apimachinery.problems import index, join
from purekube_convert.go_expressions import TemplateScope, converted_text
from purekube_convert.go_template import TemplateError
from purekube_convert.result import Problems

_DEEPEST: Final = 32


def is_true(value: Any) -> bool:
    """Report whether a setting of a Katalog is on, also if it is written as a text."""
    return value is True or value == "true"


@attrs.define
class KatalogEntry:
    """A mapping in a Katalog, the file in which Orkestra describes operators, while it is converted to a box.

    The mapping, `raw`, describes one resource, or is a field of such a description; `path` leads to it in the Katalog.
    `asked` has the keys that were read so far. `scope` has the names with which paths in its Go templates may begin.
    What cannot be converted is added to `problems`.
    """

    raw: Mapping[str, Any]
    path: str
    scope: TemplateScope
    problems: Problems
    asked: set[str] = attrs.field(factory=set)

    def take(self, key: str) -> Any:
        """Return the raw value under a key, or None if the key is absent. The key then counts as read."""
        self.asked.add(key)
        return self.raw.get(key)

    def flag(self, key: str) -> bool:
        """Return the bool under a key, which may be written as a text, or False if the key is absent.

        Another value is reported as a problem.
        """
        found = self.take(key)
        if not (found is None or isinstance(found, bool) or found in ("true", "false")):
            self.problems.add(join(self.path, key), "must be true or false")
        return is_true(found)

    def value(self, key: str, desired: str = "string", default: Any = None) -> Any:
        """Return the single value under a key, for use in a box. Return `default` if the value is absent or empty.

        Go templates in the value are replaced by CEL expressions. `desired` is the type that the box needs at this
        place: `string`, `int` or `bool`. A string or the result of an expression is converted to this type; an empty
        `desired` leaves the type as it is. A list or mapping under the key is reported as a problem, and the result is
        `default`. A string that cannot be converted is reported as a problem, and the result is None.
        """
        found = self._shaped(key, str | int | float, "one value")
        return default if found is None or found == "" else self.convert(found, join(self.path, key), desired)

    def mapping(self, key: str) -> dict[str, Any]:
        """Return the mapping of names to strings under a key, with Go templates replaced by CEL expressions.

        It is empty if the key is absent.
        """
        return dict(self.convert(self._shaped(key, Mapping, "an object") or {}, join(self.path, key), "string"))

    def texts(self, key: str) -> list[Any]:
        """Return the list of strings under a key, with Go templates replaced by CEL expressions.

        It is empty if the key is absent.
        """
        return list(self.convert(self._shaped(key, list, "a list") or [], join(self.path, key), "string"))

    def part(self, key: str, shape: type[Any]) -> Any:
        """Return the list or mapping under a key, or None if the key is absent.

        The value is written as in Kubernetes itself, so only Go templates in it are converted. A value of another type
        than `shape` is reported as a problem, and the result is None.
        """
        what = "a list" if shape is list else "an object"
        found = self._shaped(key, shape, what)
        return None if found is None else self.convert(found, join(self.path, key))

    def _shaped(self, key: str, shape: Any, what: str) -> Any:
        found = self.take(key)
        if found is None or isinstance(found, shape):
            return found
        self.problems.add(join(self.path, key), f"must be {what}")
        return None

    def convert(self, found: Any, path: str, desired: str = "", depth: int = 0) -> Any:
        """Return `found`, the raw value at `path` in the Katalog, with every Go template replaced by a CEL expression.

        Texts are converted to the type `desired` as by `value`. `depth` is the depth of nesting so far; a value that is
        nested too deeply is reported as a problem, and becomes None.
        """
        if depth > _DEEPEST:
            self.problems.add(path, f"is nested more than {_DEEPEST} levels deep")
            return None
        match found:
            case Mapping():
                return {str(k): self.convert(v, join(path, str(k)), desired, depth + 1) for k, v in found.items()}
            case list():
                return [self.convert(v, index(path, i), desired, depth + 1) for i, v in enumerate(found)]
            case str():
                return self._text(found, path, desired)
            case bool() | int() | float() if desired == "string":
                return self.printed(found)
        return found

    @staticmethod
    def printed(raw: Any) -> str:
        """Return a single raw value as the text that Go prints for it; an absent value is empty text."""
        return "" if raw is None else str(raw).lower() if isinstance(raw, bool) else str(raw)

    def _text(self, text: str, path: str, desired: str) -> Any:
        try:
            return converted_text(text, self.scope, desired)
        except TemplateError as error:
            self.problems.add(path, f"{text[:80]!r}: {error}")
            return None

    def inner(self, key: str) -> "KatalogEntry | None":
        """Return the mapping under a key as a KatalogEntry, or None if the key is absent."""
        found = self._shaped(key, Mapping, "an object")
        return None if found is None else KatalogEntry(found, join(self.path, key), self.scope, self.problems)

    def entries(self, key: str) -> Iterator["KatalogEntry"]:
        """Yield each mapping in the list under a key as a KatalogEntry."""
        for position, item in enumerate(self._shaped(key, list, "a list") or ()):
            path = index(join(self.path, key), position)
            if isinstance(item, Mapping):
                yield KatalogEntry(item, path, self.scope, self.problems)
            else:
                self.problems.add(path, "must be an object")

    def report_unread(self, reasons: Mapping[str, str]) -> None:
        """Report a problem for each key that was not read, and was therefore not converted.

        `reasons` has messages for some keys; for all others the message is that a box has nothing like it.
        """
        for key in self.raw:
            if key not in self.asked:
                self.problems.add(join(self.path, str(key)), reasons.get(str(key), "has no counterpart in a box"))


def filled(**fields: Any) -> dict[str, Any]:
    """Return `fields` without None, and without empty mappings and lists."""
    return {name: value for name, value in fields.items() if value is not None and value != {} and value != []}


@attrs.frozen
class EntryContext:
    """The resources to which an entry of a Katalog (Orkestra's description of operators) refers.

    For the entry of a Service they are the workloads, for the entry of an Ingress the Service.
    """

    pods: Mapping[str, Any] | None = None
    """The labels that select the pods of all workloads; None if there is no workload."""
    service: tuple[str, Any] | None = None
    """The name and port of the Service, as expressions; None unless there is exactly one Service."""
    labels: Mapping[str, Any] = attrs.field(factory=dict)
    """The labels that the pods of every workload get in addition to their own."""


Builder = Callable[[KatalogEntry, str, EntryContext], dict[str, Any]]
"""A function that returns the fields of a manifest, such as `spec` or `data`.

Its arguments are the entry of the Katalog, the name of the object, and the entry's context.
"""


def _pod(entry: KatalogEntry, name: str, labels: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a pod template with one container, made from the short fields of a workload in a Katalog."""
    own = entry.mapping("labels")
    container = filled(
        name=name,
        image=_image(entry),
        command=entry.texts("command"),
        args=entry.texts("args"),
        workingDir=entry.value("workingDirectory"),
        ports=_ports(entry),
        env=entry.part("env", list),
        envFrom=_env_from(entry),
        resources=_plain(entry, "resources"),
        securityContext=_plain(entry, "securityContext"),
        volumeMounts=entry.part("volumeMounts", list),
        **_probes(entry),
    )
    claims = more.pop("volumeMounts", [])
    if claims:
        container["volumeMounts"] = [*container.get("volumeMounts", []), *claims]
    spec = filled(
        containers=[container],
        imagePullSecrets=[{"name": secret} for secret in entry.texts("imagePullSecrets")],
        nodeSelector=entry.mapping("nodeSelector"),
        securityContext=_plain(entry, "podSecurity"),
        serviceAccountName=entry.value("serviceAccountName"),
        volumes=entry.part("volumes", list),
        **more,
    )
    return filled(metadata=filled(labels={**own, **labels}), spec=spec)


def _image(entry: KatalogEntry) -> Any:
    image, tag = entry.value("image"), entry.value("tag")
    if not entry.raw.get("image"):
        entry.problems.add(entry.path, "has no image")
    return image if tag is None else f"{image}:{tag}"


def _ports(entry: KatalogEntry) -> list[dict[str, Any]]:
    port, protocol = entry.value("port", "int"), entry.value("protocol")
    return [] if port is None else [filled(containerPort=port, protocol=protocol)]


def _env_from(entry: KatalogEntry) -> list[dict[str, Any]]:
    inner = entry.inner("envFrom")
    if inner is None:
        return []
    out = []
    for key in ("configMapRef", "secretRef"):
        for source in inner.entries(key):
            reference = filled(name=source.value("name"), optional=source.take("optional"))
            out.append(filled(prefix=source.value("prefix"), **{key: reference}))
            source.report_unread({})
    inner.report_unread({})
    return out


def _plain(entry: KatalogEntry, key: str) -> Any:
    """Return the mapping under a key, or None if the key is absent. The mapping is written as in Kubernetes itself.

    A mapping that names one of Orkestra's presets (`profile`) cannot be converted: it is reported as a problem, and the
    result is None as well.
    """
    found = entry.part(key, Mapping)
    if found is not None and "profile" in found:
        entry.problems.add(join(join(entry.path, key), "profile"), "is a preset of Orkestra: write its fields")
        return None
    return found


def _probes(entry: KatalogEntry) -> dict[str, Any]:
    inner = entry.inner("probes")
    if inner is None:
        return {}
    return filled(**{f"{kind}Probe": _probe(inner, kind) for kind in ("startup", "liveness", "readiness")})


def _probe(probes: KatalogEntry, kind: str) -> Any:
    probe = probes.inner(kind)
    if probe is None:
        return None
    port, path, how = probe.value("port", "int"), probe.value("path"), probe.take("type")
    if "profile" in probe.raw or port is None or how not in ("http", "tcp"):
        probes.problems.add(probe.path, "is not converted: write the probe as Kubernetes has it")
        return None
    probe.report_unread({})
    return {"httpGet": filled(path=path or "/", port=port)} if how == "http" else {"tcpSocket": {"port": port}}


def _workload(entry: KatalogEntry, name: str, around: EntryContext, **more: Any) -> dict[str, Any]:
    labels = {"app": name}
    pod = {key: more.pop(key) for key in ("volumeMounts",) if key in more}
    template = _pod(entry, name, {**around.labels, **labels}, **pod)
    replicas = entry.value("replicas", "int", 1)
    return {"spec": {"replicas": replicas, "selector": {"matchLabels": labels}, **more, "template": template}}


def _deployment(entry: KatalogEntry, name: str, around: EntryContext) -> dict[str, Any]:
    return _workload(entry, name, around, **filled(strategy=_rolling(entry)))


def _rolling(entry: KatalogEntry) -> Any:
    rolling = _plain(entry, "rollingUpdate")
    if not rolling:
        return None
    number = {key: int(value) if str(value).isdecimal() else value for key, value in rolling.items()}
    return {"type": "RollingUpdate", "rollingUpdate": number}


def _stateful_set(entry: KatalogEntry, name: str, around: EntryContext) -> dict[str, Any]:
    claims, mounts = [], []
    for claim in entry.entries("volumeClaimTemplates"):
        called = claim.value("name", default="data")
        mounts.append({"name": called, "mountPath": claim.value("mountPath", default="/data")})
        claims.append({"metadata": {"name": called}, "spec": _claim(claim, "storageClass", "storageSize")})
        claim.report_unread({})
    more = filled(volumeClaimTemplates=claims, volumeMounts=mounts, updateStrategy=_rolling(entry))
    return _workload(entry, name, around, serviceName=entry.value("serviceName", default=name), **more)


def _claim(entry: KatalogEntry, storage_class: str, size: str) -> dict[str, Any]:
    return filled(
        accessModes=entry.texts("accessModes") or ["ReadWriteOnce"],
        storageClassName=entry.value(storage_class),
        volumeMode=entry.value("volumeMode"),
        volumeName=entry.value("volumeName"),
        resources={"requests": filled(storage=entry.value(size))},
    )


def _volume_claim(entry: KatalogEntry, _name: str, _around: EntryContext) -> dict[str, Any]:
    return {"spec": _claim(entry, "storageClassName", "storage")}


def _job(entry: KatalogEntry, name: str, _around: EntryContext) -> dict[str, Any]:
    limit = entry.value("backoffLimit", "int", 3)
    return {"spec": {"backoffLimit": limit, "template": _pod(entry, name, {}, restartPolicy="Never")}}


def _cron_job(entry: KatalogEntry, name: str, _around: EntryContext) -> dict[str, Any]:
    policy = entry.value("concurrencyPolicy")
    spec = filled(
        schedule=entry.value("schedule"),
        suspend=entry.value("suspend", "bool"),
        concurrencyPolicy=policy.capitalize() if policy in ("allow", "forbid", "replace") else policy,
        startingDeadlineSeconds=entry.value("startingDeadlineSeconds", "int"),
        successfulJobsHistoryLimit=entry.value("successfulJobsHistoryLimit", "int"),
        failedJobsHistoryLimit=entry.value("failedJobsHistoryLimit", "int"),
    )
    template = _pod(entry, name, {}, restartPolicy="OnFailure")
    return {"spec": {**spec, "jobTemplate": {"spec": {"template": template}}}}


def _one_pod(entry: KatalogEntry, name: str, around: EntryContext) -> dict[str, Any]:
    return {"spec": _pod(entry, name, {**around.labels, "app": name})["spec"]}


def _service(entry: KatalogEntry, _name: str, around: EntryContext) -> dict[str, Any]:
    port = entry.value("port", "int")
    headless = entry.flag("headless")
    given = entry.mapping("selector")
    if port is None:
        entry.problems.add(entry.path, "has no port")
    if not given and around.pods is None:
        entry.problems.add(join(entry.path, "selector"), "there is no workload beside it: say which pods it is for")
    ports = filled(
        port=port, targetPort=entry.value("targetPort", "int"), protocol=entry.value("protocol", default=None)
    )
    kind = None if headless else entry.value("type")
    entry.take("type")
    cluster_ip = "None" if headless else None
    return {"spec": filled(type=kind, clusterIP=cluster_ip, selector=given or around.pods, ports=[ports])}


def _ingress(entry: KatalogEntry, _name: str, around: EntryContext) -> dict[str, Any]:
    name, port = entry.value("serviceName"), entry.value("servicePort", "int")
    if name is None and around.service is not None:
        name = around.service[0]
    if port is None and around.service is not None:
        port = around.service[1]
    if name is None or port is None:
        entry.problems.add(entry.path, "which Service is behind it? Write serviceName and servicePort")
    backend = {"service": {"name": name, "port": {"number": port}}}
    path = {
        "path": entry.value("path", default="/"),
        "pathType": entry.value("pathType", default="Prefix"),
        "backend": backend,
    }
    rule = filled(host=entry.value("host"), http={"paths": [path]})
    return {"spec": filled(ingressClassName=entry.value("className"), rules=[rule], tls=_tls(entry))}


def _tls(entry: KatalogEntry) -> list[dict[str, Any]]:
    tls = entry.inner("tls")
    if tls is None:
        return []
    if tls.flag("create"):
        tls.problems.add(join(tls.path, "create"), "a box makes no certificates: let cert-manager make the Secret")
    out = filled(secretName=tls.value("secretName"), hosts=tls.texts("hosts"))
    tls.report_unread({"validFor": "belongs to the certificate, which a box does not make"})
    return [out] if out else []


def _config_map(entry: KatalogEntry, _name: str, _around: EntryContext) -> dict[str, Any]:
    return filled(data=entry.mapping("data"))


def _secret(entry: KatalogEntry, _name: str, _around: EntryContext) -> dict[str, Any]:
    return {"type": entry.value("type", default="Opaque"), **filled(stringData=entry.mapping("data"))}


def _no_spec(_entry: KatalogEntry, _name: str, _around: EntryContext) -> dict[str, Any]:
    return {}


@attrs.frozen
class KatalogList:
    """A list in a Katalog (a file of the tool Orkestra) whose entries become manifests of one kind.

    `build` makes the manifest of one entry.
    """

    api_version: str
    kind: str
    suffix: str
    """The suffix of an object's default name, after the name of the parent."""
    build: Builder
    once: bool = False
    """True if missing objects are created but existing ones never changed, as in Orkestra."""
    pods: bool = False
    """True if the objects run pods, which a Service may expose."""
    namespaced: bool = True


FORMS: Final[Mapping[str, KatalogList]] = {
    "namespaces": KatalogList("v1", "Namespace", "", _no_spec, namespaced=False),
    "secrets": KatalogList("v1", "Secret", "-secret", _secret),
    "configMaps": KatalogList("v1", "ConfigMap", "-config", _config_map),
    "serviceAccounts": KatalogList("v1", "ServiceAccount", "", _no_spec, once=True),
    "replicaSets": KatalogList("apps/v1", "ReplicaSet", "", _workload, pods=True),
    "deployments": KatalogList("apps/v1", "Deployment", "-deployment", _deployment, pods=True),
    "services": KatalogList("v1", "Service", "-svc", _service),
    "jobs": KatalogList("batch/v1", "Job", "-job", _job, once=True),
    "cronJobs": KatalogList("batch/v1", "CronJob", "-cronjob", _cron_job),
    "statefulSets": KatalogList("apps/v1", "StatefulSet", "", _stateful_set, pods=True),
    "persistentVolumeClaims": KatalogList("v1", "PersistentVolumeClaim", "", _volume_claim, once=True),
    "ingresses": KatalogList("networking.k8s.io/v1", "Ingress", "-ingress", _ingress),
    "pods": KatalogList("v1", "Pod", "-pod", _one_pod, pods=True),
}
"""The lists of resources in a Katalog, in the order in which Orkestra processes them."""

ALIASES: Final = {key.lower(): key for key in FORMS} | {"pvcs": "persistentVolumeClaims"}
"""The older spellings of the keys in `FORMS`, each with the present key."""
