"""The schemas of Workflow and WorkflowTemplate: the fields that the operator uses, and those that Argo writes."""

from typing import Final

from kubelab.simulation.schema import (
    BOOLEAN,
    COUNT,
    DATE_TIME,
    INTEGER,
    STRING,
    STRINGS,
    JsonSchema,
    enum,
    items,
    record,
    string,
)

_INT_OR_STRING: Final[JsonSchema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_INT32: Final[JsonSchema] = {"type": "integer", "format": "int32"}
_NAME: Final = string(pattern="^[-a-zA-Z0-9_]+$")
_PARAMETER: Final = record(
    {"default": STRING, "enum": {**items(STRING), "minItems": 1}, "globalName": STRING, "name": _NAME, "value": STRING},
    ("name",),
)
_ARGUMENTS: Final = record({"parameters": items(_PARAMETER)})
_INPUTS: Final = record({"parameters": {**items(_PARAMETER), "maxItems": 500}})
_LEAVES: Final = ("container", "script", "steps", "suspend")
"""The supported types of an Argo template, each the name of a field in it."""
_IDENTIFIER: Final = string(pattern="^[a-zA-Z0-9][-a-zA-Z0-9]*$", maxLength=128)
_WORDS: Final[JsonSchema] = {**STRINGS, "x-kubernetes-list-type": "atomic"}
_ONE_TYPE: Final = " + ".join(f"(has(t.{leaf}) ? 1 : 0)" for leaf in _LEAVES)
_TIMED: Final = '!(has(t.timeout) && t.timeout != "" && has(t.steps))'
_LIMITED: Final = "!(has(t.activeDeadlineSeconds) && has(t.steps))"
_TEMPLATE_RULES: Final = [
    {"message": "template must have at most one template type", "rule": f"self.all(t, {_ONE_TYPE} <= 1)"},
    {"message": "timeout cannot be applied to steps or dag templates", "rule": f"self.all(t, {_TIMED})"},
    {"message": "activeDeadlineSeconds is only valid for leaf templates", "rule": f"self.all(t, {_LIMITED})"},
]


def workflow_spec() -> JsonSchema:
    """Return the schema of a Workflow's or a WorkflowTemplate's `spec`."""
    templates = {**items(_template()), "maxItems": 200, "x-kubernetes-validations": _TEMPLATE_RULES}
    ttl = ("secondsAfterCompletion", "secondsAfterFailure", "secondsAfterSuccess")
    strategies = ("", "OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess")
    return record(
        {
            "activeDeadlineSeconds": COUNT,
            "arguments": _ARGUMENTS,
            "entrypoint": STRING,
            "onExit": STRING,
            "parallelism": {**COUNT, "minimum": 1},
            "podGC": record({"strategy": enum(*strategies)}),
            "priority": _INT32,
            "serviceAccountName": STRING,
            "shutdown": STRING,
            "suspend": BOOLEAN,
            "templates": templates,
            "ttlStrategy": record(dict.fromkeys(ttl, _INT32)),
            "workflowTemplateRef": record({"clusterScope": BOOLEAN, "name": STRING}),
        }
    )


def _template() -> JsonSchema:
    variable = record({"name": STRING, "value": STRING}, ("name",))
    env = {**items(variable), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    container = {"args": _WORDS, "command": _WORDS, "env": env, "image": STRING, "name": STRING}
    step = record({"arguments": _ARGUMENTS, "name": _IDENTIFIER, "template": STRING, "when": STRING})
    return record(
        {
            "activeDeadlineSeconds": _INT_OR_STRING,
            "container": record(container),
            "inputs": _INPUTS,
            "name": _IDENTIFIER,
            "script": record({**container, "source": STRING}),
            "serviceAccountName": STRING,
            "steps": {**items(items(step)), "minItems": 1},
            "suspend": record({"duration": STRING}),
            "timeout": STRING,
        }
    )


def workflow_status() -> JsonSchema:
    """Return the schema of a Workflow's `status`. Phases are strings without an enum, as in Argo's own schema."""
    outputs = record({"exitCode": STRING, "parameters": items(_PARAMETER), "result": STRING})
    seconds = {"type": "object", "additionalProperties": COUNT}
    condition = record({"message": STRING, "status": STRING, "type": STRING})
    node = record(
        {
            **dict.fromkeys(
                ("boundaryID", "displayName", "id", "message", "name", "phase", "podIP", "progress"), STRING
            ),
            **dict.fromkeys(("templateName", "templateScope", "type"), STRING),
            "children": STRINGS,
            "finishedAt": DATE_TIME,
            "inputs": _INPUTS,
            "outboundNodes": STRINGS,
            "outputs": outputs,
            "resourcesDuration": seconds,
            "startedAt": DATE_TIME,
        },
        ("id", "name", "type"),
    )
    return record(
        {
            **dict.fromkeys(("compressedNodes", "message", "offloadNodeStatusVersion", "phase", "progress"), STRING),
            "conditions": items(condition),
            "estimatedDuration": INTEGER,
            "finishedAt": DATE_TIME,
            "nodes": {"type": "object", "additionalProperties": node},
            "outputs": outputs,
            "resourcesDuration": seconds,
            "startedAt": DATE_TIME,
        }
    )
