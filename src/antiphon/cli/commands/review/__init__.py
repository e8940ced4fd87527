"""``antiphon review``: the questions that wait for a person, in a terminal or in a script."""
