"""The review page: the questions that wait for a person, in a browser on this machine. Needs ``antiphon[host]``.

Knows a store, and neither servers nor clients: decisions are passed by the ``Queue``, as for the terminal.
"""

from __future__ import annotations

from antiphon.machine.public_names import make_name_loader

__getattr__ = make_name_loader(__name__)
