"""EMOTrainer on tiny models: the loss inside the model, its gradients, and what TRL's trainer promises."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    PhiConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)
from trl import SFTConfig, SFTTrainer

from instruct import EMOConfig, EMOTrainer
from instruct.errors import InputError
from instruct.objectives import EMO
from instruct.objectives.reference import reference_token_loss
from instruct.training.head import attach_objective, output_head

VOCABULARY = 64
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CONFIGS = {
    "llama": lambda tied: LlamaConfig(**SIZES, tie_word_embeddings=tied),
    "qwen": lambda tied: Qwen2Config(**SIZES, tie_word_embeddings=tied),
    "gemma2": lambda tied: Gemma2Config(
        **SIZES, head_dim=8, final_logit_softcapping=5.0, sliding_window=64, tie_word_embeddings=tied
    ),
    "gpt2": lambda tied: GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=128, tie_word_embeddings=tied,
        bos_token_id=1, eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    ),
    "phi": lambda tied: PhiConfig(**SIZES, tie_word_embeddings=tied),
}  # fmt: skip


def tiny_model(architecture: str = "llama", tied: bool = True):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[architecture](tied), attn_implementation="eager")
    with torch.no_grad():  # the default initialisation is so small that every token is as likely as any other
        for parameter in model.parameters():
            parameter.mul_(5)
        bias = getattr(model.get_output_embeddings(), "bias", None)
        if bias is not None:
            bias.normal_()
    return model.float()


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<pad>", "<s>", "</s>", *(f"w{number}" for number in range(VOCABULARY - 3))]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="w0"
    )


def tiny_rows(count: int = 8) -> Dataset:
    generator = torch.Generator().manual_seed(1)

    def words(number: int) -> str:
        return " ".join(f"w{index}" for index in torch.randint(0, VOCABULARY - 3, (number,), generator=generator))

    return Dataset.from_list(
        [{"prompt": words(3 + row % 4), "completion": " " + words(2 + row)} for row in range(count)]
    )


def make_trainer(folder: Path, model=None, cls=EMOTrainer, rows: Dataset | None = None, peft_config=None, **arguments):
    config = SFTConfig if cls is SFTTrainer else EMOConfig
    defaults = {
        "per_device_train_batch_size": 8,
        "max_steps": 1,
        "learning_rate": 0.0,
        "max_length": 64,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "disable_tqdm": True,
        "max_grad_norm": 0.0,
    }
    return cls(
        model or tiny_model(),
        config(str(folder), **{**defaults, **arguments}),
        train_dataset=rows or tiny_rows(),
        processing_class=tiny_tokenizer(),
        peft_config=peft_config,
    )


def captured_gradients(trainer) -> dict[str, torch.Tensor]:
    """The gradients that the optimizer is handed in the trainer's only step."""
    found: dict[str, torch.Tensor] = {}
    trainer.create_optimizer()
    step = trainer.optimizer.step

    def recording_step(*args, **kwargs):
        for name, parameter in trainer.model.named_parameters():
            if parameter.grad is not None:
                found[name] = parameter.grad.detach().clone()
        return step(*args, **kwargs)

    trainer.optimizer.step = recording_step
    trainer.train()
    assert found
    return found


def assert_same_gradients(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    whole = math.sqrt(sum(float(grad.double().square().sum()) for grad in expected.values()))
    difference = math.sqrt(sum(float((found[name] - expected[name]).double().square().sum()) for name in expected))
    assert difference / whole <= tolerance


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("architecture", list(CONFIGS))
@pytest.mark.parametrize(
    "objective",
    [EMO("paper"), EMO("official"), EMO("pypi"), EMO("paper", "emo"), EMO("official", "emo"), EMO("pypi", "emo")],
    ids=lambda objective: f"{objective.variant}-{objective.emphasis}",
)
def test_the_loss_in_the_model_equals_the_reference(architecture, tied, objective):
    """Loss and gradients of every parameter, against float64 from the model's own full logits' hidden states."""
    model = tiny_model(architecture, tied)
    input_ids = torch.randint(3, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(2))
    labels = input_ids.clone()
    labels[:, :5] = -100
    labels[1, 9:] = -100
    head = output_head(model)
    config = model.config

    states = model.base_model(input_ids=input_ids).last_hidden_state[:, :-1]
    responses = labels[:, 1:] != -100
    table = head.weight.detach().clone()
    expected = reference_token_loss(
        states[responses], head.weight, labels[:, 1:][responses], objective, cost_table=table,
        bias=getattr(head, "bias", None), softcap=getattr(config, "final_logit_softcapping", None),
    ).mean()  # fmt: skip
    expected.backward()
    wanted = {
        name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
    }
    model.zero_grad()

    attach_objective(model, objective, None)
    output = model(input_ids=input_ids, labels=labels, objective_loss=True)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-5)
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert_same_gradients(found, wanted, 1e-5)


def test_the_models_own_forward_is_left_as_it_was():
    model = tiny_model("gemma2")
    input_ids = torch.arange(3, 13)[None]
    before = model(input_ids=input_ids, labels=input_ids)
    attach_objective(model, EMO(), None)
    after = model(input_ids=input_ids, labels=input_ids)
    assert torch.equal(before.logits, after.logits)
    assert before.loss == after.loss


