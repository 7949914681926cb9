"""Objectives with a reference: the base under the adapter."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PromptTuningConfig
from train_configs import tiny_config, write_rows
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct import EMOConfig, EMOTrainer
from instruct.base.errors import InputError
from instruct.objectives.built_in import ASFT, GIFT, OBJECTIVES, TargetSFT
from instruct.objectives.torch_kernels import losses_of
from instruct.training.frozen import check_base

TEXTS = ["the night was dark and it was fine", "a cat sat on the mat", "rain and wind all night", "so it was"]
READ_THE_BASE = [name for name, kind in OBJECTIVES.items() if getattr(kind, "reference", None)]


def trainer(tmp_path, model, **options) -> EMOTrainer:
    arguments = {
        "max_steps": 3,
        "per_device_train_batch_size": 2,
        "learning_rate": 0.05,
        "use_cpu": True,
        "bf16": False,
    }
    arguments |= {"report_to": "none", "save_strategy": "no", "logging_steps": 1, "lr_scheduler_type": "constant"}
    arguments |= {key: options.pop(key) for key in tuple(options) if key in arguments}
    lora = options.pop("lora", LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    return EMOTrainer(
        AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
        EMOConfig(str(tmp_path / "out"), **arguments, **options),
        train_dataset=Dataset.from_dict({"text": TEXTS}),
        processing_class=AutoTokenizer.from_pretrained(model),
        peft_config=lora,
    )


def expected_loss(loss, model, reference, batch) -> float:
    """The mean over the batch's labels of the loss on dense logits."""
    labels = batch["labels"][:, 1:]
    kept = labels != -100
    with torch.no_grad():
        logits, other = (
            each(input_ids=batch["input_ids"]).logits[:, :-1][kept].double() for each in (model, reference)
        )
    return float(loss.losses(logits, labels[kept], other).mean())


def evaluated(trained, batch=None) -> tuple[float, dict]:
    """The loss of a batch of the rows, without a gradient, and the batch."""
    batch = batch or next(iter(trained.get_eval_dataloader(trained.train_dataset)))
    with torch.no_grad():
        return float(trained.compute_loss(trained.model.eval(), dict(batch))), batch


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [("asft", {"weight": 0.3}, ASFT), ("target_sft", {"eta": 0.7}, TargetSFT), ("gift", {"beta": 2.0}, GIFT)],
)
def test_the_reference_is_the_base_whatever_is_trained(tiny_model, tmp_path, name, arguments, kind):
    base, loss = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval(), kind(**arguments)
    trained = trainer(tmp_path, tiny_model, objective=name, objective_args=arguments)
    trained.train()
    found, batch = evaluated(trained)
    assert found == pytest.approx(expected_loss(loss, trained.model, base, batch), rel=1e-4)
    assert found != pytest.approx(expected_loss(loss, trained.model, trained.model, batch), rel=1e-3)  # it has moved


def test_a_frozen_rule_reads_the_bases_probabilities(tiny_model, tmp_path):
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()
    trained = trainer(tmp_path, tiny_model, objective="frozen")
    trained.train()
    found, batch = evaluated(trained)
    kept = batch["labels"][:, 1:] != -100
    labels = batch["labels"][:, 1:][kept][:, None]
    with torch.no_grad():
        logits = [each(input_ids=batch["input_ids"]).logits[:, :-1][kept].double() for each in (trained.model, base)]
    logs, base_logs = (each.log_softmax(-1).gather(1, labels) for each in logits)
    assert found == pytest.approx(float((-base_logs.exp() * logs).mean()), rel=1e-4)


def test_full_training_has_no_base(tiny_model, tmp_path):
    assert READ_THE_BASE == ["asft", "frozen", "gift", "target_sft"]
    for name in READ_THE_BASE:
        with pytest.raises(ValueError, match="the one under the adapter, and full training has none; train with LoRA"):
            trainer(tmp_path, tiny_model, objective=name, lora=None)


def test_full_training_is_refused_before_another_system_trains(tiny_model_folder, tmp_path):
    from instruct.phases.train import check_training

    systems = {"mle": {"objective": "mle"}, "ours": {"objective": "asft"}}
    rows = write_rows(tmp_path / "rows.jsonl")
    with pytest.raises(InputError, match=r"systems\.ours: the objective reads the model before training"):
        check_training(tiny_config(tiny_model_folder, rows, systems=systems, lora=None), tmp_path / "run")
    check_training(tiny_config(tiny_model_folder, rows, systems=systems), tmp_path / "run").close()


UNFAITHFUL = {
    "bias all": {"bias": "all"},
    "bias lora_only": {"bias": "lora_only"},
    "init_lora_weights olora": {"init_lora_weights": "olora"},
    "init_lora_weights pissa": {"init_lora_weights": "pissa"},
}


@pytest.mark.parametrize("what", UNFAITHFUL)
def test_an_adapter_without_which_the_model_is_not_the_base_is_refused(tiny_model, tmp_path, what):
    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", **UNFAITHFUL[what])
    with pytest.raises(ValueError, match=f"{what} .*: set it to"):
        trainer(tmp_path, tiny_model, objective="asft", lora=lora)


def test_a_trained_prompt_has_no_base_to_switch_to(tiny_model, tmp_path):
    prompt = PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    with pytest.raises(ValueError, match="PROMPT_TUNING has no adapter to switch off"):
        trainer(tmp_path, tiny_model, objective="asft", lora=prompt)


def test_what_cannot_be_a_reference_is_refused(tiny_model, tmp_path):
    with pytest.raises(ValueError, match="which FSDP and DeepSpeed would shard"):
        check_base(AutoModelForCausalLM.from_pretrained(tiny_model), sharded=True)
    lora = LoraConfig(r=4, target_modules="all-linear", modules_to_save=["lm_head"], task_type="CAUSAL_LM")
    with pytest.raises(ValueError, match="lm_head must be frozen"):
        trainer(tmp_path, tiny_model, objective="asft", lora=lora)


def test_without_a_reference_a_loss_has_the_model_itself():
    logits, labels = torch.randn(5, 11, dtype=torch.float64), torch.randint(0, 11, (5,))
    p = logits.softmax(-1).gather(1, labels[:, None])[:, 0]
    assert torch.allclose(losses_of(ASFT(), logits, labels), -p * p.log())
