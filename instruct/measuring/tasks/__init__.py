"""Few-shot tasks: a model reads demonstrations and a text, and the most probable label is its answer."""
