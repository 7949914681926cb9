"""Reward models as engines: a request is a chat that ends with an answer, and the reply's text is its score.

Reward models that were trained as PEFT adapters are merged into their base models, so that any engine loads them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.models import folder_made_of, model_path, whole_folder
from instruct.base.networks import Head, load_adapter, load_network, quiet_loading
from instruct.base.output import warn
from instruct.base.replies import Completion, Failure, Reply
from instruct.engines.base import EngineOptions, Prompt, Request
from instruct.engines.encode import encode_prompt
from instruct.engines.network import BATCH_TOKENS, NetworkEngine, TextRow, batches, padded
from instruct.engines.weights import Weights, is_adapter, model_identity


class RewardEngine(NetworkEngine):
    """A sequence-classification model with one label, or an adapter of one, in transformers; its logit is the score.

    Texts are sorted by length and scored in batches of up to `BATCH_TOKENS`; each batch is yielded when it is done. The
    head computes in float32, as in vLLM.

    Raises:
        InputError: `quantization` is set; when the first request is looked at: the model is no reward model, cannot be
            loaded, or has no chat template.
    """

    score = "logit"  # what the score is, as a part of every key

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        if options.quantization:
            raise InputError(f"{options.subject}: a reward model is not quantized here; leave quantization out")
        folder = Path(options.model).expanduser()
        is_whole = not (folder / "adapter_config.json").is_file() or (folder / "config.json").is_file()
        self._adapter = folder if not is_whole and is_adapter(folder) else None

    @cached_property
    def identity(self) -> dict[str, Any]:
        identity = {**super().identity, "score": self.score}
        if self._adapter is not None:
            identity["model"] = model_identity(str(self._adapter), None)
        return identity

    def check(self) -> None:
        self._check_architecture()

    @cached_property
    def weights(self) -> Weights:
        """Where the weights are: those of the merged model if an adapter was given."""
        if self._adapter is not None:
            folder = _merged_folder(self.options.subject, self._adapter)
            self.options = dataclasses.replace(self.options, model=str(folder))
        return super().weights

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of a reward model, which has a chat template."""
        self._check_architecture()
        tokenizer = super().tokenizer
        if not tokenizer.chat_template:
            raise InputError(
                f"{self.options.subject}: the tokenizer of {self.options.model} has no chat template; choose a "
                "reward model that has one"
            )
        return tokenizer

    @cached_property
    def longest(self) -> int:
        """The most tokens of a prompt with its answer."""
        own = getattr(self.config.get_text_config(), "max_position_embeddings", None) or 1 << 30
        return min(self.options.context_length, own, self.tokenizer.model_max_length)

    @property
    def pad(self) -> int | None:
        """The padding token of the model, not of its tokenizer."""
        return self.config.get_text_config().pad_token_id

    def _check_architecture(self) -> None:
        """Refuse a model that has no head for one score: transformers would make one up."""
        config, options = self.config, self.options
        architectures = config.architectures or ["none"]
        if not architectures[0].endswith("ForSequenceClassification"):
            raise InputError(
                f"{options.subject}: {options.model} is no reward model (its architecture is "
                f"{one_line(architectures[0], 60)}); choose one for sequence classification"
            )
        if config.num_labels != 1:
            raise InputError(
                f"{options.subject}: {options.model} has {config.num_labels} labels; a reward model has one"
            )

    def _loaded(self) -> Any:
        network = self._read("score")
        if hasattr(network, "score"):
            network.score.float()
        return network

    def _read(self, head: Head = "words", **more: Any) -> Any:
        with quiet_loading():
            return super()._read(head, **more)

    def tokens(self, prompt: Prompt) -> int:
        """The length of a prompt and its answer in the model's tokens."""
        (text,) = self._texts([prompt])
        return len(text.ids)

    def _texts(self, prompts: Sequence[Prompt]) -> list[TextRow]:
        """Chats as the model's chat template writes them."""
        texts = [encode_prompt(self.tokenizer, prompt) for prompt in prompts]
        for ids in texts:  # transformers, and so training, reads the last token that is not padding
            while len(ids) > 1 and ids[-1] == self.pad:
                ids.pop()
        return [TextRow(ids) for ids in texts]

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`. A text that exceeds the context is a failure; nothing is cut."""
        failed, fitting = self._fitting(list(requests))
        if failed:
            yield failed
        if not fitting:
            return
        device = self.start().rpartition(" ")[2]
        for places in batches([len(text.ids) for _, text in fitting], BATCH_TOKENS[device]):
            batch = [fitting[place] for place in places]
            scores = self._scores([text for _, text in batch])
            yield [(request, score_reply(text, score)) for (request, text), score in zip(batch, scores, strict=True)]

    def _fitting(self, requests: list[Request]) -> tuple[list[tuple[Request, Reply]], list[tuple[Request, TextRow]]]:
        """Requests that exceed the context, and the others with their texts."""
        failed: list[tuple[Request, Reply]] = []
        fitting: list[tuple[Request, TextRow]] = []
        texts = self._texts([request.prompt for request in requests]) if requests else []
        for request, text in zip(requests, texts, strict=True):
            if (tokens := len(text.ids)) <= self.longest:
                fitting.append((request, text))
            else:
                reason = f"too long: {tokens} tokens exceed the context of {self.longest}"
                failed.append((request, Failure(reason, permanent=True)))
        return failed, fitting

    def _scores(self, texts: list[TextRow]) -> list[float]:
        """The score of each text, computed in one batch."""
        import torch

        ids, mask = padded([text.ids for text in texts], self.pad or 0)
        device = self.network.device
        with torch.inference_mode():
            if not hasattr(self.network, "score"):  # an encoder: attends to both sides, reads its first token
                done = self.network(input_ids=ids.to(device), attention_mask=mask.to(device))
                return done.logits[:, 0].float().tolist()
            # A decoder reads the last token; what follows a text cannot change it, so no mask is needed.
            states = self.network.base_model(input_ids=ids.to(device), use_cache=False).last_hidden_state
            last = mask.sum(1) - 1
            ends = states[torch.arange(len(texts), device=device), last.to(device)]
            return self.network.score(ends.float())[:, 0].tolist()


def score_reply(text: TextRow, score: float) -> Completion:
    """The score of a text, as the text of a reply."""
    return Completion(f"{score:.9g}", prompt_tokens=len(text.ids), completion_tokens=0)


def _merged_folder(subject: str, adapter: Path) -> Path:
    """A folder in the cache with the whole reward model of an adapter, merged on first use.

    The adapter is merged in float32, and the sum is rounded once, to the base model's dtype. The tokenizer is the
    adapter's, or the base model's if training saved none.

    Args:
        subject: who is asked, as error messages name it.
        adapter: a folder saved by TRL's RewardTrainer, or by PEFT for the task SEQ_CLS.

    Raises:
        InputError: it is no reward model's adapter, has no head, or its base model cannot be loaded.
    """
    folder = folder_made_of(str(adapter), model_identity(str(adapter), None))
    if (folder / "config.json").is_file():
        return folder
    from peft import PeftConfig

    try:
        config = PeftConfig.from_pretrained(str(adapter))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{adapter}: PEFT cannot read the adapter ({one_line(error, 100)}); save it again") from error
    if config.task_type not in ("SEQ_CLS", None):  # without a task, the head tells
        raise InputError(
            f"{subject}: {adapter} is no reward model (its adapter's task is {one_line(config.task_type, 40)}); choose "
            "one that was trained for sequence classification (SEQ_CLS)"
        )
    warn(f"instruct: {one_line(adapter, 100)}: merged with its base model, once: {folder}")
    network, tokenizer = _merged(subject, adapter, config)
    with whole_folder(folder) as making:
        network.save_pretrained(making)
        tokenizer.save_pretrained(making)
    return folder


def _merged(subject: str, adapter: Path, config: Any) -> tuple[Any, Any]:
    """The whole model with its head, and its tokenizer."""
    import torch
    from safetensors import safe_open
    from transformers import AutoConfig, AutoTokenizer

    name, revision = str(config.base_model_name_or_path), config.revision
    try:
        base = model_path(name)
        new: list[str] = []
        with quiet_loading():
            network = load_network(base, revision, "score", new_head=new, num_labels=1, dtype=torch.float32)
        dtype = AutoConfig.from_pretrained(base, revision=revision).dtype or torch.float32
        with_tokenizer = adapter if (adapter / "tokenizer_config.json").is_file() else base
        tokenizer = AutoTokenizer.from_pretrained(with_tokenizer, trust_remote_code=False)
    except (InputError, OSError, ValueError, KeyError) as error:
        raise InputError(
            f"{subject}: the base model of {adapter}, {one_line(name, 100)}, cannot be loaded "
            f"({one_line(error, 150)}); correct base_model_name_or_path in its adapter_config.json"
        ) from error
    with safe_open(adapter / "adapter_model.safetensors", "pt") as file:
        saved = list(file.keys())
    for head in new:  # random, unless the adapter has it
        if not any(name.endswith(f".{head}") for name in saved):
            raise InputError(
                f"{subject}: {adapter} has no {head}, which its scores need; train it with modules_to_save: [score]"
            )
    try:
        network = load_adapter(network, adapter).merge_and_unload()
    except InputError:
        raise
    except (ValueError, RuntimeError, KeyError) as error:
        raise InputError(
            f"{adapter}: does not fit its base model {one_line(base, 100)} ({one_line(error, 150)}); save it again"
        ) from error
    # The token that the scores of training do not read; TRL sets it in the model, and saves it with the tokenizer.
    network.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    return network.to(dtype), tokenizer
