"""HTTP+SSE, the network transport of revision 2024-11-05: a stream to read from and an address to post to."""
