"""The CEL libraries of Kubernetes for URLs, IP addresses and networks."""

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv6Address, NetmaskValueError
from typing import Any, Final

from purekube.cel.library.standard import text_of
from purekube.cel.limits import EvaluationError, no_overload
from purekube.cel.signatures import function, text_cost
from purekube.cel.values import Address, Network, Url

_URL: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/?]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?",
    re.S,
)
_HOST: Final = re.compile(
    r"(?:[^@ ]*@)?(?P<shown>(?P<name>\[[0-9A-Fa-f:.%]*\]|[^:\[\] #%]*)(?::(?P<port>\d*))?)", re.ASCII
)
_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_PLAIN_PATH: Final = re.compile(r"(?:[A-Za-z0-9$&+,/:;=@_.~!'()*\[\]-]|%[0-9A-Fa-f]{2})*")
_SAFE_IN_PATHS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~$&+,/:;=@")
_LONGEST: Final = 64


def _address(text: str) -> Address | None:
    """Return the IP address in a string.

    Return None if Kubernetes refuses it, because it has a zone or leading zeros, or is IPv4 mapped to IPv6.
    """
    try:
        if ":" in text:
            address = IPv6Address(text) if "%" not in text and len(text) <= _LONGEST else None
            return None if address is None or address.ipv4_mapped is not None else address
        return IPv4Address(text) if len(text) <= _LONGEST else None
    except (AddressValueError, ValueError):
        return None


def _network(text: str) -> Network | None:
    host, slash, prefix = text.partition("/")
    address = _address(host)
    if address is None or not slash or not prefix.isascii() or not prefix.isdigit() or len(prefix) > 3:
        return None
    # netip.ParsePrefix of Go takes no leading zero.
    if (len(prefix) > 1 and prefix[0] == "0") or int(prefix) > address.max_prefixlen:
        return None
    return Network(address, int(prefix))


def _to_address(value: Any) -> Address:
    address = _address(text_of(value))
    if address is None:
        raise EvaluationError(f"{value[:_LONGEST]!r} is no IP address")
    return address


def _to_network(value: Any) -> Network:
    try:
        network = _network(text_of(value))
    except NetmaskValueError:
        network = None
    if network is None:
        raise EvaluationError(f"{value[:_LONGEST]!r} is no network such as 10.0.0.0/8")
    return network


def _method(run: Callable[[Any], Any], *types: type) -> Callable[[Any], Any]:
    """Return a function that calls `run` for values of `types` and fails for values of other types."""

    def called(value: Any) -> Any:
        if not isinstance(value, types):
            raise no_overload()
        return run(value)

    return called


def _of_address(run: Callable[[Address], Any]) -> Callable[[Any], Any]:
    return _method(run, IPv4Address, IPv6Address)


def _of_network(run: Callable[[Network], Any]) -> Callable[[Any], Any]:
    return _method(run, Network)


def _is_canonical(text: Any) -> bool:
    return str(_to_address(text)) == text_of(text)


def _is_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        # As IsLinkLocalMulticast of Go: 224.0.0.0/24, and for IPv6 the scope 2 (RFC 4291, section 2.7).
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2


def _is_global(address: Address) -> bool:
    # As IsGlobalUnicast of Go, for which private addresses are global.
    broadcast = isinstance(address, IPv4Address) and address.packed == b"\xff\xff\xff\xff"
    excluded = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (broadcast or excluded)


def _contains_address(network: Any, what: Any) -> bool:
    address = _to_address(what) if isinstance(what, str) else what
    if not isinstance(network, Network) or not isinstance(address, (IPv4Address, IPv6Address)):
        raise no_overload()
    return bool(address in network.network)


def _contains_network(network: Any, what: Any) -> bool:
    other = _to_network(what) if isinstance(what, str) else what
    if not isinstance(network, Network) or not isinstance(other, Network):
        raise no_overload()
    return other.prefix >= network.prefix and other.address in network.network


def _masked(network: Network) -> Network:
    return Network(network.network.network_address, network.prefix)


# --- URLs ------------------------------------------------------------------------------------------------------------


