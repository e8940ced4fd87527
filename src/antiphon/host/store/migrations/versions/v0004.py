"""Summaries of the audit, so that a person can look at it without reading all of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "revision", "upgrade"]

revision = "v0004"
down_revision = "v0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, empty: they are filled when somebody looks."""
    op.create_table(
        "asks",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("ask", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("ending", sa.Text, nullable=False),
        sa.Column("found", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("asks_by_name", "asks", ["host", "ask"])
    op.create_index("asks_of_server", "asks", ["identity", "seq"])
    op.create_index("asks_by_ending", "asks", ["ending", "seq"])
    op.create_table(
        "spent",
        sa.Column("day", sa.Text, primary_key=True),
        sa.Column("identity", sa.Text, primary_key=True),
        sa.Column("model", sa.Text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    gathered = op.create_table(
        "gathered",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(gathered, [{"id": 1, "seq": 0}])
