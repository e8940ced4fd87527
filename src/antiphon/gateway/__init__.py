"""A gateway: many servers as one, whose asks one host answers."""

from __future__ import annotations

from antiphon.machine.public_names import make_name_loader

__getattr__ = make_name_loader(__name__)
