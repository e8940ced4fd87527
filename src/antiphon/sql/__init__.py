"""Databases, for the host's store and the servers' states alike: SQLite files, and PostgreSQL.

``location`` reads where one is, ``runner`` runs transactions there, ``prepared`` the statements of every request, and
``patience`` bounds how long anybody waits. What is kept, and in which tables, is the business of who keeps it.
"""
