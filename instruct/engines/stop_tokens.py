"""The tokens that end an answer."""

from __future__ import annotations

from typing import Any


def stop_token_ids(tokenizer: Any, model: str, revision: str | None = None) -> tuple[int, ...]:
    """The tokenizer's end of text, the generation config's, and the end of a turn in the chat template."""
    from transformers import GenerationConfig as ModelGenerationConfig

    ids = {tokenizer.eos_token_id}
    try:
        ends = ModelGenerationConfig.from_pretrained(model, revision=revision).eos_token_id
        ids |= set(ends) if isinstance(ends, list) else {ends}
    except OSError:  # optional
        pass
    if tokenizer.chat_template:
        turns = [{"role": "user", "content": "question"}, {"role": "assistant", "content": "answer"}]
        text = tokenizer.apply_chat_template(turns, tokenize=False)
        tail = tokenizer(text.rpartition("answer")[2].lstrip(), add_special_tokens=False)["input_ids"]
        if tail and tokenizer.added_tokens_decoder.get(tail[0]) is not None:
            ids.add(tail[0])
    return tuple(sorted(ids - {None}))
