"""Lookahead decoding: the window says what the target says, and what it finds is drafted."""

import torch

from otspec.decode import run
from otspec.decode.drafters.lookahead import LookaheadDrafter
from otspec.decode.methods import Lookahead
from otspec.verification.trees.topology import Topology
from tests.decode.models import greedy_text, logits_after, pair


def _lines(tree: Topology) -> list[list[int]]:
    return [tree.token[tree.line(node)].tolist() for node in range(tree.size)]


def test_the_window_holds_what_the_target_puts_after_its_guesses() -> None:
    """Step by step as the loop takes them; n-grams of the window are drafted when their first token comes up."""
    target, width, ngram = pair(20)[0], 3, 3
    text = [4, 9, 2, 4]
    drafter = LookaheadDrafter(2, width, ngram, 0)
    drafter.start([text])
    seen = {tuple(text[at : at + ngram]) for at in range(len(text) - ngram + 1)}
    for _ in range(6):
        tree = drafter.draft([text], width + ngram - 2).trees[0]
        lines = _lines(tree)
        [window] = drafter._windows
        columns, rows = window.columns, window._rows
        assert [len(column) for column in columns] == [at + ngram - 1 for at in range(width)]
        assert all(column in lines for column in columns)
        drafted = [line for line in lines if len(line) == ngram - 1 and (text[-1], *line) in seen]
        assert len(drafted) >= min(2, len({one for one in seen if one[0] == text[-1]}))
        after = [int(logits_after(target, [*text, *line]).argmax()) for line in lines]
        drafter.learn([tree], after)
        new = [int(logits_after(target, [*text, *column]).argmax()) for column in columns]
        assert window._rows == [*rows[1:], new]
        seen |= {(*(row[at] for row in rows), new[at]) for at in range(width)}
        node, accepted = 0, list[int]()
        while [*accepted, after[node]] in lines:
            accepted.append(after[node])
            node = lines.index(accepted)
        start = len(text)
        text += [*accepted, after[node]]
        seen |= {tuple(text[at : at + ngram]) for at in range(start - ngram + 1, len(text) - ngram + 1)}
        drafter.commit([[]], [0])
    assert text == greedy_text(target, [4, 9, 2, 4], len(text) - 4)


def test_the_window_moves_on_with_the_text() -> None:
    drafter = LookaheadDrafter(2, 3, 3, 0)
    drafter.start([[5, 6, 7]])
    tree = drafter.draft([[5, 6, 7]], 4).trees[0]
    drafter.learn([tree], list(range(100, 100 + tree.size)))
    [window] = drafter._windows
    rows = [list(row) for row in window._rows]
    drafter.draft([[5, 6, 7, 1, 2, 3]], 4)  # two tokens beside the one of every step
    assert [row[0] for row in window._rows] == [row[2] for row in rows]
    assert all(token in (5, 6, 7) for row in window._rows for token in row[1:])
    drafter.draft([[5, 6, 7, 1, 2, 3, *range(10, 20)]], 4)
    assert all(len(row) == 3 and set(row) <= {5, 6, 7} for row in window._rows)


def test_fewer_calls_where_the_target_repeats_itself() -> None:
    target, prompt = pair(5)[0], [1, 2, 3, 1, 2]
    generation = run(target, Lookahead(2, 2, 3), torch.tensor([prompt]), max_new_tokens=40, temperature=0)
    assert generation.sequences[0].tolist() == greedy_text(target, prompt, 40)
    assert generation.metrics.target_calls < 35
