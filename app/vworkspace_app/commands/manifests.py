"""`manifests`: print the objects to install, for `kubectl apply -f -`."""

import re
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import attrs

from purekube.apimachinery.names import LABEL_RULE, is_label_value
from purekube.apimachinery.problems import ValidationProblems
from purekube.controller.shard import MOST_SHARDS
from purekube_run.process.command_line import USAGE, CommandError
from purekube_run.process.yaml_documents import Format, dump, read_values
from vworkspace_app.arguments.signature import Parameter
from vworkspace_app.install import InstallOptions, installation, rights, tenant, tenant_rights
from vworkspace_app.install.options import EXAMPLE_REGISTRY, NO_SUCH_REGISTRY, OptionScope
from vworkspace_app.install.profiles import read_settings
from vworkspace_core.api.crd import crd_manifests
from vworkspace_core.api.labels import CLUSTER_ID

_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
_PLAIN: Final = InstallOptions()
_FLAGS: Final = {"settings": "--setting", "tenant_roles": "--no-tenant-roles"}
"""The flags of fields of InstallOptions whose flag has a name other than the field's."""
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def render_manifests(
    options: InstallOptions,
    output: Format,
    *,
    crds_only: bool = False,
    rbac_only: bool = False,
    namespaces: Sequence[str] = (),
    account: str = "",
) -> str:
    """Return the manifests to install, as text.

    They are those of the operator, or those of the managed namespaces in `namespaces`. With `crds_only` they are only
    the CRDs. With `rbac_only` they are only the roles, and with `account` only the roles of that account. Raises
    CommandError.
    """
    _check_parts(options, account, crds_only=crds_only, rbac_only=rbac_only, tenant=bool(namespaces))
    _check_use(options, crds_only=crds_only, rbac_only=rbac_only, tenant=bool(namespaces))
    _check_agent(options, whole=not crds_only and not rbac_only and not namespaces)
    _check_names(options, namespaces)
    if not _SUBDOMAIN.fullmatch(options.release_account):
        raise CommandError(
            f"--release-account {options.release_account}: not the name of a service account, such as "
            f"{_PLAIN.release_account}",
            status=USAGE,
        )
    if options.quota < 0:
        raise CommandError(f"--quota {options.quota}: a number of instances, or 0 for no limit", status=USAGE)
    if not 1 <= options.shards <= MOST_SHARDS:
        raise CommandError(f"--shards {options.shards}: between 1 and {MOST_SHARDS}", status=USAGE)
    if not options.image.strip():
        raise CommandError("--image is empty: name the image that the cluster is to pull", status=USAGE)
    if crds_only:
        return dump(crd_manifests(), output)
    if namespaces and rbac_only:
        return dump([role for name in namespaces for role in tenant_rights(name, options, account)], output)
    if namespaces:
        return dump([manifest for name in namespaces for manifest in tenant(name, options)], output)
    if rbac_only:
        return dump(list(rights(options)), output)
    return dump(list(installation(options)), output)


def render_values(path: str, options: InstallOptions, output: Format, *, others: bool) -> str:
    """Return the manifests that the Helm chart renders for a values file, as text.

    Only the namespace to install into is taken from `options`. Raises CommandError if `options` or `others` show that
    the command line has any other option.
    """
    from vworkspace_app.install.chart_values import chart_values, values_documents  # the validator is slow to import

    if others or options != InstallOptions(namespace=options.namespace):
        raise CommandError(
            "--values says what the other options say: give --system-namespace alone with it", status=USAGE
        )
    if not _LABEL.fullmatch(options.namespace):
        raise CommandError(f"--system-namespace {options.namespace}: not the name of a namespace", status=USAGE)
    documents = [value for _, value in read_values(path)]
    if len(documents) > 1:
        raise CommandError(f"{path}: holds {len(documents)} documents; a values file is one")
    try:
        values = chart_values(documents[0] if documents else {})
    except ValidationProblems as error:
        raise CommandError(f"{path}: {error}") from error
    return dump(list(values_documents(values, options.namespace)), output)


