"""Fine-tuning with EMO and other objectives beyond cross-entropy, and measuring what it changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from instruct.base.models import model_path
    from instruct.objectives import linear_objective_loss
    from instruct.phases.judge import compare_answers
    from instruct.reporting.compare_logs import compare_logs
    from instruct.reporting.report import Report
    from instruct.training.emo_config import EMOConfig
    from instruct.training.emo_trainer import EMOTrainer

__version__ = "0.1.0"
__all__ = [
    "EMOConfig",
    "EMOTrainer",
    "Report",
    "compare_answers",
    "compare_logs",
    "linear_objective_loss",
    "model_path",
]

_HOMES = {
    "EMOConfig": "instruct.training.emo_config",
    "EMOTrainer": "instruct.training.emo_trainer",
    "Report": "instruct.reporting.report",
    "compare_answers": "instruct.phases.judge",
    "compare_logs": "instruct.reporting.compare_logs",
    "linear_objective_loss": "instruct.objectives",
    "model_path": "instruct.base.models",
}


def __getattr__(name: str) -> Any:
    """The public names, imported on first use: importing torch and TRL takes seconds."""
    if name not in _HOMES:
        raise AttributeError(f"module 'instruct' has no attribute {name!r}")
    import importlib

    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from instruct.base.machine import missing_package

        if needed := missing_package(error):
            raise ImportError(f"instruct.{name}: {needed}", name=error.name) from error
        raise


def __dir__() -> list[str]:
    """What a shell completes: the public names, imported or not."""
    return sorted({*globals(), *__all__})
