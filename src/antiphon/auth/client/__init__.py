"""The client's side of signing in.

``oauth`` is what a user sets. ``access`` decides what a request carries and what is done when it was refused;
``sign_in`` obtains tokens, by one of the ``grants``; ``renewal`` renews them, once for all processes that share them.
``discovery`` finds the authorization server, ``registration`` what we are called there, ``scopes`` what to ask for.
``fetch`` makes the HTTP requests of all these, ``token_endpoint`` those for tokens. ``store`` keeps logins.
"""

from __future__ import annotations
