"""``antiphon policy``: what is configured to be allowed, why, and what people have allowed or blocked since."""
