"""The ``antiphon`` command, one module per subcommand. Calls the library, and owns only the terminal."""
