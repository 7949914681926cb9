"""How a model is asked: batches out, replies in, what is kept and resumed."""