def _check_names(options: InstallOptions, namespaces: Sequence[str]) -> None:
    """Raise CommandError if an option names a namespace whose name is invalid."""
    named = (("--system-namespace", options.namespace), *(("--namespace", name) for name in namespaces))
    if options.velero_namespace:
        named = (*named, ("--velero-namespace", options.velero_namespace))
    for flag, name in named:
        if not _LABEL.fullmatch(name):
            raise CommandError(f"{flag} {name}: not the name of a namespace", status=USAGE)


def _check_parts(options: InstallOptions, account: str, *, crds_only: bool, rbac_only: bool, tenant: bool) -> None:
    """Raise CommandError if the options request several parts that cannot be printed together."""
    if crds_only and (tenant or rbac_only):
        other = "--namespace" if tenant else "--rbac-only"
        raise CommandError(f"--crds-only and {other} print different things: give one of them", status=USAGE)
    if account and not (rbac_only and tenant):
        message = "--account is for one account of a managed namespace: give --rbac-only and --namespace"
        raise CommandError(message, status=USAGE)
    if options.user and not rbac_only:
        message = "--user is for --rbac-only: what is installed runs as its service account"
        raise CommandError(message, status=USAGE)


def _check_use(options: InstallOptions, *, crds_only: bool, rbac_only: bool, tenant: bool) -> None:
    """Raise CommandError for an option that has no effect on the requested manifests."""

    def given(*scopes: OptionScope) -> str:
        """Return the flags of options in these scopes that differ from their defaults."""
        fields = [field for field in attrs.fields(InstallOptions) if field.metadata.get("scope") in scopes]
        changed = [field.name for field in fields if getattr(options, field.name) != getattr(_PLAIN, field.name)]
        return ", ".join(_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in changed)

    of_roles = () if rbac_only and not tenant else (OptionScope.ROLES,)
    if (crds_only or rbac_only or tenant) and (flags := given(OptionScope.OPERATOR, *of_roles)):
        other = "--crds-only" if crds_only else "--namespace" if tenant else "--rbac-only"
        raise CommandError(f"{flags}: says nothing about what {other} prints", status=USAGE)
    if not tenant and (flags := given(OptionScope.NAMESPACE)):
        raise CommandError(f"{flags}: is for what a managed namespace needs; give --namespace", status=USAGE)


def _check_agent(options: InstallOptions, *, whole: bool) -> None:
    """Raise CommandError if the option for the cluster id is missing, superfluous or invalid.

    Without an agent, the manifests of the operator (`whole`) require the id. With an agent the id is not allowed.
    """
    if options.agent and options.cluster_id:
        raise CommandError("--cluster-id is for --no-agent: else the credentials Secret names it", status=USAGE)
    if whole and not options.agent and not options.cluster_id:
        raise CommandError(f"--no-agent needs --cluster-id: what the label {CLUSTER_ID} says on objects", status=USAGE)
    if options.cluster_id and not is_label_value(options.cluster_id):
        raise CommandError(f"--cluster-id {options.cluster_id}: not the value of a label: {LABEL_RULE}", status=USAGE)


def chosen_settings(given: list[str]) -> dict[str, str]:
    """Return the settings given as KEY=VALUE by the flag `--setting`. Raises CommandError."""
    try:
        return read_settings(given)
    except ValueError as error:
        raise CommandError(f"--setting {error}", status=USAGE) from error


def labels_of(given: list[str], *, asked: bool) -> dict[str, str]:
    """Return the labels given as KEY=VALUE by `--service-monitor-label`.

    Raises CommandError for a malformed label, and if labels are given although no object that gets them is `asked` for.
    """
    if given and not asked:
        raise CommandError(
            "--service-monitor-label is for --service-monitor and --prometheus-rule: give one of them", status=USAGE
        )
    labels = dict(pair.partition("=")[::2] for pair in given)
    if wrong := [key for key, value in labels.items() if not key or not is_label_value(value)]:
        raise CommandError(
            f"--service-monitor-label {', '.join(wrong)}: give KEY=VALUE, such as release=prometheus", status=USAGE
        )
    return labels


