"""The command-line options that several commands have, such as `--kubeconfig`.

They are not in the module `session`, whose import takes a quarter of a second (SEE-5).
"""

from pathlib import Path
from typing import Annotated, TypeAlias

from purekube_run.process.yaml_documents import Format
from vworkspace_app.arguments import Parameter

Kubeconfig: TypeAlias = Annotated[Path | None, Parameter(help="Kubeconfig; in a cluster its service account.")]
SystemNamespace: TypeAlias = Annotated[str, Parameter(help="The operator's own namespace.")]
Output: TypeAlias = Annotated[Format, Parameter(name=("--output", "-o"), help="yaml or json.")]
Listen: TypeAlias = Annotated[str, Parameter(help="HOST:PORT; port 0 takes a free one.")]
DryRun: TypeAlias = Annotated[bool, Parameter(help="Only tell which objects.", negative="")]
Crds: TypeAlias = Annotated[
    list[Path] | None, Parameter(help="Folder or file with CRDs of the kinds that the box makes or reads; repeatable.")
]
Tenants: TypeAlias = Annotated[
    list[str] | None,
    Parameter(
        name="--namespace",
        help="Only where objects are made in this namespace: a Role there; repeatable. Without it, everywhere.",
    ),
]
Former: TypeAlias = Annotated[
    list[str] | None,
    Parameter(
        help="Instead: a role for pruning this kind, which is not made any more; as Job/jobs.v1.batch, repeatable."
    ),
]
LeaderElect: TypeAlias = Annotated[bool, Parameter(help="Grant the Leases of an election.")]
CertManager: TypeAlias = Annotated[bool, Parameter(help="The same, with a certificate by cert-manager.", negative="")]
