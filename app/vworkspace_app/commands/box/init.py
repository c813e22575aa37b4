"""The command `box init`, which writes an example box and its CRD for a new kind. Both pass `box check` unchanged."""

import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

from purekube_run.process.command_line import USAGE, CommandError
from vworkspace_app.arguments import Parameter

KIND: Final = (re.compile(r"[A-Z][A-Za-z0-9]{0,39}"), "WebApp")
GROUP: Final = (re.compile(r"\A[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+"), "example.com")
PLURAL: Final = (re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"), "webapps")
PROJECT: Final = (re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?"), "shops")


def check_name(given: str, form: tuple[re.Pattern[str], str]) -> None:
    """Raise CommandError unless the name `given` matches a pattern.

    `form` is the pattern and an example of a valid name for the error message.
    """
    if form[0].fullmatch(given) is None:
        raise CommandError(f"{given}: not a name such as {form[1]}", status=USAGE)


def module_of(project: str) -> str:
    """Return the name of the Python module for a project: dashes become underscores.

    Raises CommandError if that is a Python keyword.
    """
    name = project.replace("-", "_")
    if keyword.iskeyword(name):
        raise CommandError(f"{project}: a word of Python cannot be the name of a module", status=USAGE)
    return name


def write_new(files: Mapping[Path, str]) -> None:
    """Write new files with the given texts, and print their paths.

    Raises CommandError if one of the files exists, before any file is written.
    """
    if found := [path for path in files if path.exists()]:
        raise CommandError(f"{found[0]} exists: give --directory for another folder")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{path}: cannot be written: {error.strerror}") from error
        print(f"wrote {path}")


_BOX: Final = """\
# An operator for {kind} objects: `vworkspace-operator box check {name}.yaml` says whether it can be run.
apiVersion: box.vworkspace.io/v1alpha1
kind: OperatorBox
metadata:
  name: {name}
spec:
  crd: {name}-crd.yaml
  resources:
    - id: web
      template:
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: ${{self.metadata.name}}
        spec:
          replicas: ${{self.spec.replicas}}
          selector:
            matchLabels: {{app: "${{self.metadata.name}}"}}
          template:
            metadata:
              labels: {{app: "${{self.metadata.name}}"}}
            spec:
              containers:
                - name: main
                  image: ${{self.spec.image}}
                  ports: [{{name: http, containerPort: 80}}]
    - id: service                     # waits for nothing but what it reads of web
      template:
        apiVersion: v1
        kind: Service
        metadata:
          name: ${{web.metadata.name}}
        spec:
          selector: ${{web.spec.selector.matchLabels}}
          ports: [{{name: http, port: 80, targetPort: http}}]
  status:
    fields:
      readyReplicas: ${{readyReplicas(web)}}
"""

_CRD: Final = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {plural}.{group}
  labels: {{box.vworkspace.io/name: {name}}}       # `vworkspace-operator status` shows these objects
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: {plural}, singular: {name}, kind: {kind}, listKind: {kind}List}}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {{status: {{}}}}
      additionalPrinterColumns:         # what `kubectl get {plural}` shows
        - {{name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}}
        - {{name: Reason, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].reason'}}
        - {{name: Message, type: string, priority: 1, jsonPath: '.status.conditions[?(@.type=="Ready")].message'}}
        - {{name: Age, type: date, jsonPath: .metadata.creationTimestamp}}
      schema:
        openAPIV3Schema:
          type: object
          required: [spec]
          properties:
            spec:
              type: object
              required: [image]
              properties:
                image: {{type: string, minLength: 1}}
                replicas: {{type: integer, minimum: 0, default: 1}}
            status:
              type: object
              properties:
                observedGeneration: {{type: integer, format: int64}}
                readyReplicas: {{type: integer}}
                conditions:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [type]
                  items:
                    type: object
                    required: [type, status, reason, lastTransitionTime]
                    properties:
                      type: {{type: string}}
                      status: {{type: string}}
                      reason: {{type: string}}
                      message: {{type: string}}
                      observedGeneration: {{type: integer, format: int64}}
                      lastTransitionTime: {{type: string, format: date-time}}
"""


def write_beginning(kind: str, group: str, plural: str, directory: Path) -> None:
    """Write the two files with which the author of a box begins: a small box for a new kind, and the kind's CRD.

    The files are written into the folder `directory`. An empty `plural` means the kind in small letters and an s.
    Raises CommandError for names that no CRD accepts, and for files that exist.
    """
    name = kind.lower()
    plural = plural or f"{name}s"
    for given, form in ((kind, KIND), (group, GROUP), (plural, PLURAL)):
        check_name(given, form)
    files = {directory / f"{name}.yaml": _BOX, directory / f"{name}-crd.yaml": _CRD}
    words = {"kind": kind, "name": name, "group": group, "plural": plural}
    write_new({path: text.format(**words) for path, text in files.items()})


def init(
    kind: Annotated[str, Parameter(help="The kind that is to be made, as `WebApp`.")],
    /,
    *,
    group: Annotated[str, Parameter(help="Group of the kind.")] = "example.com",
    plural: Annotated[str, Parameter(help="Its plural; without it the kind in small letters and an s.")] = "",
    directory: Annotated[Path, Parameter(help="Folder for the two files.")] = Path(),
) -> None:
    """Write a box and its CRD to begin with, or fail if one of the files exists.

    Example:

        vworkspace-operator box init WebApp && vworkspace-operator box check webapp.yaml
    """
    write_beginning(kind, group, plural, directory)
