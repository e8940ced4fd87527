"""Who a server is: what its command line would run, whichever way it is spelled and from wherever it is started.

Owns the finding out. The hashes are ``wire.origin``'s; what is allowed or denied by them is the host's business.
"""

from __future__ import annotations

from antiphon.identity.command_lines import command_of, identity_of, launch_of

__all__ = ["command_of", "identity_of", "launch_of"]
