"""Who a server is: what its command line would run, however it is written and wherever it is started.

``wire.origin`` computes hashes of the result; the host decides what is allowed or denied by them.
"""

from __future__ import annotations

from antiphon.identity.command_lines import command_of, identity_of, launch_of
from antiphon.identity.command_lines import may_download

__all__ = ["command_of", "identity_of", "launch_of", "may_download"]
