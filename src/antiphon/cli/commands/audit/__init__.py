"""``antiphon audit``: what happened to each ask, whether the record is intact, and what was spent."""
