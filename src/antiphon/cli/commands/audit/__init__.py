"""``antiphon audit``: what happened to each ask, whether the record is whole, and what was spent."""
