"""A small model to train from scratch: a folder with random weights, a tokenizer and a table for the transport cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError
from instruct.base.models import model_path, whole_folder

if TYPE_CHECKING:
    from torch import Tensor

END = "<|endoftext|>"
TABLE = "cost_table.safetensors"
# Of the models that the recipes make.
SHAPE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}
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
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({END: 0, unknown: 1}, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECE), "isolated")
    tokenizer.decoder = decoders.Fuse()
    trainer = trainers.WordLevelTrainer(vocab_size=words, special_tokens=[END], show_progress=False)
    tokenizer.train_from_iterator([unknown, *texts], trainer)
    if tokenizer.get_vocab_size() < 3:
        raise InputError("the texts have no words; give others")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=END)
    ids: dict[str, int] = tokenizer.get_vocab()
    _save_model(folder, fast, shape, word_vectors(sorted(ids, key=ids.__getitem__), table_model, "float32"))


def make_small_model(folder: Path, tokenizer_model: str, **shape: Any) -> None:
    """Write a small Llama with random weights and another model's tokenizer, whose head can be the table.

    A folder that exists is left as it is. Arguments as in `make_word_model`.
    """
    if (folder / "config.json").is_file():
        return
    from transformers import AutoTokenizer

    _save_model(folder, AutoTokenizer.from_pretrained(model_path(tokenizer_model)), shape)


def word_vectors(words: Sequence[str], model: str, dtype: str) -> Tensor:
    """The mean of the rows of each word's tokens in a model's head, (words, width); END is its end token."""
    import torch
    from transformers import AutoTokenizer

    from instruct.objectives import load_cost_table

    tokenizer = AutoTokenizer.from_pretrained(model_path(model))
    head = load_cost_table(model_path(model)).to(getattr(torch, dtype))
    texts = [tokenizer.eos_token if word == END else word for word in words]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    return torch.stack([head[own].mean(dim=0) for own in ids])


def _save_model(folder: Path, tokenizer: Any, shape: dict[str, Any], table: Tensor | None = None) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), tokenizer.eos_token_id)
    config = LlamaConfig(vocab_size=len(tokenizer), tie_word_embeddings=True, **ends, **shape)
    with whole_folder(folder) as making, torch.random.fork_rng():
        torch.manual_seed(0)
        tokenizer.save_pretrained(making)
        if table is not None:
            save_file({"table": table}, making / TABLE)
        LlamaForCausalLM(config).save_pretrained(making)