def test_mle_is_trls_own_loss_and_gradients(tmp_path):
    theirs = captured_gradients(make_trainer(tmp_path / "trl", tiny_model(), SFTTrainer))
    ours = captured_gradients(make_trainer(tmp_path / "ours", tiny_model(), objective="mle"))
    assert_same_gradients(ours, theirs, 1e-5)


@pytest.mark.parametrize("objective", ["mle", "emo"])
def test_gradient_accumulation_changes_nothing(tmp_path, objective):
    gradients = {
        size: captured_gradients(
            make_trainer(
                tmp_path / str(size),
                tiny_model(),
                objective=objective,
                per_device_train_batch_size=size,
                gradient_accumulation_steps=8 // size,
            )
        )
        for size in (8, 4, 2)
    }
    assert_same_gradients(gradients[4], gradients[8], 1e-5)
    assert_same_gradients(gradients[2], gradients[8], 1e-5)


def test_packing_gives_the_gradients_of_padding(tmp_path):
    rows = tiny_rows()
    padded = captured_gradients(make_trainer(tmp_path / "padded", tiny_model(), rows=rows))
    total = 128
    packed_trainer = make_trainer(
        tmp_path / "packed", tiny_model(), rows=rows, packing=True, max_length=total, per_device_train_batch_size=1
    )
    assert len(packed_trainer.train_dataset) == 1
    packed = captured_gradients(packed_trainer)
    assert_same_gradients(packed, padded, 1e-5)


def test_logged_means_are_token_weighted(tmp_path):
    """Two micro-batches of very different lengths: a mean of means would differ."""
    whole = make_trainer(tmp_path / "whole", tiny_model(), objective="emo", emo_variant="pypi")
    split = make_trainer(
        tmp_path / "split", tiny_model(), objective="emo", emo_variant="pypi", per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
    )  # fmt: skip
    whole.train()
    split.train()
    for name in ("ce", "cost", "ratio", "clamped_fraction", "mean_token_accuracy"):
        assert split.state.log_history[0][name] == pytest.approx(whole.state.log_history[0][name], rel=1e-5), name
    assert whole.state.log_history[0]["num_tokens"] == sum(len(row["input_ids"]) for row in whole.train_dataset)


def test_emo_lowers_its_own_loss(tmp_path):
    trainer = make_trainer(tmp_path, tiny_model(), max_steps=20, learning_rate=5e-3)
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert history[-1]["ce"] < 0.9 * history[0]["ce"]
    assert history[-1]["cost"] < history[0]["cost"]


def test_a_trl_user_changes_the_class_and_nothing_else(tmp_path):
    arguments = SFTConfig(str(tmp_path), max_steps=1, report_to=[], use_cpu=True, bf16=False, save_strategy="no")
    trainer = EMOTrainer(
        model=tiny_model(), args=arguments, train_dataset=tiny_rows(), processing_class=tiny_tokenizer()
    )
    trainer.train()
    assert isinstance(trainer.args, EMOConfig)
    assert trainer.args.objective == "emo"
    assert "ratio" in trainer.state.log_history[0]


def test_lora_trains_the_adapter_alone(tmp_path):
    peft_config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    gradients = captured_gradients(make_trainer(tmp_path, tiny_model(tied=False), peft_config=peft_config))
    assert all("lora_" in name for name in gradients)


def test_a_fixed_cost_is_the_head_as_it_was_an_adaptive_one_as_it_is(tmp_path):
    histories = {}
    for kind in ("fixed", "adaptive"):
        trainer = make_trainer(tmp_path / kind, tiny_model(), max_steps=6, learning_rate=1e-2, transport_cost=kind)
        trainer.train()
        histories[kind] = [entry["cost"] for entry in trainer.state.log_history if "cost" in entry]
    assert histories["fixed"][0] == pytest.approx(histories["adaptive"][0], rel=1e-6)
    assert histories["fixed"][-1] != pytest.approx(histories["adaptive"][-1], rel=1e-4)


def test_evaluation_reports_the_same_statistics(tmp_path):
    trainer = make_trainer(tmp_path, tiny_model(), eval_strategy="no", per_device_eval_batch_size=8)
    metrics = trainer.evaluate(tiny_rows())
    assert metrics["eval_ce"] == pytest.approx(metrics["eval_loss"], rel=1e-5)  # the official variant's value is ce
    assert metrics["eval_cost"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label_smoothing_factor": 0.1}, "label_smoothing_factor"),
        ({"loss_type": "dft"}, "loss_type='dft'"),
        ({"peft_config": LoraConfig(r=2, target_modules=["lm_head"], task_type="CAUSAL_LM")}, "lm_head"),
    ],
)
def test_what_cannot_be_right_is_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(tmp_path, tiny_model(tied=False), **arguments)


@pytest.mark.parametrize(
    "arguments", [{"objective": "emd"}, {"gamma": 2.0, "objective": "mixce"}, {"transport_cost": "x"}]
)
def test_a_wrong_config_is_refused(tmp_path, arguments):
    with pytest.raises(ValueError):
        EMOConfig(str(tmp_path), report_to=[], use_cpu=True, bf16=False, **arguments)


def test_a_model_without_a_head_is_refused():
    from transformers import LlamaModel

    with pytest.raises(InputError, match="has no lm_head"):
        output_head(LlamaModel(CONFIGS["llama"](True)))
