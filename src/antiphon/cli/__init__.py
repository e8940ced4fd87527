"""The ``antiphon`` command: one file for each of its commands. Calls the library and owns nothing but the terminal."""
