"""Authorization with OAuth 2.1 (2026-07-28 basic/authorization).

``challenge`` parses ``WWW-Authenticate`` headers and makes DPoP proofs, ``metadata`` has the types of the
metadata documents. ``client`` obtains, stores and sends access tokens; ``server`` verifies them. The libraries of the
extra ``antiphon[auth]`` are imported only when they are needed. Transports do not depend on this package: they are
given the headers of each request. This module lists the public names; each is loaded when it is first used.
"""

from __future__ import annotations

from antiphon.machine.public_names import make_name_loader

__getattr__ = make_name_loader(__name__)
