"""A model in transformers on this machine: where vLLM is not installed, and for beam search and 4-bit weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from instruct.base.errors import InputError
from instruct.base.replies import Reply
from instruct.engines.base import EngineOptions, Request
from instruct.engines.causal import CausalEngine
from instruct.engines.local import LLAMA_BOS, LLAMA_EOS, LLAMA_PAD, Asked, scored
from instruct.engines.rewards import padded
from instruct.engines.thinking import Budget


class TransformersEngine(CausalEngine):
    """transformers' `generate`, `options.batch` prompts at a time (None: one), padded on the left.

    Beam search stops early, as PandaLM's authors have it (WeOpenML/PandaLM, pandalm/utils/pandalm_inference.py).
    Samples are seeded per batch, by its first request, so they repeat for the same batches only.

    Raises:
        InputError: `tensor_parallel_size` is set, which only vLLM has; when the first request is looked at: 4-bit
            weights without a GPU, weights that cannot be loaded, a label that is not one token.
    """

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        if options.response_schema is not None:
            self.notes.append("asked without its JSON schema, which transformers cannot hold replies to")
        if options.tensor_parallel_size != 1:
            raise InputError(
                f"{options.subject}: tensor_parallel_size {options.tensor_parallel_size} needs vLLM; leave it out, or "
                "set the engine to vllm"
            )

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`."""
        return self._in_batches(requests, self.batch or 1)

    def _answered(self, asked: list[Asked]) -> list[Reply]:
        replies: dict[int, Reply] = {}
        # A row near the context's end must not be pushed past it by its neighbors.
        for kind in sorted({_kind(row) for row in asked}):
            rows = {place: row for place, row in enumerate(asked) if _kind(row) == kind}
            answered = self._scored if kind[-1] else self._generate
            replies |= dict(zip(rows, answered(list(rows.values())), strict=True))
        return [reply for _, reply in sorted(replies.items())]

    def _generate(self, rows: list[Asked]) -> list[Reply]:
        """Replies to rows of one kind."""
        import torch

        self.start()
        decoding, labels = self._decoding(rows[0]), list(self._labels.values())
        longest = max(len(row.ids) for row in rows)
        padding = [longest - len(row.ids) for row in rows]
        ids = [[decoding.pad_token_id] * pad + row.ids for pad, row in zip(padding, rows, strict=True)]
        mask = [[0] * pad + [1] * len(row.ids) for pad, row in zip(padding, rows, strict=True)]
        device = self._network.device
        with self._adapted(rows[0].adapter or ""), torch.random.fork_rng():
            torch.manual_seed(rows[0].seed)
            done = self._network.generate(
                input_ids=torch.tensor(ids, device=device),
                attention_mask=torch.tensor(mask, device=device),
                generation_config=decoding,
                logits_processor=[] if self._budget is None else [_BudgetProcessor(self._budget, longest)],
                output_logits=bool(labels),
                return_dict_in_generate=True,
                **({"stop_strings": list(rows[0].stop), "tokenizer": self._tokenizer} if rows[0].stop else {}),
            )
        answers = done.sequences[:, longest:].tolist()
        logprobs = [None] * len(rows)
        if labels:
            logprobs = done.logits[0].float().log_softmax(-1)[:, labels].tolist()
        return [
            self._completion(row.ids, answer, values)
            for row, answer, values in zip(rows, answers, logprobs, strict=True)
        ]

    def _scored(self, rows: list[Asked]) -> list[Reply]:
        """Replies to rows of one kind whose tokens are scored. What follows a text cannot change it: no mask."""
        import torch

        self.start()
        ids, _ = padded([row.ids for row in rows], self._tokenizer.pad_token_id or 0)
        with self._adapted(rows[0].adapter or ""), torch.inference_mode():
            logits = self._network(input_ids=ids.to(self._network.device), use_cache=False).logits
        replies: list[Reply] = []
        for own, row in zip(logits, rows, strict=True):
            assert row.scored is not None
            z = own[row.scored - 1 : len(row.ids) - 1].float()
            targets = torch.tensor(row.ids[row.scored :], device=z.device)
            values = z.gather(1, targets[:, None])[:, 0] - z.logsumexp(-1)
            tokens = list(zip(values.tolist(), (z.argmax(-1) == targets).tolist(), strict=True))
            replies.append(scored(row, tokens))
        return replies

    def _decoding(self, asked: Asked) -> Any:
        from transformers import GenerationConfig

        decoding = self._options.decoding
        more: dict[str, Any] = {"do_sample": False}
        if asked.temperature > 0:
            more = {"do_sample": True, "temperature": asked.temperature, "top_p": decoding.top_p, "top_k": 0}
        if asked.least:
            more["min_new_tokens"] = asked.least
        if decoding.beams > 1:
            more |= {"num_beams": decoding.beams, "early_stopping": True}
        if decoding.repetition_penalty is not None:
            more["repetition_penalty"] = decoding.repetition_penalty
        pad, begin = self._tokenizer.pad_token_id, self._tokenizer.bos_token_id
        if self._stops == [LLAMA_EOS]:
            pad, begin = LLAMA_PAD, LLAMA_BOS
        return GenerationConfig(
            max_new_tokens=asked.limit,
            eos_token_id=self._stops or None,
            pad_token_id=(self._stops or [0])[0] if pad is None else pad,
            bos_token_id=begin,
            **more,
        )


class _BudgetProcessor:
    """Ends the thinking of each row that has used up its budget (transformers' `LogitsProcessor`)."""

    def __init__(self, budget: Budget, longest: int) -> None:
        self._budget, self._longest = budget, longest

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores (rows, vocabulary) of the next token after `input_ids` (rows, tokens)."""
        for row, ids in enumerate(input_ids.tolist()):
            token = self._budget.forced(ids[: self._longest], ids[self._longest :])
            if token is not None:
                scores[row] = -float("inf")
                scores[row, token] = 0.0
        return scores


def _kind(asked: Asked) -> tuple[Any, ...]:
    """Rows of one kind can be computed together."""
    return asked.adapter or "", asked.limit, asked.least, asked.temperature, asked.stop, asked.scored is not None
