"""A server that takes access tokens: what lets a request in, and what says where tokens come from."""
