"""``antiphon review``: what waits for a person, in a terminal or in a script."""
