"""What was shown, when a decision counts, what became of it, and drafts.

Adds only: an older process leaves the new columns empty.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "revision", "upgrade"]

revision = "v0006"
down_revision = "v0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the table."""
    op.add_column("reviews", sa.Column("hash", sa.Text))
    op.add_column("reviews", sa.Column("release", sa.Double))
    op.add_column("reviews", sa.Column("outcome", sa.Text))
    op.create_table(
        "drafts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
