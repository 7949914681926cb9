"""Which few-shot tasks are run, and how."""

from __future__ import annotations

from pydantic import Field, model_validator

from instruct.base.options import Options, Texts
from instruct.measuring.tasks.cards import Rule


class TaskOptions(Options):
    """Few-shot tasks: the model reads demonstrations and a text, and the best label is its answer."""

    cards: Texts = []
    """Tasks, by name or path of their cards: see `instruct list tasks`."""
    folder: str | None = None
    """Where the files are that the cards' `local` sources name (default: the rows come from the hub)."""
    limit: int | None = Field(default=None, ge=1)
    """Only this many test rows of each task, the same for every system: drawn at random; of lm-eval's, the first."""
    rule: Rule = "openicl"
    """`openicl`: the label whose whole prompt has the lowest mean cross-entropy; `sum`: the most probable label."""
    shots: int | None = Field(default=None, ge=0)
    """The number of demonstrations (default: the card's)."""
    variant: str | None = None
    """A variant of the cards' wording, of those cards that have it."""
    retriever: str = "tfidf"
    """Finds the demonstrations: `tfidf`, or a sentence encoder (a folder or hub id; needs sentence-transformers)."""
    lm_eval: Texts = []
    """Tasks of lm-evaluation-harness, by its names or their YAML files (needs the extra `lm-eval`)."""
    lm_eval_shots: int | None = Field(default=None, ge=0)
    """The number of demonstrations in lm-eval's tasks (default: the task's)."""
    chat: bool = False
    """lm-eval's tasks are asked as chats, in the model's chat template; demonstrations are earlier turns."""
    trust_task_code: bool = False
    """A YAML file of an lm-eval task may run the Python functions that it names (`!function`)."""

    @model_validator(mode="after")
    def _names_each_once(self) -> TaskOptions:
        for name in ("cards", "lm_eval"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name}: a task is given twice; remove one")
        if self.chat and self.cards:
            raise ValueError(
                f"chat: is for lm-eval's tasks, and the cards {', '.join(self.cards)} have a text as prompt; "
                "evaluate them in a call of their own"
            )
        return self
