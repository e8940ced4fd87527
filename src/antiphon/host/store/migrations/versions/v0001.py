"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "revision", "upgrade"]

revision = "v0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables, and the two rows that count."""
    _make_money()
    _make_reviews()
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.bulk_insert(head, [{"id": 1, "seq": 0, "hash": "0" * 64}])


def _make_money() -> None:
    op.create_table(
        "hosts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("seen", sa.Double, nullable=False),
    )
    op.create_table(
        "accounts",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("spent_money", sa.BigInteger, nullable=False),
        sa.Column("spent_tokens", sa.BigInteger, nullable=False),
        sa.Column("held_money", sa.BigInteger, nullable=False),
        sa.Column("held_tokens", sa.BigInteger, nullable=False),
        sa.Column("cap_money", sa.BigInteger),
        sa.Column("cap_tokens", sa.BigInteger),
        sa.Column("changed", sa.Double, nullable=False),
    )
    op.create_table(
        "holds",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("ask", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("keys", sa.Text, nullable=False),
        sa.Column("money", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("sent", sa.Boolean, nullable=False),
    )


def _make_reviews() -> None:
    op.create_table(
        "grants",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("given", sa.Double, nullable=False),
        sa.Column("host", sa.Text),
        sa.Column("max_uses", sa.BigInteger),
        sa.Column("until", sa.Double),
        sa.Column("used", sa.BigInteger, nullable=False),
    )
    op.create_index("grants_of_server", "grants", ["identity"])
    op.create_table(
        "blocks",
        sa.Column("identity", sa.Text, primary_key=True),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("by", sa.Text),
    )
    op.create_table(
        "reviews",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("group", sa.Text, nullable=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("expires", sa.Double),
        sa.Column("host", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("item", sa.Text),
        sa.Column("decision", sa.Text),
        sa.Column("by", sa.Text),
        sa.Column("decided", sa.Double),
    )
    op.create_index("reviews_by_state", "reviews", ["state", "created"])
    head = op.create_table(
        "reviews_head",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(head, [{"id": 1, "version": 0}])
