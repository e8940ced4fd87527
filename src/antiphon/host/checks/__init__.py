"""Checks of an ask: validation, policy, limits, risks, secrets, and making invisible characters visible."""
