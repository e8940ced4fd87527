"""``antiphon doctor``: checks this machine, or one server."""
