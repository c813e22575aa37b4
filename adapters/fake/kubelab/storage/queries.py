"""Query strings, parsed into the server's options."""

from collections.abc import Mapping

from kubelab.model.failure import bad_request
from kubelab.storage.listing import ListOptions


def flag(query: Mapping[str, str], name: str) -> bool:
    """Report whether a boolean parameter is set: present, and neither "false" nor "0"."""
    return name in query and query[name].lower() not in ("false", "0")


def list_options(query: Mapping[str, str]) -> ListOptions:
    """Return the options of a list, a watch or a collection's delete. Raises ApiFailure 400 for a malformed number."""
    timeout = query.get("timeoutSeconds")
    return ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=_number(query.get("limit") or "0"),
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        send_initial_events=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
        allow_bookmarks=flag(query, "allowWatchBookmarks"),
        timeout_seconds=_number(timeout or "0") or None,
    )


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error
