"""Tasks while a model trains: their scores every so many steps, in the training's log and curves.

Imports torch and lm-eval, which may not be installed.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

from instruct.base.errors import InputError
from instruct.data.templates import Rendering
from instruct.engines.local import stop_token_ids
from instruct.engines.weights import context_of
from instruct.measuring.tasks.cards import Rule
from instruct.measuring.tasks.evaluate import prepare_chats, render_chat
from instruct.measuring.tasks.harness import Harness
from instruct.measuring.tasks.lm import in_transformers
from instruct.measuring.tasks.options import TaskOptions

_SUBJECT = "the model that trains"


def tasks_while_training(options: TaskOptions, rendering: Rendering) -> Callable[[Any], TrainerCallback]:
    """A function that makes a trainer's callback.

    Raises:
        InputError: a task that cannot be read.
    """
    options = options.model_copy(update={"engine": "transformers", "base_url": None})
    harness = Harness(options, rendering)
    harness.load_all()
    return lambda trainer: AskTasks(trainer, harness, options, rendering)


class AskTasks(TrainerCallback):
    """Asks the main process' model every `every_steps` steps, and logs `eval_tasks/TASK/METRIC`.

    The training's random states stay as they were.

    Raises:
        InputError: when training begins: a sharded model; with `chat`, one without a chat template.
    """

    def __init__(self, trainer: Any, harness: Harness, options: TaskOptions, rendering: Rendering) -> None:
        self._trainer, self._harness, self._options, self._rendering = trainer, harness, options, rendering

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._trainer.is_fsdp_enabled or self._trainer.is_deepspeed_enabled:
            raise InputError(
                "evaluation.tasks.every_steps: a sharded model (FSDP, DeepSpeed) cannot be asked while it trains; "
                "leave it out, and ask tasks after training"
            )
        # its chat template may change; the trainer's own tokenizer must stay as it is
        self._tokenizer = copy.deepcopy(self._trainer.processing_class)
        prepare_chats(self._options, self._rendering, self._tokenizer, _SUBJECT)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % (self._options.every_steps or state.global_step + 1):
            return
        trains, logs = self._trainer.model.training, control.should_log
        self._trainer.model.eval()  # what is logged in training mode ends the means of losses
        scores: dict[str, float] = {}
        if state.is_world_process_zero:
            with _random_states_kept(), torch.inference_mode(), self._trainer.compute_loss_context_manager():
                scores = self._scores()
        self._trainer.accelerator.wait_for_everyone()
        self._trainer.log(scores)
        control.should_log = logs  # the trainer's own log of this step is still to come
        self._trainer.model.train(trains)

    def _scores(self) -> dict[str, float]:
        network = self._trainer.model
        network = network.get_base_model() if hasattr(network, "get_base_model") else network
        context = context_of(network.config) or 1 << 30
        stops = stop_token_ids(self._tokenizer, network.name_or_path)
        scores = {}

        @contextlib.contextmanager
        def asked(rule: Rule) -> Iterator[Any]:
            with in_transformers(network, self._tokenizer, rule, context, stops) as lm:
                if self._options.chat:
                    lm.apply_chat_template = functools.partial(render_chat, self._tokenizer, self._rendering)
                yield lm

        with contextlib.ExitStack() as stack:
            for part in self._harness.parts:
                for number in self._harness.evaluate(lambda rule: stack.enter_context(asked(rule)), part).numbers:
                    if number.value is not None:
                        scores[f"eval_tasks/{number.details.task}/{number.metric}"] = number.value
        return scores


@contextlib.contextmanager
def _random_states_kept() -> Iterator[None]:
    """lm-eval sets the seeds of Python, NumPy and torch."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        yield
    random.setstate(python)
    np.random.set_state(numpy)
