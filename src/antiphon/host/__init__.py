"""The host decides, with its user, whether a server may use the user's model.

It validates, applies the policy, asks for a review, calls the provider and records what happened. It knows neither
sessions nor transports: it answers ``(params, origin)``, whatever they came by.
"""

from __future__ import annotations

from antiphon.machine.public_names import make_name_loader

__getattr__ = make_name_loader(__name__)