def parse_url(text: str) -> Url | None:
    """Return the URL in `text`, which must be absolute or a path that begins with a slash; None for any other string.

    The results are those of Go: a URL such as `mailto:a@b` has an empty path, and a fragment (`#…`) is dropped.
    """
    if text == "*":
        return Url("", "", "", "", "*", ())  # the target of `OPTIONS *`, which Go's net/url reads as a path
    match = _URL.fullmatch(text)
    if match is None or _CONTROL.search(text):
        return None
    scheme, host, path, query = match.groups("")
    place = _HOST.fullmatch(host)
    if place is None or not (scheme or text.startswith("/")) or not _is_host(place["name"]):
        return None
    if path.startswith("/") and _is_badly_escaped(path):  # what follows `mailto:` is opaque: Go does not look into it
        return None
    shown, name, port = place.groups("")
    escaped = _escaped_path(path) if path.startswith("/") else ""
    return Url(scheme.lower(), shown, name.strip("[]"), port, escaped, _query(query))


def _is_host(name: str) -> bool:
    """Report whether a host in brackets is an IPv6 address, with or without a zone; True for any other host."""
    try:
        return not name.startswith("[") or bool(IPv6Address(name.strip("[]").partition("%")[0]).packed)
    except AddressValueError:
        return False


def is_url(text: str) -> bool:
    """Report whether a string is an absolute URL, or a path that begins with a slash."""
    return parse_url(text) is not None


def _is_badly_escaped(text: str) -> bool:
    return "%" in _ESCAPED.sub("", text)


def _escaped_path(path: str) -> str:
    if _PLAIN_PATH.fullmatch(path):
        return path
    return "".join(chr(byte) if byte in _SAFE_IN_PATHS else f"%{byte:02X}" for byte in _bytes(path))


def _unescaped(text: str) -> str:
    return _bytes(text).decode(errors="replace")


def _bytes(text: str) -> bytes:
    """Return the bytes of a percent-encoded string in UTF-8."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text.encode().decode("latin-1")).encode("latin-1")


def _query(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    values: dict[str, tuple[str, ...]] = {}
    for pair in text.split("&"):
        if not pair or ";" in pair or _is_badly_escaped(pair):
            continue  # as in Go
        name, _, value = pair.replace("+", " ").partition("=")
        key = _unescaped(name)
        values[key] = (*values.get(key, ()), _unescaped(value))
    return tuple(values.items())


def _url(value: Any) -> Url:
    if isinstance(value, Url):
        return value
    url = parse_url(text_of(value))
    if url is None:
        raise EvaluationError(f"{value[:_LONGEST]!r} is no absolute URL or path")
    return url


def _named(name: str, gives: str, run: Callable[[Url], Any]) -> Any:
    return function(f"url.{name}() -> {gives}", _method(run, Url))


FUNCTIONS: Final = (
    function(["url(string) -> url", "url(url) -> url"], _url, cost=text_cost),
    function("isURL(string) -> bool", lambda text: is_url(text_of(text)), cost=text_cost),
    _named("getScheme", "string", lambda url: url.scheme),
    _named("getHost", "string", lambda url: url.host),
    _named("getHostname", "string", lambda url: url.hostname),
    _named("getPort", "string", lambda url: url.port),
    _named("getEscapedPath", "string", lambda url: url.path),
    _named("getQuery", "map(string, list(string))", lambda url: {key: list(values) for key, values in url.query}),
    function("ip(string) -> ip", _to_address),
    function("isIP(string) -> bool", lambda text: _address(text_of(text)) is not None),
    function("ip.isCanonical(string) -> bool", _is_canonical),
    function("ip.family() -> int", _of_address(lambda value: value.version)),
    function("ip.isUnspecified() -> bool", _of_address(lambda value: value.is_unspecified)),
    function("ip.isLoopback() -> bool", _of_address(lambda value: value.is_loopback)),
    function("ip.isLinkLocalMulticast() -> bool", _of_address(_is_local_multicast)),
    function("ip.isLinkLocalUnicast() -> bool", _of_address(lambda value: value.is_link_local)),
    function("ip.isGlobalUnicast() -> bool", _of_address(_is_global)),
    function("cidr(string) -> cidr", _to_network),
    function("isCIDR(string) -> bool", lambda text: _network(text_of(text)) is not None),
    function("cidr.ip() -> ip", _of_network(lambda value: value.address)),
    function("cidr.prefixLength() -> int", _of_network(lambda value: value.prefix)),
    function("cidr.masked() -> cidr", _of_network(_masked)),
    function(["cidr.containsIP(ip) -> bool", "cidr.containsIP(string) -> bool"], _contains_address),
    function(["cidr.containsCIDR(cidr) -> bool", "cidr.containsCIDR(string) -> bool"], _contains_network),
)
