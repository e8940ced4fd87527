"""The parts of choosing a model, each pure: what a request needs, what is known, hints, scores, the record."""
