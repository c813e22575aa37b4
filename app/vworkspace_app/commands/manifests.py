"""The command `manifests`, which prints the objects that install the operator, for `kubectl apply -f -`."""

import sys
from typing import Annotated, Any, Final

import attrs

from purekube.apimachinery.formats import matches
from purekube.apimachinery.problems import ValidationProblems
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.yaml_documents import Format, dump, read_values
from vworkspace_app.arguments import Parameter, arguments_of_fields
from vworkspace_app.commands.shared.options import Output
from vworkspace_app.install import InstallOptions, installation, rights, tenant, tenant_rights
from vworkspace_app.install.options import NOT_THE_RUNNER, OptionScope, image_problem, option
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.labels import CLUSTER_ID
from vworkspace_core.operations.settings import RUNNER

_PLAIN: Final = InstallOptions()
_FLAGS: Final = {argument.field: argument.label for argument in arguments_of_fields(InstallOptions, "options")}
"""The command-line flag of each field of InstallOptions, by the field's name."""


@attrs.frozen
class PrintedPart:
    """The part of an installation that the command `manifests` prints.

    It is one of: the CRDs, the operator's roles, the objects of managed namespaces, or what the Helm chart installs for
    a values file. The default part is the operator, without CRDs and managed namespaces.
    """

    crds_only: bool = option("Only the CustomResourceDefinitions.", False)
    rbac_only: bool = option(
        "Only roles and bindings of the operator: its own, or those in Velero's or a managed namespace that another "
        "option names. What runs stays as it is.",
        False,
    )
    account: str = option(
        "With --rbac-only and --namespace: only this account, of releases or Operations, and its role.", ""
    )
    namespace: list[str] = option(
        "Only what this managed namespace needs: the operator's Role, and the accounts that releases and Operations "
        "run as; repeatable.",
        attrs.Factory(list),
    )
    values: str = option(
        "A values file of the Helm chart (- is standard input): print what the chart would install for it, tenants "
        "included. In the place of the other options, but for --system-namespace.",
        "",
    )

    @property
    def flag(self) -> str:
        """The command-line flag that selects this part; empty for the default part."""
        flags = {"--crds-only": self.crds_only, "--namespace": self.namespace, "--rbac-only": self.rbac_only}
        return next((flag for flag, given in flags.items() if given), "")


def render_manifests(part: PrintedPart, options: InstallOptions, output: Format) -> str:
    """Return the manifests of a part of the installation, as text.

    Raises CommandError for invalid options, and for options that contradict each other.
    """
    _check_parts(part, options)
    _check_use(part, options)
    _check_agent(part, options)
    _check_values(part, options)
    if part.crds_only:
        return dump(crd_manifests(), output)
    namespaces = list(dict.fromkeys(part.namespace))  # kustomize refuses an object that is there twice
    if part.namespace and part.rbac_only:
        roles = [role for name in namespaces for role in tenant_rights(name, options, part.account)]
        return dump(roles, output)
    if part.namespace:
        return dump([manifest for name in namespaces for manifest in tenant(name, options)], output)
    return dump(list(rights(options) if part.rbac_only else installation(options)), output)


def render_values(part: PrintedPart, options: InstallOptions, output: Format) -> str:
    """Return the manifests that the Helm chart renders for the values file `part.values`, as text.

    Only the namespace to install into is taken from `options`. Raises CommandError if the command line has any other
    option.
    """
    from vworkspace_app.install.chart_values import chart_values, values_documents  # the validator is slow to import

    path = part.values
    if part != PrintedPart(values=path) or options != InstallOptions(namespace=options.namespace):
        raise CommandError(
            "--values says what the other options say: give --system-namespace alone with it", status=USAGE
        )
    _check_values(part, options)
    documents = [value for _, value in read_values(path)]
    if len(documents) > 1:
        raise CommandError(f"{path}: holds {len(documents)} documents; a values file is one")
    try:
        values = chart_values(documents[0] if documents else {})
    except ValidationProblems as error:
        raise CommandError(f"{path}: {error}") from error
    return dump(list(values_documents(values, options.namespace)), output)


def _check_values(part: PrintedPart, options: InstallOptions) -> None:
    """Raise CommandError if an option has an invalid value."""
    checked = [
        (_FLAGS.get(field.name), getattr(options, field.name), field.metadata) for field in attrs.fields(InstallOptions)
    ]
    of_namespaces = attrs.fields_dict(InstallOptions)["namespace"].metadata
    checked += [("--namespace", name, of_namespaces) for name in part.namespace]
    for flag, value, rule in checked:
        if rule.get("schema") and not _fits(value, rule["schema"]):
            raise CommandError(f"{flag} {value}: {rule['wrong']}", status=USAGE)
    if options.release_account == RUNNER:
        raise CommandError(f"--release-account {RUNNER}: {NOT_THE_RUNNER}", status=USAGE)
    if not options.image.strip():
        raise CommandError("--image is empty: name the image that the cluster is to pull", status=USAGE)


