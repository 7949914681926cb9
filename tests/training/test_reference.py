"""Objectives with a reference model: the base under the adapter, a copy of it, or a teacher."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PromptTuningConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from instruct import EMOConfig, EMOTrainer
from instruct.base.errors import InputError
from instruct.objectives.built_in import ASFT, Distillation, TargetSFT
from instruct.objectives.torch_kernels import losses_of
from instruct.training import frozen
from instruct.training.frozen import frozen_model

TEXTS = ["the night was dark and it was fine", "a cat sat on the mat", "rain and wind all night", "so it was"]


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


def top_answers(logits, k):
    """Log-probabilities of the k likeliest tokens; the others share the rest."""
    p = logits.softmax(-1)
    kept = p >= p.sort(descending=True).values[:, k - 1 : k]
    rest = (1 - (p * kept).sum(-1, keepdim=True)) / (p.shape[1] - k)
    return torch.where(kept, p, rest).log()


class TopDistillation(Distillation):
    def losses(self, logits, labels, *reference):
        return super().losses(logits, labels, top_answers(reference[0], self.top_k))


def evaluated(trained, batch=None) -> tuple[float, dict]:
    """The loss of a batch of the rows, without a gradient, and the batch."""
    batch = batch or next(iter(trained.get_eval_dataloader(trained.train_dataset)))
    with torch.no_grad():
        return float(trained.compute_loss(trained.model.eval(), dict(batch))), batch


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("asft", {"weight": 0.3}, ASFT),
        ("target_sft", {"eta": 0.7}, TargetSFT),
        ("distillation", {"temperature": 2.0}, Distillation),
        ("distillation", {"temperature": 2.0, "top_k": 5}, TopDistillation),
    ],
)
def test_the_reference_is_the_base_whatever_is_trained(tiny_model, tmp_path, name, arguments, kind, lora):
    base, loss = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval(), kind(**arguments)
    options = {} if lora else {"lora": None}
    trained = trainer(tmp_path, tiny_model, objective=name, objective_args=arguments, **options)
    trained.train()
    found, batch = evaluated(trained)
    assert found == pytest.approx(expected_loss(loss, trained.model, base, batch), rel=1e-4)
    assert found != pytest.approx(expected_loss(loss, trained.model, trained.model, batch), rel=1e-3)  # it has moved
    if kind is TopDistillation:
        whole = expected_loss(Distillation(temperature=2.0), trained.model, base, batch)
        assert found != pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize("lora", [True, False])
def test_psft_follows_the_model_of_some_steps_ago_also_when_resumed(tiny_model, tmp_path, lora):
    """The snapshot of step 3 is that of step 2; its weights are the ratio to that model, frozen or cut."""
    options = {"objective": "psft", "objective_args": {"every": 2, "epsilon": 0.05}} | ({} if lora else {"lora": None})
    policies = []

    class Keep(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **_):
            policies.append({name: weight.detach().clone() for name, weight in model.named_parameters()})

    trained = trainer(tmp_path, tiny_model, save_strategy="steps", save_steps=3, **options)
    trained.add_callback(Keep())
    trained.train()
    found, batch = evaluated(trained)
    now = {name: weight.detach().clone() for name, weight in trained.model.named_parameters()}
    kept, probabilities = batch["labels"][:, 1:] != -100, []
    for weights in (policies[1], now):
        trained.model.load_state_dict(weights, strict=False)
        with torch.no_grad():
            logits = trained.model(input_ids=batch["input_ids"]).logits[:, :-1][kept].double()
        probabilities.append(logits.softmax(-1).gather(1, batch["labels"][:, 1:][kept][:, None])[:, 0])
    ratio = probabilities[1] / probabilities[0]
    assert found == pytest.approx(-float(ratio.clamp(max=1.05).mean()), rel=1e-4)
    assert ratio.max() > 1.05
    losses = []
    for checkpoint in (None, str(tmp_path / "out" / "checkpoint-3")):
        trained = trainer(tmp_path, tiny_model, max_steps=4, **options)
        trained.train(resume_from_checkpoint=checkpoint)
        losses.append(trained.state.log_history[-2]["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    (tmp_path / "out" / "checkpoint-3" / "snapshot.safetensors").unlink()
    with pytest.raises(InputError, match=r"snapshot.safetensors: cannot be read; resume from another checkpoint"):
        trainer(tmp_path, tiny_model, max_steps=4, **options).train(resume_from_checkpoint=checkpoint)


@pytest.mark.parametrize("lora", [True, False])
def test_a_snapshot_under_autocast_is_not_what_trains(tiny_model, tmp_path, lora):
    """Autocast keeps casts of weights, by which the model would stay the snapshot."""
    options = {"objective": "psft", "objective_args": {"every": 100, "epsilon": 5.0}} | ({} if lora else {"lora": None})
    logged = {}
    for bf16 in (False, True):
        trained = trainer(tmp_path, tiny_model, bf16=bf16, max_steps=4, learning_rate=0.002, **options)
        trained.train()
        logged[bf16] = [row["loss"] for row in trained.state.log_history if "loss" in row]
    assert logged[False][-1] < -1.02
    assert logged[True] == pytest.approx(logged[False], rel=0.03)


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


def test_answers_of_a_snapshot_are_not_cached(tiny_model, tmp_path):
    with pytest.raises(ValueError, match=r"top_k caches what a reference answers, and a snapshot changes"):
        trainer(tmp_path, tiny_model, objective="distillation", objective_args={"teacher": "snapshot", "top_k": 5})


def test_a_teacher_is_another_model_with_the_same_tokenizer(tiny_model, tmp_path, make_model):
    teacher = make_model(tmp_path / "teacher", seed=7)
    trained = trainer(tmp_path, tiny_model, objective="distillation", objective_args={"teacher": str(teacher)})
    other = AutoModelForCausalLM.from_pretrained(teacher, dtype=torch.float32).eval()
    found, batch = evaluated(trained)
    assert found == pytest.approx(expected_loss(Distillation(str(teacher)), trained.model, other, batch), rel=1e-4)


def test_a_text_that_a_batch_has_twice_counts_twice(tiny_model, tmp_path):
    arguments = {"temperature": 2.0, "top_k": 5}
    trained = trainer(tmp_path, tiny_model, objective="distillation", objective_args=arguments)
    batch = trained.data_collator([trained.train_dataset[0]] * 2)
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()
    found = [evaluated(trained, batch)[0] for _ in ("new", "cached")]
    expected = expected_loss(TopDistillation(**arguments), trained.model, base, batch)
    assert found == pytest.approx([expected] * 2, rel=1e-4)


def losses_of_training(tmp_path, model, top_k, **options) -> list[float]:
    arguments = {"teacher": str(options.pop("teacher", "base")), "top_k": top_k}
    trained = trainer(tmp_path, model, objective="distillation", objective_args=arguments, seed=3, **options)
    trained.train()
    return [entry["loss"] for entry in trained.state.log_history if "loss" in entry]


def test_a_whole_vocabulary_trains_like_the_live_teacher(tiny_model, tmp_path, make_model):
    teacher = make_model(tmp_path / "teacher", seed=7)
    live = losses_of_training(tmp_path, tiny_model, None, teacher=teacher)
    cached = losses_of_training(tmp_path, tiny_model, 10**6, teacher=teacher)
    assert cached == pytest.approx(live, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("packing", [{}, {"packing": True, "max_length": 64, "packing_strategy": "bfd"}])
def test_a_text_is_answered_once_whatever_its_batch(tiny_model, tmp_path, make_model, monkeypatch, packing):
    teacher = make_model(tmp_path / "teacher", seed=7)
    cache = tmp_path / "cache"
    options = {"teacher": teacher, "teacher_cache": str(cache), "max_steps": 4, **packing}
    first = losses_of_training(tmp_path, tiny_model, 5, **options)
    texts = sorted(cache.iterdir())
    assert len(texts) == len(TEXTS)
    calls = []
    monkeypatch.setattr(frozen, "reference_of", lambda *found, **others: calls.append(1) or 1 / 0)
    assert losses_of_training(tmp_path, tiny_model, 5, **options) == first
    options["per_device_train_batch_size"] = 1
    losses_of_training(tmp_path, tiny_model, 5, **options)
    assert not calls
    texts[0].write_bytes(texts[0].read_bytes()[:30])  # a damaged file is a new text
    with pytest.raises(ZeroDivisionError):
        losses_of_training(tmp_path, tiny_model, 5, **options)
    texts[0].unlink()
    monkeypatch.undo()
    other = make_model(tmp_path / "other", seed=8)
    losses_of_training(tmp_path, tiny_model, 5, **options | {"teacher": other})
    assert len(list(cache.iterdir())) == 2 * len(TEXTS) - 1


def test_the_bases_answers_do_not_depend_on_its_adapter(tiny_model, tmp_path):
    for seed in (1, 2):
        lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=seed == 1)
        torch.manual_seed(seed)
        losses_of_training(tmp_path, tiny_model, 5, lora=lora, teacher_cache=str(tmp_path / "cache"))
    assert len(list((tmp_path / "cache").iterdir())) == len(TEXTS)


def test_what_cannot_be_a_reference_is_refused(tiny_model, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    with pytest.raises(ValueError, match="which FSDP and DeepSpeed would shard"):
        frozen_model("base", model, tokenizer, sharded=True, device="cpu")
    with pytest.raises(ValueError, match="reference model nowhere/here: cannot be loaded"):
        frozen_model("nowhere/here", model, tokenizer, sharded=False, device="cpu")
    tokenizer.add_tokens(["another"])
    with pytest.raises(ValueError, match="has another tokenizer"):
        frozen_model(str(tiny_model), model, tokenizer, sharded=False, device="cpu")
    lora = LoraConfig(r=4, target_modules="all-linear", modules_to_save=["lm_head"], task_type="CAUSAL_LM")
    with pytest.raises(ValueError, match="lm_head must be frozen"):
        trainer(tmp_path, tiny_model, objective="asft", lora=lora)


def test_without_a_reference_a_loss_has_the_model_itself():
    logits, labels = torch.randn(5, 11, dtype=torch.float64), torch.randint(0, 11, (5,))
    p = logits.softmax(-1).gather(1, labels[:, None])[:, 0]
    assert torch.allclose(losses_of(ASFT(), logits, labels), -p * p.log())
    assert torch.allclose(losses_of(Distillation(), logits, labels), -0.5 * p.log())
