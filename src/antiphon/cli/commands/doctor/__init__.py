"""``antiphon doctor``: this machine, or one server, examined."""
