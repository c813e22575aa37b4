"""The tokens of clusters: long-lived tokens, their rotation, and one-time tokens for registration (PULL-8)."""

from collections.abc import Callable
from datetime import datetime, timedelta

import attrs

from vworkspace_fake.controlplane.refusals import ApiRefusal


@attrs.define
class IssuedToken:
    """A long-lived token of one cluster.

    It is refused from `ends` on; None means that it has no end. `used` is True once a request with it was accepted.
    """

    text: str = attrs.field(repr=False)
    cluster_id: str
    ends: datetime | None = None
    used: bool = False


@attrs.define
class Registration:
    """A one-time token with which a cluster obtains its long-lived token, `issued`.

    The answer with the long-lived token may get lost. The one-time token is therefore accepted again until the
    long-lived token has been used.
    """

    text: str = attrs.field(repr=False)
    cluster_id: str
    issued: IssuedToken | None = None


@attrs.define
class TokenBook:
    """All tokens of a control plane. `mint` makes the text of a new token.

    `lifetime` is how long a token is accepted after it was issued; None means forever. After a rotation the old token
    is accepted for the time `grace`. `now` is the clock.
    """

    now: Callable[[], datetime]
    mint: Callable[[], str]
    grace: timedelta
    lifetime: timedelta | None = None
    _tokens: dict[str, IssuedToken] = attrs.field(factory=dict, init=False, repr=False)
    _registrations: dict[str, Registration] = attrs.field(factory=dict, init=False, repr=False)
    _clusters: set[str] = attrs.field(factory=set, init=False)

    def add(self, cluster_id: str, text: str) -> IssuedToken:
        """Accept the token `text` for the cluster `cluster_id` from now on, with no end.

        Return the record of the token, in which an end may be set later.
        """
        self._clusters.add(cluster_id)
        token = self._tokens[text] = IssuedToken(text, cluster_id)
        return token

    def revoke(self, text: str) -> None:
        """Refuse the token `text` from now on."""
        self._tokens.pop(text, None)

    def clusters(self) -> frozenset[str]:
        """Return the id of every cluster that ever had a token or a registration."""
        return frozenset(self._clusters)

    def find(self, text: str) -> IssuedToken | None:
        """Return the token with this text without marking it as used, or None if it is not known."""
        return self._tokens.get(text)

    def cluster_of(self, text: str | None) -> str:
        """Return the id of the cluster of the token `text`, and mark the token as used.

        Raises a 401 ApiRefusal if the token is missing, unknown or expired.
        """
        token = self._tokens.get(text or "")
        if token is None:
            raise ApiRefusal(401, "the token is not known" if text else "a bearer token is required")
        if token.ends is not None and self.now() >= token.ends:
            raise ApiRefusal(401, "the token has expired")
        token.used = True
        return token.cluster_id

    def rotate(self, text: str | None) -> IssuedToken:
        """Return a new token for the cluster of `text`, the present token.

        The present token stays valid for the time `grace`, at most until its own end. Raises a 401 ApiRefusal if it is
        missing, unknown or expired.
        """
        cluster_id = self.cluster_of(text)
        old = self._tokens[text or ""]
        until = self.now() + self.grace
        old.ends = until if old.ends is None else min(old.ends, until)
        return self._issue(cluster_id)

    def offer_registration(self, cluster_id: str) -> str:
        """Return a new one-time token, which `register` exchanges for a long-lived token of `cluster_id`."""
        text = self.mint()
        self._clusters.add(cluster_id)
        self._registrations[text] = Registration(text, cluster_id)
        return text

    def register(self, text: str, cluster_id: str | None) -> IssuedToken:
        """Return a long-lived token in exchange for the one-time token `text`.

        A token that an earlier exchange returned is refused from now on. Raises a 401 ApiRefusal if the one-time token
        is unknown or used up, and 403 if `cluster_id` is given and is not the token's cluster.
        """
        registration = self._registrations.get(text)
        if registration is None or (registration.issued is not None and registration.issued.used):
            raise ApiRefusal(401, "the registration token is not known or was used")
        if cluster_id is not None and cluster_id != registration.cluster_id:
            raise ApiRefusal(403, "the registration token is for another cluster")
        if registration.issued is not None:
            self.revoke(registration.issued.text)
        registration.issued = self._issue(registration.cluster_id)
        return registration.issued

    def _issue(self, cluster_id: str) -> IssuedToken:
        token = self.add(cluster_id, self.mint())
        token.ends = None if self.lifetime is None else self.now() + self.lifetime
        return token
