"""``antiphon.toml``: which models a user has, and what servers may do with them.

Owns the file's shape, its reading, and what holds where there is none. What is done with it is the host's business.
"""

from __future__ import annotations

from antiphon.host.config.files import config_paths, load_config
from antiphon.host.config.shape import Budget, Caps, Config, ServerEntry, Settings

__all__ = ["Budget", "Caps", "Config", "ServerEntry", "Settings", "config_paths", "load_config"]
