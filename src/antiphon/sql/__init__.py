"""Databases, for the host's store and servers' states: SQLite files, and PostgreSQL.

``database_store`` finds a database by its address and bounds waiting for it, ``runner`` runs transactions, ``prepared``
runs frequent statements, and ``notices`` hears what a server says by itself. The callers own their tables.
"""
