"""Which tasks are run, and how."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from instruct.base.options import Options, Texts
from instruct.engines.base import server_address
from instruct.measuring.tasks.cards import Rule


class TaskOptions(Options):
    """Tasks of lm-evaluation-harness (needs the extra `lm-eval`), among them the cards in `data/tasks`."""

    cards: Texts = []
    """Tasks: cards (see `instruct list tasks`), lm-eval's own by name, or YAML files."""
    folder: str | None = None
    """Where the files are that the cards' `local` sections name (default: the rows come from the hub)."""
    limit: int | None = Field(default=None, ge=1)
    """Only this many test rows of each task, the same for every system: of cards drawn at random, else the first."""
    rule: Rule = "openicl"
    """`openicl`: cards that ask for it take the label whose whole prompt has the lowest mean cross-entropy; `sum`:
    always the most probable label, as lm-eval's `acc`."""
    shots: int | None = Field(default=None, ge=0)
    """The number of demonstrations (default: the task's)."""
    seeds_of_demonstrations: int = Field(default=1, ge=1)
    """How often each row is asked, with other demonstrations drawn each time; scores are means over the draws. Tasks
    whose demonstrations are fixed or retrieved are asked once."""
    variant: str | None = None
    """A variant of the cards' wording, of those cards that have it."""
    retriever: str = "tfidf"
    """Finds the demonstrations: `tfidf`, or a sentence encoder (a folder or hub id; needs sentence-transformers)."""
    forgetting: Texts = []
    """Tasks as in `cards`, also put to the untrained base: the report says what each system lost in them."""
    lm_eval: Texts = []
    """Tasks of lm-eval by name, also those whose name a card has."""
    engine: Literal["transformers", "vllm", "server"] = "transformers"
    """`transformers`; `vllm` is faster where answers are generated, and starts anew for each system; `server` asks for
    the base by its name and for a trained system by the system's name. The rule openicl needs transformers."""
    base_url: str | None = None
    """The OpenAI-compatible server of engine: server."""
    chat: bool = False
    """Ask in the model's chat template; demonstrations are earlier turns."""
    every_steps: int | None = Field(default=None, ge=1)
    """Also ask after every so many steps of training; the scores are in the training's log and curves."""
    trust_task_code: bool = False
    """The YAML file of a task may run the Python functions that it names (`!function`)."""

    @property
    def named(self) -> bool:
        """Whether there is a task to ask."""
        return bool(self.cards or self.forgetting or self.lm_eval)

    @field_validator("base_url")
    @classmethod
    def _address_has_no_secret(cls, url: str | None) -> str | None:
        return url if url is None else server_address(url)

    @model_validator(mode="after")
    def _server_has_an_address(self) -> TaskOptions:
        if (self.engine == "server") != (self.base_url is not None):
            raise ValueError("engine: server requires base_url, and base_url requires engine: server")
        return self

    @model_validator(mode="after")
    def _names_each_once(self) -> TaskOptions:
        for name in ("cards", "forgetting", "lm_eval"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name}: a task is given twice; remove one")
        return self
