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
    """The folder with the files that the cards' `local` sections name (default: the rows come from the hub)."""
    limit: int | None = Field(default=None, ge=1)
    """The number of test rows of each task, the same for every system: of cards drawn at random, else the first."""
    rule: Rule = "openicl"
    """`openicl`: the label whose whole prompt has the lowest mean cross-entropy, of cards with this rule; `sum`: always
    the most probable label, as lm-eval's `acc`."""
    shots: int | None = Field(default=None, ge=0)
    """The number of demonstrations (default: the task's)."""
    cluster_column: str | None = None
    """Rows with the same value in this column are one cluster (default: those with the same passage or question);
    `doc_id`: rows with the same place in their splits, of tasks that ask the same in several languages."""
    seeds_of_demonstrations: int = Field(default=1, ge=1)
    """How often each row is asked, with other demonstrations drawn each time; scores are means over the draws."""
    variant: str | None = None
    """A variant of the wording, of cards that have it."""
    retriever: str = "tfidf"
    """Finds the demonstrations: `tfidf`, or a sentence encoder (a folder or hub id; needs sentence-transformers)."""
    lm_eval: Texts = []
    """Tasks of lm-eval by name, also those whose name a card has."""
    engine: Literal["transformers", "vllm", "server"] = "transformers"
    """What runs the tasks; the rule openicl needs transformers, `vllm` is faster where answers are generated."""
    base_url: str | None = None
    """The OpenAI-compatible server of engine: server."""
    chat: bool = False
    """Ask in the model's chat template; demonstrations are earlier turns."""
    trust_task_code: bool = False
    """Run the Python functions that the YAML file of a task names (`!function`)."""

    @property
    def named(self) -> bool:
        """Whether there is a task to ask."""
        return bool(self.cards or self.lm_eval)

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
        for name in ("cards", "lm_eval"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name}: a task is given twice; remove one")
        return self
