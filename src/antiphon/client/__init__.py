"""The client: calls to a server, and answers to what it asks, on every revision.

Lists what programs may import besides the classes of ``antiphon`` itself; each name is loaded on first use.
"""

from __future__ import annotations

from antiphon.machine.public_names import make_name_loader

__getattr__ = make_name_loader(__name__)
