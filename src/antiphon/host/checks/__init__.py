"""The checks of an ask: shape, policy, limits, risks, secrets, and text made visible."""
