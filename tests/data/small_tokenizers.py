"""Small tokenizers with each peculiarity, for the tests of tokens and chats."""

from __future__ import annotations

from typing import Any

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def small_tokenizer(
    template: str | None = CHATML, *, before: str = "", after: str = "", eos: str | None = "</s>", **more: Any
) -> Any:
    """A byte-level tokenizer without merges: a token a byte, and `before` and `after` around every plain text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({byte: index for index, byte in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token=eos, **more)
    tokenizer.add_tokens(["<|im_start|>", "<|im_end|>", "</s>"], special_tokens=True)
    around = [token for token in dict.fromkeys((before, after)) if token]
    if around:
        ids = [(token, tokenizer.convert_tokens_to_ids(token)) for token in around]
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single=" ".join(filter(None, (before, "$A", after))), special_tokens=ids
        )
    tokenizer.chat_template = template
    return tokenizer


def text_of(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))
