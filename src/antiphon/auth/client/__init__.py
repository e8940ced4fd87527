"""The client side of authorization.

``oauth`` has the user's settings. ``access`` adds tokens to requests and handles refusals; ``sign_in`` obtains tokens
with one of the ``grants``; ``renewal`` refreshes them, once for all processes that share a store. ``discovery`` finds
the authorization server, ``sign_in`` also the client's identity there, ``scopes`` the scopes to request. ``fetch``
makes HTTP requests, ``token_endpoint`` requests to the token endpoint. ``store`` keeps logins.
"""

from __future__ import annotations
