"""``antiphon.toml``: a user's models, and what servers may do with them.

Owns the form of the file, reading it, and the defaults without one.
"""

from __future__ import annotations

from antiphon.host.config.settings import ServerBudget, Caps, Config, ServerEntry, ServerSettings
from antiphon.host.config.toml_files import config_paths, load_config

__all__ = ["Caps", "Config", "ServerBudget", "ServerEntry", "ServerSettings", "config_paths", "load_config"]
