"""What travels: the types of messages, of every revision. Attributes are the names on the wire in snake_case."""

from __future__ import annotations

from antiphon.machine.public_names import make_name_loader

__getattr__ = make_name_loader(__name__)
