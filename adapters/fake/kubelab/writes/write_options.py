"""The options of a write, checked before its body: field manager, force, dry run (S-02 to S-04)."""

from collections.abc import Mapping
from typing import Final

from kubelab.model.calls import Caller, FieldValidation, WriteOptions
from kubelab.model.failure import ApiFailure, invalid
from purekube.apimachinery.errors import StatusCause

# apimachinery: apis/meta/v1/validation/validation.go, FieldManagerMaxLength.
MANAGER_BYTES: Final = 128
"""The longest name of a field manager, in bytes of UTF-8 (S-03)."""


def write_options(query: Mapping[str, str], kind: str) -> WriteOptions:
    """Return the write options in a query string.

    Raises ApiFailure 422 if `dryRun` or `fieldValidation` has a value that does not exist. `kind` is the name of the
    options object in error messages, such as `CreateOptions`.
    """
    dry_run = query.get("dryRun")
    if dry_run not in (None, "", "All"):
        # A query can repeat `dryRun`, so the message shows a list.
        raise _refused(kind, "dryRun", f'Unsupported value: ["{dry_run}"]: supported values: "All"', "NotSupported")
    # apiserver: handlers/rest.go, fieldValidation.
    validation = query.get("fieldValidation") or FieldValidation.WARN
    if validation not in list(FieldValidation):
        message = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        raise _refused(kind, "fieldValidation", message, "NotSupported")
    return WriteOptions(
        field_manager=query.get("fieldManager"),
        force=query.get("force") in ("true", "1"),
        dry_run=dry_run == "All",
        field_validation=FieldValidation(validation),
    )


def check_write(options: WriteOptions, kind: str, *, apply: bool = False) -> None:
    """Raise ApiFailure 422 for a field manager or a `force` that this kind of write does not allow.

    `apply` says that the write is a server-side apply: only then a manager is required and `force` is allowed. A
    manager's name that is too long or has control characters is always refused. `kind` is the name of the options
    object in error messages, such as `PatchOptions`.
    """
    manager = options.field_manager or ""
    # 422 and not 400: kube-apiserver validates PatchOptions as an object of its own (S-02 to S-04).
    if apply and not manager:
        raise _refused(kind, "fieldManager", "Required value: is required for apply patch", "Required")
    if options.force and not apply:
        raise _refused(kind, "force", "Forbidden: may not be specified for non-apply patch", "Forbidden")
    if len(manager.encode()) > MANAGER_BYTES:
        raise _refused(kind, "fieldManager", f"Too long: may not be more than {MANAGER_BYTES} bytes", "TooLong")
    # S-03: a manager's name with a control character is 422, too.
    if not manager.isprintable():
        raise _refused(kind, "fieldManager", f'Invalid value: "{manager}": should only contain printable characters')


def manager_of(options: WriteOptions, caller: Caller) -> str:
    """Return the field manager of a write: the manager in `options` or, if none is given, the default of `caller`.

    The default is the beginning of the caller's User-Agent, up to its first `/`.
    """
    return options.field_manager or caller.default_manager


def _refused(kind: str, field: str, message: str, reason: str = "Invalid") -> ApiFailure:
    return invalid("meta.k8s.io", kind, "", (StatusCause(field, message, f"FieldValue{reason}"),))
