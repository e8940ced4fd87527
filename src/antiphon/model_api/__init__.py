"""The model API: an endpoint on this machine by which programs that call a vendor's API ask the host instead."""

from __future__ import annotations

from antiphon.machine.public_names import make_name_loader

__getattr__ = make_name_loader(__name__)
