"""The parts of choosing a model, all pure: needs of a request, known facts, hints, scores, the record."""
