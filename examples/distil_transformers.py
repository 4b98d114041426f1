"""Distil a tiny causal model of transformers: from logits with `DistillationLoss`, and without logits on its head.

Run: python examples/distil_transformers.py [STEPS]

Both models are initialised at random, so nothing is downloaded. With `accelerate` installed the first part runs in the
`Trainer` of transformers, whose `compute_loss` is all that changes; without it, in a plain loop with the same loss.
With `trl` installed a third part trains with the loss of its GKD trainer and with ours in its place.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from kullback.losses import DistillationLoss, distillation, linear_distillation

VOCABULARY, LENGTH, BATCH = 512, 16, 8


def make_model(width: int, seed: int) -> LlamaForCausalLM:
    """A causal model of one layer."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=LENGTH,
            initializer_range=0.2,
        )
    )


def make_batches(steps: int) -> list[dict[str, torch.Tensor]]:
    """Random tokens; a real data set has text here."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(VOCABULARY, (steps * BATCH, LENGTH), generator=generator)
    return [{"input_ids": row, "attention_mask": torch.ones_like(row)} for row in ids]


def logits_loss(student: Any, teacher: Any, inputs: dict[str, torch.Tensor], criterion: DistillationLoss) -> Any:
    """The loss of a batch; padded tokens are left out."""
    with torch.no_grad():
        teacher_logits = teacher(**inputs).logits
    return criterion(student(**inputs).logits, teacher_logits, mask=inputs["attention_mask"].bool())


class DistillationTrainer(Trainer):  # type: ignore[misc]
    """`Trainer` with a teacher."""

    def __init__(self, *, teacher: Any, **options: Any) -> None:
        super().__init__(**options)
        self.teacher, self.criterion = teacher.eval(), DistillationLoss("forward")

    def _get_train_sampler(self, *_: Any) -> Any:
        """The batches in their order, so that all parts of this example see the same ones."""
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        """Called by `Trainer` at each step."""
        loss = logits_loss(model, self.teacher, inputs, self.criterion)
        return (loss, model(**inputs)) if return_outputs else loss


def train_from_logits(student: Any, teacher: Any, steps: int) -> list[float]:
    """The loss at every step, with `Trainer` where it can run."""
    if importlib.util.find_spec("accelerate") is None:
        print("accelerate is not installed: a plain loop instead of transformers.Trainer")
        criterion = DistillationLoss("forward")
        return plain_loop(student, lambda inputs: logits_loss(student, teacher, inputs, criterion), steps)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            learning_rate=1e-2,
            lr_scheduler_type="constant",
            weight_decay=1e-2,  # the default of torch.optim.AdamW
            max_grad_norm=0.0,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            remove_unused_columns=False,
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = DistillationTrainer(teacher=teacher, model=student, args=arguments, train_dataset=make_batches(steps))
        trainer.train()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def train_without_logits(student: Any, teacher: Any, steps: int) -> list[float]:
    """The same loss from the hidden states and the weights of the heads: no logits of either model exist as a whole."""

    def loss(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            teacher_hidden = teacher.model(**inputs).last_hidden_state
        hidden = student.model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].bool()
        found: torch.Tensor = linear_distillation(
            hidden, student.lm_head.weight, teacher_hidden, teacher.lm_head.weight, mask=mask
        )
        return found

    return plain_loop(student, loss, steps)


def train_gkd(student: Any, teacher: Any, steps: int, *, ours: bool) -> list[float]:
    """GKD's divergence at temperature 2, by the static method of TRL's trainer or by `distillation`."""
    gkd = importlib.import_module("trl.experimental.gkd").GKDTrainer.generalized_jsd_loss

    def loss(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            teacher_logits = teacher(**inputs).logits
        logits = student(**inputs).logits
        if ours:
            mask = inputs["attention_mask"].bool()
            return distillation(logits, teacher_logits, divergence="gkd", beta=0.3, temperature=2.0, mask=mask)
        labels = torch.where(inputs["attention_mask"].bool(), inputs["input_ids"], -100)
        found: torch.Tensor = gkd(logits, teacher_logits, labels=labels, beta=0.3, temperature=2.0)
        return found

    return plain_loop(student, loss, steps)


def plain_loop(student: Any, loss_of: Any, steps: int) -> list[float]:
    """The loss at every step of AdamW."""
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)
    rows, losses = make_batches(steps), []
    for step in range(steps):
        batch = rows[step * BATCH : (step + 1) * BATCH]
        loss = loss_of({name: torch.stack([row[name] for row in batch]) for name in batch[0]})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(steps: int) -> None:
    """Train twice from the same start, and print both curves."""
    teacher = make_model(width=64, seed=1)
    from_logits = train_from_logits(make_model(width=32, seed=2), teacher, steps)
    without_logits = train_without_logits(make_model(width=32, seed=2), teacher, steps)
    curves = {"from logits": from_logits, "without logits": without_logits}
    if importlib.util.find_spec("trl") is not None:
        curves["GKD of TRL"] = train_gkd(make_model(width=32, seed=2), teacher, steps, ours=False)
        curves["GKD, ours"] = train_gkd(make_model(width=32, seed=2), teacher, steps, ours=True)
    for name, losses in curves.items():
        print(f"{name:15} nats, first step {losses[0]:.4f}, last step {losses[-1]:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
