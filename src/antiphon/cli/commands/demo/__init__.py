"""A demonstration: a shop in which new products keep arriving, each described by the model of the client."""
