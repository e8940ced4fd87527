"""Databases, for the host's store and servers' states: SQLite files, and PostgreSQL.

``location`` reads addresses, ``runner`` runs transactions, ``prepared`` runs frequent statements, and ``patience``
bounds waiting. The callers own their tables.
"""
