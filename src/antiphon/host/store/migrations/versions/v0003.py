"""What was charged for the reservations of silent processes, for a settlement that comes late."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "revision", "upgrade"]

revision = "v0003"
down_revision = "v0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make one table. Processes that run already do not know it, and need not."""
    op.create_table(
        "swept",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("keys", sa.Text, nullable=False),
        sa.Column("money", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )
