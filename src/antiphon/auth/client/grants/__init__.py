"""The ways to obtain a token, each in a module; ``kinds`` has their common interface."""

from __future__ import annotations