def _fits(value: Any, schema: Any) -> bool:
    """Report whether a string or number matches its schema. (A validator of JSON Schema would be slow to import.)"""
    if isinstance(value, str):
        return len(value) <= schema.get("maxLength", len(value)) and matches(schema["pattern"], value)
    return bool(schema["minimum"] <= value <= schema.get("maximum", value))


def _check_parts(part: PrintedPart, options: InstallOptions) -> None:
    """Raise CommandError if the options request several parts that cannot be printed together."""
    if part.crds_only and (other := attrs.evolve(part, crds_only=False).flag):
        raise CommandError(f"--crds-only and {other} print different things: give one of them", status=USAGE)
    if part.account and not (part.rbac_only and part.namespace):
        message = "--account is for one account of a managed namespace: give --rbac-only and --namespace"
        raise CommandError(message, status=USAGE)
    if options.user and not part.rbac_only:
        message = "--user is for --rbac-only: what is installed runs as its service account"
        raise CommandError(message, status=USAGE)
    if options.service_monitor_labels and not (options.service_monitor or options.prometheus_rule):
        message = "--service-monitor-label is for --service-monitor and --prometheus-rule: give one of them"
        raise CommandError(message, status=USAGE)


def _check_use(part: PrintedPart, options: InstallOptions) -> None:
    """Raise CommandError for an option that has no effect on the requested manifests."""

    def given(*scopes: OptionScope) -> str:
        """Return the flags of options in these scopes that differ from their defaults."""
        fields = [field.name for field in attrs.fields(InstallOptions) if field.metadata.get("scope") in scopes]
        return ", ".join(_FLAGS[name] for name in fields if getattr(options, name) != getattr(_PLAIN, name))

    of_roles = () if part.flag == "--rbac-only" else (OptionScope.ROLES,)
    if part.flag and (flags := given(OptionScope.OPERATOR, *of_roles)):
        raise CommandError(f"{flags}: says nothing about what {part.flag} prints", status=USAGE)
    if not part.namespace and (flags := given(OptionScope.NAMESPACE)):
        raise CommandError(f"{flags}: is for what a managed namespace needs; give --namespace", status=USAGE)


def _check_agent(part: PrintedPart, options: InstallOptions) -> None:
    """Raise CommandError if the option for the cluster id is missing or superfluous.

    Without an agent, the manifests of the operator require the id. With an agent the id is not allowed.
    """
    if options.agent and options.cluster_id:
        raise CommandError("--cluster-id is for --no-agent: else the credentials Secret names it", status=USAGE)
    if not part.flag and not options.agent and not options.cluster_id:
        raise CommandError(f"--no-agent needs --cluster-id: what the label {CLUSTER_ID} says on objects", status=USAGE)


def manifests(
    *,
    part: Annotated[PrintedPart, Parameter(name="*")] = PrintedPart(),
    options: Annotated[InstallOptions, Parameter(name="*")] = _PLAIN,
    output: Output = Format.YAML,
) -> None:
    """Print what is to be installed, as YAML for `kubectl apply -f -`: the operator, and the CRDs by `--crds-only`.

    The CRDs are not printed with the rest, because deleting them deletes every instance. Without `--webhook-ca` or
    `--cert-manager` there are no admission webhooks; the reconciler still applies the same rules. Examples:

        vworkspace-operator manifests --crds-only | kubectl apply --server-side -f -
        vworkspace-operator manifests --image registry.example.com/operator:1 | kubectl apply --server-side -f -
        vworkspace-operator manifests --namespace org-myteam | kubectl apply --server-side -f -
        vworkspace-operator manifests --rbac-only --velero-namespace velero | kubectl apply --server-side -f -
        vworkspace-operator manifests --no-agent --cluster-id prod-1 | kubectl apply --server-side -f -
        vworkspace-operator manifests --values my-values.yaml | kubectl apply --server-side -f -
    """
    options = attrs.evolve(options, prometheus_rule_labels=options.service_monitor_labels)
    if part.values:
        print(render_values(part, options, output), end="")
        return
    text = render_manifests(part, options, output)
    if not part.flag and (problem := image_problem(options.image)):
        print(f"warning: --image {options.image} {problem}", file=sys.stderr)
    print(text, end="")
