"""A small model to train from scratch: a folder with random weights, a tokenizer and a table for the transport cost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError
from instruct.base.models import model_path, whole_folder

END = "<|endoftext|>"
TABLE = "cost_table.safetensors"
# A word with the space before it, so that tokens put together are the text to the letter.
_PIECE = r" ?[^\s]+| ?\n|\s"


def make_word_model(
    folder: Path, texts: Iterable[str], words: int, table_model: str, unknown: str = " <unk>", **shape: Any
) -> None:
    """Write a model of whole words: a Llama with random weights, a tokenizer of the most frequent words of `texts`, and
    TABLE, with each word's vector in another model: the mean of its tokens' rows in that model's head.

    A folder that exists is left as it is.

    Args:
        words: the size of the vocabulary.
        table_model: the other model's name.
        unknown: what stands for all other words. PTB and WikiText contain `<unk>` themselves.
        shape: arguments of LlamaConfig, such as `hidden_size`.

    Raises:
        InputError: no words, or the other model cannot be read.
    """
    if (folder / "config.json").is_file():
        return
    import torch
    from safetensors.torch import save_file
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    from instruct.objectives import load_cost_table

    tokenizer = Tokenizer(models.WordLevel({END: 0, unknown: 1}, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECE), "isolated")
    tokenizer.decoder = decoders.Fuse()
    trainer = trainers.WordLevelTrainer(vocab_size=words, special_tokens=[END], show_progress=False)
    tokenizer.train_from_iterator([unknown, *texts], trainer)
    if tokenizer.get_vocab_size() < 3:
        raise InputError("the texts have no words; give others")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)
    other = AutoTokenizer.from_pretrained(model_path(table_model))
    head = load_cost_table(model_path(table_model)).float()
    ids_of: dict[str, int] = tokenizer.get_vocab()
    vocabulary = sorted(ids_of, key=ids_of.__getitem__)
    rows = [
        [other.eos_token_id] if word == END else other(word, add_special_tokens=False)["input_ids"]
        for word in vocabulary
    ]
    with whole_folder(folder) as making:
        fast.save_pretrained(making)
        save_file({"table": torch.stack([head[ids].mean(dim=0) for ids in rows])}, making / TABLE)
        _save_model(making, fast, shape)


def make_small_model(folder: Path, tokenizer_model: str, **shape: Any) -> None:
    """Write a small Llama with random weights and another model's tokenizer, whose head can be the table.

    A folder that exists is left as it is. Arguments as in `make_word_model`.
    """
    if (folder / "config.json").is_file():
        return
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_path(tokenizer_model))
    with whole_folder(folder) as making:
        tokenizer.save_pretrained(making)
        _save_model(making, tokenizer, shape)


def _save_model(folder: Path, tokenizer: Any, shape: dict[str, Any]) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    end = tokenizer.eos_token_id
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        tie_word_embeddings=True,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        **shape,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
