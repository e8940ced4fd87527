"""Ways to obtain a token, one in each module. ``kinds`` says what they have in common."""

from __future__ import annotations
