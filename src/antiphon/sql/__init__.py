"""Databases, for the host's store and servers' states: SQLite files, and PostgreSQL.

``location`` reads addresses, ``runner`` runs transactions, ``prepared`` runs frequent statements, ``patience`` bounds
waiting, and ``notices`` hears what a server says by itself. The callers own their tables.
"""
