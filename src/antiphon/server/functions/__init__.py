"""From a Python function to a feature: its signature, schema, arguments, results and threads."""
