"""Ten servers of FastMCP's examples, written anew for FastMCP and for Antiphon by the rules of the migration page."""
