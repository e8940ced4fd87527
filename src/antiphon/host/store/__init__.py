"""What a host stores: in memory, in a file, or in a database.

Re-exports the names, including the rows. ``base`` has the interface. No database library is imported before a database
is opened.
"""

from __future__ import annotations

from antiphon.machine.public_names import make_name_loader

__getattr__ = make_name_loader(__name__)
