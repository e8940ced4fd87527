"""A server as one of several replicas: the engines that they share, and which replica serves a request over HTTP."""
