"""The commands that bring the operator into a cluster and out of it: `manifests`, `register`, `uninstall`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from purekube_run.process.yaml_documents import Format
from vworkspace_app import VERSION


def manifests(
    *,
    crds_only: Annotated[bool, Parameter(help="Only the CustomResourceDefinitions.", negative="")] = False,
    rbac_only: Annotated[
        bool,
        Parameter(
            help="Only roles and bindings of the operator: its own, or those in Velero's or a gated namespace that "
            "another option names. What runs stays as it is.",
            negative="",
        ),
    ] = False,
    user: Annotated[
        str,
        Parameter(help="With --rbac-only: who runs the operator outside the cluster; else its service account."),
    ] = "",
    account: Annotated[
        str,
        Parameter(help="With --rbac-only and --namespace: only this account, of releases or Operations, and its role."),
    ] = "",
    namespace: Annotated[
        list[str] | None,
        Parameter(
            help="Only what this gated namespace needs: the operator's Role, and the accounts that releases and "
            "Operations run as; repeatable.",
            negative="",
            consume_multiple=False,
        ),
    ] = None,
    release_account: Annotated[
        str, Parameter(help="With --namespace: the account that Flux installs releases as.")
    ] = "vworkspace-release",
    release_role: Annotated[
        str,
        Parameter(help="With --namespace: a ClusterRole, such as edit, for that account; else a Role is printed."),
    ] = "",
    workflows: Annotated[
        bool,
        Parameter(help="With --namespace: grant Operations by Argo Workflows what their pods need.", negative=""),
    ] = False,
    quota: Annotated[
        int,
        Parameter(
            help="With --namespace: also print a ResourceQuota of so many instances, and four times as many Operations."
        ),
    ] = 0,
    system_namespace: Annotated[str, Parameter(help="The operator's own namespace.")] = "vworkspace-system",
    velero_namespace: Annotated[
        str, Parameter(help="Velero's namespace, where it is installed: grant the operator its Backups and Restores.")
    ] = "",
    image: Annotated[
        str, Parameter(help="Image of the operator, at best by digest: registry.example.com/operator@sha256:….")
    ] = f"vworkspace-operator:{VERSION}",
    image_pull_policy: Annotated[
        Literal["", "Always", "IfNotPresent", "Never"],
        Parameter(help="When the image is pulled; else the cluster's default: by tag once, latest always."),
    ] = "",
    profile: Annotated[
        Literal["multi-tenant", "single-tenant"],
        Parameter(
            help="multi-tenant: signed jobs, no image for Jobs until --setting allowed-images=… names them. "
            "single-tenant: everybody who may write instances may do anything in the cluster."
        ),
    ] = "multi-tenant",
    setting: Annotated[
        list[str] | None,
        Parameter(
            help="NAME=VALUE: a setting of run, in the place of the profile's; repeatable.",
            negative="",
            consume_multiple=False,
        ),
    ] = None,
    webhook_ca: Annotated[
        Path | None,
        Parameter(
            help="Configure the admission webhooks; their certificate, in the Secret vworkspace-operator-webhook-tls, "
            "is signed by the authority in this PEM file."
        ),
    ] = None,
    cert_manager: Annotated[
        bool, Parameter(help="Configure the admission webhooks, with a certificate by cert-manager.", negative="")
    ] = False,
    service_monitor: Annotated[bool, Parameter(help="Add a ServiceMonitor for Prometheus.", negative="")] = False,
    prometheus_rule: Annotated[
        bool, Parameter(help="Add a PrometheusRule with the alerts of docs/observability.", negative="")
    ] = False,
    service_monitor_label: Annotated[
        list[str] | None,
        Parameter(
            help="KEY=VALUE that Prometheus selects these two by, such as release=prometheus; repeatable.",
            negative="",
            consume_multiple=False,
        ),
    ] = None,
    owner_reference_protection: Annotated[
        bool,
        Parameter(
            help="The cluster runs the admission plugin OwnerReferencesPermissionEnforcement: grant what it asks for.",
            negative="",
        ),
    ] = False,
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
    cluster_id: Annotated[
        str, Parameter(help="With --no-agent: what the label app.vworkspace.io/cluster-id says on objects here.")
    ] = "",
    shards: Annotated[
        int,
        Parameter(help="How many Deployments share the namespaces, each with a standby; docs/shards.md tells when."),
    ] = 1,
    output: Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")] = Format.YAML,
) -> None:
    """Print what is to be installed, as YAML for `kubectl apply -f -`: the operator, and the CRDs by `--crds-only`.

    Deleting the CRDs deletes every instance; so no other command prints them. Without `--webhook-ca` or
    `--cert-manager` no admission webhooks: the reconciler applies the same rules. Examples:

        vworkspace-operator manifests --crds-only | kubectl apply --server-side -f -
        vworkspace-operator manifests --image registry.example.com/operator:1 | kubectl apply --server-side -f -
        vworkspace-operator manifests --namespace org-myteam | kubectl apply --server-side -f -
        vworkspace-operator manifests --rbac-only --velero-namespace velero | kubectl apply --server-side -f -
        vworkspace-operator manifests --no-agent --cluster-id prod-1 | kubectl apply --server-side -f -
        vworkspace-operator manifests --values my-values.yaml | kubectl apply --server-side -f -
    """
    from vworkspace_app.commands.manifests import (
        chosen_settings,
        labels_of,
        read_authority,
        render_manifests,
        render_values,
    )
    from vworkspace_app.install import InstallOptions
    from vworkspace_app.install.profiles import Profile

    labels = labels_of(service_monitor_label or [], asked=service_monitor or prometheus_rule)
    options = InstallOptions(
        namespace=system_namespace,
        velero_namespace=velero_namespace,
        release_account=release_account,
        release_role=release_role,
        workflows=workflows,
        quota=quota,
        image=image,
        pull_policy=image_pull_policy,
        profile=Profile(profile),
        settings=chosen_settings(setting or []),
        webhook_ca=b"" if webhook_ca is None else read_authority(webhook_ca),
        cert_manager=cert_manager,
        service_monitor=service_monitor,
        service_monitor_labels=labels if service_monitor else {},
        prometheus_rule=prometheus_rule,
        prometheus_rule_labels=labels if prometheus_rule else {},
        owner_reference_protection=owner_reference_protection,
        agent=not no_agent,
        cluster_id=cluster_id,
        shards=shards,
        tenant_roles=not no_tenant_roles,
        user=user,
    )
    if values:
        others = crds_only or rbac_only or bool(namespace or account)
        print(render_values(values, options, output, others=others), end="")
        return
    text = render_manifests(
        options, output, crds_only=crds_only, rbac_only=rbac_only, namespaces=namespace or (), account=account
    )
    print(text, end="")


def register(
    *,
    control_plane_url: Annotated[str, Parameter(help="Base URL of the control plane.")],
    registration_token_file: Annotated[Path, Parameter(help="File with the one-time registration token.")],
    cluster_id: Annotated[str, Parameter(help="Id of this cluster; default: the one the token is for.")] = "",
    display_name: Annotated[str, Parameter(help="What the control plane is to call this cluster.")] = "",
    namespace: Annotated[
        str, Parameter(name=("--system-namespace", "--namespace"), help="The operator's own namespace.")
    ] = "vworkspace-system",
    kubeconfig: Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")] = None,
    ca_file: Annotated[
        Path | None, Parameter(help="PEM file with the authority to trust at the control plane.")
    ] = None,
    print_secret: Annotated[
        bool, Parameter(name="--print", help="Print the Secret as YAML instead of writing it.", negative="")
    ] = False,
    allow_http_control_plane: Annotated[
        bool, Parameter(help="Let the token go to another machine over plain http://.", negative="")
    ] = False,
) -> None:
    """Exchange a one-time token for this cluster's credential, and write the Secret `vworkspace-agent-credentials`.

    May be repeated with the same token until the operator has used the credential. Examples:

        vworkspace-operator register --control-plane-url https://odoo.example.com --registration-token-file token
        vworkspace-operator register --control-plane-url https://odoo.example.com \
            --registration-token-file token --print | kubectl apply --server-side -f -
    """
    from vworkspace_app.commands.register import RegisterOptions, run_register

    run_register(
        RegisterOptions(
            control_plane_url=control_plane_url,
            registration_token_file=registration_token_file,
            cluster_id=cluster_id,
            display_name=display_name,
            namespace=namespace,
            kubeconfig=kubeconfig,
            ca_file=ca_file,
            print_secret=print_secret,
            allow_http=allow_http_control_plane,
        )
    )


def uninstall(
    *,
    keep_applications: Annotated[
        bool,
        Parameter(help="Leave every release running, with Flux alone; without it they are uninstalled.", negative=""),
    ] = False,
    dry_run: Annotated[bool, Parameter(help="Only tell each step.", negative="")] = False,
    yes: Annotated[bool, Parameter(name=("--yes", "-y"), help="Do not ask.", negative="")] = False,
    system_namespace: Annotated[str, Parameter(help="The operator's own namespace.")] = "vworkspace-system",
    timeout: Annotated[int, Parameter(help="Seconds to wait for each thing to go.")] = 600,
    kubeconfig: Annotated[Path | None, Parameter(help="Kubeconfig of an administrator.")] = None,
) -> None:
    """Take the operator out of a cluster: applications, operator, CRDs, in this order, telling each step.

    May be repeated: it goes on where it stopped. Examples:

        vworkspace-operator uninstall --dry-run
        vworkspace-operator uninstall --keep-applications
    """
    from vworkspace_app.commands.uninstall import UninstallOptions, run_uninstall

    run_uninstall(
        UninstallOptions(
            keep_applications=keep_applications,
            dry_run=dry_run,
            yes=yes,
            system_namespace=system_namespace,
            timeout=float(timeout),
            kubeconfig=kubeconfig,
        )
    )
