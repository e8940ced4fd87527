"""The loop of an agent: a model, the tools that it may call, and the host's stages around each call of either."""
