"""The coarser identities of blocked servers, so that a block can cover similar servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

__all__ = ["branch_labels", "depends_on", "down_revision", "revision", "upgrade"]

revision = "v0005"
down_revision = "v0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column that may be empty. Processes that run already write rows without it, which block one server."""
    op.add_column("blocks", sa.Column("coarse", sa.Text))
