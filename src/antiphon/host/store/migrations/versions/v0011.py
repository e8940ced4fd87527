"""The asks of tasks, so that a person sees how often a task has asked, and since when.

Adds only: an older process does not count its asks, and goes on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "revision", "upgrade"]

revision = "v0011"
down_revision = "v0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "task_asks",
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("ask", sa.Text, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_index("task_asks_by_time", "task_asks", ["at"])
