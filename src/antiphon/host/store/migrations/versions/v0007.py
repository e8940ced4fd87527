"""Until when somebody watches, and the parts of answers that have arrived.

Adds only: an older process leaves the new column empty, and its answers are shown when they are complete.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "revision", "upgrade"]

revision = "v0007"
down_revision = "v0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and the table."""
    op.add_column("hosts", sa.Column("watches", sa.Double))
    op.create_table(
        "partials",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("began", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
