"""EMO in a training loop of your own: no Trainer, only `linear_objective_loss`.

python examples/training_loop.py                # the bundled SmolLM2-135M
python examples/training_loop.py MODEL          # a hub id or a local folder
"""

from __future__ import annotations

import sys

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct import linear_objective_loss, model_path
from instruct.objectives import EMO, CosineCost

ROWS = [("Name a primary color.", " Red."), ("What is the capital of France?", " It is Paris.")]


def main(name: str = "smollm2-135m-instruct", steps: int = 5) -> None:
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(model_path(name))
    model = AutoModelForCausalLM.from_pretrained(model_path(name), dtype=torch.float32)
    head = model.get_output_embeddings()
    # The cost stays what it was before training, although the head trains here.
    cost = CosineCost(head.weight.detach().clone())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    # Right-padded token ids; a label of -100 is not trained on: the prompt and the padding.
    token_ids, labels = [], []
    for prompt, completion in ROWS:
        before = tokenizer(prompt).input_ids
        after = [*tokenizer(completion, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
        token_ids.append(torch.tensor(before + after))
        labels.append(torch.tensor([-100] * len(before) + after))
    input_ids = pad_sequence(token_ids, batch_first=True, padding_value=tokenizer.eos_token_id)
    target = pad_sequence(labels, batch_first=True, padding_value=-100)
    attention_mask = pad_sequence([torch.ones_like(row) for row in token_ids], batch_first=True)

    for step in range(steps):
        # (batch, length, width): the states before the head. The model's logits are never computed.
        hidden = model.base_model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)[0]
        # The state at position t predicts token t + 1; then flatten, and keep the positions that are trained on.
        hidden, shifted = hidden[:, :-1], target[:, 1:]
        trained = shifted != -100
        loss, statistics = linear_objective_loss(hidden[trained], head.weight, shifted[trained], EMO(), cost)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        ce = float(statistics.ce / statistics.tokens)
        print(f"step {step}: loss {loss.item():.4f}, ce {ce:.4f}, {int(statistics.tokens)} tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
