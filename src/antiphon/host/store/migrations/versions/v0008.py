"""Which releases may still work with a store that a newer one has brought up to date.

Adds only: an older process does not look at it, and goes on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "revision", "upgrade"]

revision = "v0008"
down_revision = "v0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table, with its one row: the oldest revision that may work with the store is this one."""
    table = op.create_table(
        "compatible",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("oldest", sa.Text, nullable=False),
    )
    op.bulk_insert(table, [{"id": 1, "oldest": revision}])