def read_authority(path: Path) -> bytes:
    """Return the PEM certificates in a file. Raises CommandError if the file has none."""
    try:
        pem = path.read_bytes()
        ssl.create_default_context(cadata=pem.decode())
    except (ssl.SSLError, ValueError) as error:  # an SSLError is an OSError too
        raise CommandError(f"--webhook-ca {path}: holds no certificate in PEM form") from error
    except OSError as error:
        raise CommandError(f"--webhook-ca {path}: cannot be read: {error.strerror}") from error
    return pem


def manifests(
    *,
    crds_only: Annotated[bool, Parameter(help="Only the CustomResourceDefinitions.", negative="")] = False,
    rbac_only: Annotated[
        bool,
        Parameter(
            help="Only roles and bindings of the operator: its own, or those in Velero's or a managed namespace that "
            "another option names. What runs stays as it is.",
            negative="",
        ),
    ] = False,
    account: Annotated[
        str,
        Parameter(help="With --rbac-only and --namespace: only this account, of releases or Operations, and its role."),
    ] = "",
    namespace: Annotated[
        list[str] | None,
        Parameter(
            help="Only what this managed namespace needs: the operator's Role, and the accounts that releases and "
            "Operations run as; repeatable.",
            negative="",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        Parameter(help="NAME=VALUE: a setting of run, in the place of the profile's; repeatable.", negative=""),
    ] = None,
    webhook_ca: Annotated[
        Path | None,
        Parameter(
            help="Configure the admission webhooks; their certificate, in the Secret vworkspace-operator-webhook-tls, "
            "is signed by the authority in this PEM file."
        ),
    ] = None,
    service_monitor_label: Annotated[
        list[str] | None,
        Parameter(
            help="KEY=VALUE that Prometheus selects these two by, such as release=prometheus; repeatable.", negative=""
        ),
    ] = None,
    no_tenant_roles: Annotated[
        bool,
        Parameter(
            help="Leave out the ClusterRoles by which people may read or write instances and Operations who have view, "
            "edit or admin in a namespace.",
            negative="",
        ),
    ] = False,
    values: Annotated[
        str,
        Parameter(
            help="A values file of the Helm chart (- is standard input): print what the chart would install for it, "
            "tenants included. In the place of the other options, but for --system-namespace."
        ),
    ] = "",
    no_agent: Annotated[
        bool,
        Parameter(
            help="Without a control plane: reconcile what people and GitOps tools apply; needs --cluster-id.",
            negative="",
        ),
    ] = False,
    options: Annotated[InstallOptions, Parameter(name="*")] = _PLAIN,
    output: Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")] = Format.YAML,
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
    labels = labels_of(service_monitor_label or [], asked=options.service_monitor or options.prometheus_rule)
    options = attrs.evolve(
        options,
        settings=chosen_settings(setting or []),
        webhook_ca=b"" if webhook_ca is None else read_authority(webhook_ca),
        service_monitor_labels=labels if options.service_monitor else {},
        prometheus_rule_labels=labels if options.prometheus_rule else {},
        agent=not no_agent,
        tenant_roles=not no_tenant_roles,
    )
    if values:
        others = crds_only or rbac_only or bool(namespace or account)
        print(render_values(values, options, output, others=others), end="")
        return
    if re.search(EXAMPLE_REGISTRY, options.image):
        print(f"warning: --image {options.image} {NO_SUCH_REGISTRY}", file=sys.stderr)
    text = render_manifests(
        options, output, crds_only=crds_only, rbac_only=rbac_only, namespaces=namespace or (), account=account
    )
    print(text, end="")
