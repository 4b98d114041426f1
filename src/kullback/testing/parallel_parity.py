"""`assert_parallel_parity`: a function of vocabulary shards on several ranks against one process."""

from __future__ import annotations

from kullback.parallel.parity import ShardedFunction, WholeFunction, run_ranks


def assert_parallel_parity(
    sharded: ShardedFunction, whole: WholeFunction, *, ranks: int = 2, classes: int = 23, rtol: float = 1e-5
) -> None:
    """Check that a divergence of vocabulary shards gives the values and gradients of one process.

    Starts gloo ranks on the CPU of this machine with unequal shards and compares on every rank: ordinary, nearly equal
    and equal rows, excluded classes, large logits, float64; with the loss on every rank and on rank 0 alone. A gradient
    that is too large by the number of ranks is reported as such.

    Args:
        sharded: `(local_p, local_q, group) -> rows` of logits, differentiable; a function of a module, so that another
            process can import it. The group is None, for the default one.
        whole: `(p, q) -> rows` of the whole logits.
        ranks: Number of processes.
        classes: Size of the vocabulary.
        rtol: Largest relative error of a value, and of a gradient relative to the largest of its row.

    Raises:
        AssertionError: With one line for everything that differs.

    Example:
        A file `test_parallel.py`, whose processes import it again:

        ```python
        from kullback import Logits, kl, parallel
        from kullback.testing import assert_parallel_parity

        def sharded(p, q, group):
            return parallel.kl(Logits(p), Logits(q), group=group)

        def whole(p, q):
            return kl(Logits(p), Logits(q))

        def test_kl():
            assert_parallel_parity(sharded, whole, ranks=2)
        ```
    """
    found = run_ranks(sharded, whole, ranks, classes, rtol)
    if found:
        raise AssertionError("The shards disagree with one process:\n  " + "\n  ".join(found))
