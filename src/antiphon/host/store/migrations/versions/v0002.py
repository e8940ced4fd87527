"""Where review pages are served, and the browsers that were let in to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "revision", "upgrade"]

revision = "v0002"
down_revision = "v0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the two tables."""
    op.create_table(
        "pages",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("port", sa.Integer, nullable=False),
        sa.Column("used", sa.Double, nullable=False),
    )
    op.create_table(
        "browsers",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("page", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("opened", sa.Double, nullable=False),
    )
