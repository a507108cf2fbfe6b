"""A layer of a Llama over few rows by five kernels of Triton: each reads its weights once, and launches nothing more.

Rows are those of all texts, R = B * N of them, filled up to ROWS for the multiplication of matrices.  What is summed is
float32; what goes from kernel to kernel is rounded to the type of the model.  A norm is half of the kernel before it,
which multiplies by its weights and sums squares, column block by column block, and half of the kernel behind it, which
adds these up and divides by the root of their mean.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def put_out(
    found, hidden, gain, scaled, squares,  # (ROWS, OUT), and as in `project`
    row, column, count,  # which, (ROWS, 1) and (1, OUT); R
    program, PROGRAMS: tl.constexpr, OUTPUTS: tl.constexpr,
):  # fmt: skip
    """A block of what goes around the layers, and what the next norm wants of it."""
    place, inside = row * OUTPUTS + column, row < count
    rounded = found.to(hidden.dtype.element_ty)
    tl.store(hidden + place, rounded, mask=inside)
    exact = rounded.to(tl.float32)
    tl.store(scaled + place, (exact * tl.load(gain + column).to(tl.float32)).to(rounded.dtype), mask=inside)
    sums = tl.sum(tl.where(inside, exact * exact, 0.0), axis=1)
    rows = tl.arange(0, found.shape[0])
    tl.store(squares + rows * PROGRAMS + program, sums, mask=rows < count)


@triton.jit
def size_of(
    squares, count,  # (R, PROGRAMS): of each row, sums of squares; R
    WIDTH: tl.constexpr, EPSILON: tl.constexpr, PROGRAMS: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """What a norm divides rows of WIDTH columns by, inverted, shape (ROWS,)."""
    row, lane = tl.arange(0, ROWS)[:, None], tl.arange(0, LANES)[None, :]
    sums = tl.load(squares + row * PROGRAMS + lane, mask=(row < count) & (lane < PROGRAMS), other=0.0)
    return tl.rsqrt(tl.sum(sums, axis=1) / WIDTH + EPSILON)


@triton.jit
def begin(
    hidden, gain,  # (R, OUTPUTS), (OUTPUTS,): weights of the first norm
    scaled, squares,  # (R, OUTPUTS), (R, PROGRAMS)
    count,  # R
    OUTPUTS: tl.constexpr, PROGRAMS: tl.constexpr, ROWS: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """What the first norm wants of what goes into the layers; OUT columns a program."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * OUT + tl.arange(0, OUT)[None, :]
    found = tl.load(hidden + row * OUTPUTS + column, mask=row < count, other=0.0)
    put_out(found, hidden, gain, scaled, squares, row, column, count, tl.program_id(0), PROGRAMS, OUTPUTS)


@triton.jit
def project(
    rows,  # (R, INPUTS), times the weights of their norm
    squares,  # (R, PROGRAMS): of what the norm is of
    first, second, third,  # (outputs of each, INPUTS): weights, one below the other
    bias_1, bias_2, bias_3,  # (outputs of each,), if BIASED
    until_1, until_2,  # outputs before the second and the third
    out,  # (R, OUTPUTS)
    count,  # R
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, EPSILON: tl.constexpr, BIASED: tl.constexpr,
    PROGRAMS: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, OUT: tl.constexpr, IN: tl.constexpr,
):  # fmt: skip
    """Three linear layers behind a norm; OUT outputs a program."""
    start = tl.program_id(0) * OUT
    weights, bias, before = first, bias_1, 0
    if start >= until_2:
        weights, bias, before = third, bias_3, until_2
    elif start >= until_1:
        weights, bias, before = second, bias_2, until_1
    row = tl.arange(0, ROWS)[:, None]
    column = start + tl.arange(0, OUT)[None, :]
    found = tl.zeros((ROWS, OUT), tl.float32)
    for at in range(0, INPUTS, IN):
        k = at + tl.arange(0, IN)
        read = tl.load(rows + row * INPUTS + k[None, :], mask=row < count, other=0.0)
        own = tl.load(weights + (column - before) * INPUTS + k[:, None])
        found = tl.dot(read, own, found, input_precision="ieee")
    found *= size_of(squares, count, INPUTS, EPSILON, PROGRAMS, LANES, ROWS)[:, None]
    if BIASED:
        found += tl.load(bias + column - before).to(tl.float32)
    tl.store(out + row * OUTPUTS + column, found.to(out.dtype.element_ty), mask=row < count)


@triton.jit
def project_back(
    rows,  # (R, INPUTS)
    weights,  # (OUTPUTS, INPUTS)
    residual,  # (R, OUTPUTS): what goes around
    gain,  # (OUTPUTS,): weights of the next norm
    hidden, scaled, squares,  # (R, OUTPUTS), (R, OUTPUTS), (R, PROGRAMS)
    count,  # R
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, PROGRAMS: tl.constexpr,
    ROWS: tl.constexpr, OUT: tl.constexpr, IN: tl.constexpr,
):  # fmt: skip
    """The linear layer that ends attention or an MLP, added to what goes around it; OUT outputs a program."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * OUT + tl.arange(0, OUT)[None, :]
    found = tl.zeros((ROWS, OUT), tl.float32)
    for at in range(0, INPUTS, IN):
        k = at + tl.arange(0, IN)
        read = tl.load(rows + row * INPUTS + k[None, :], mask=row < count, other=0.0)
        found = tl.dot(read, tl.load(weights + column * INPUTS + k[:, None]), found, input_precision="ieee")
    found += tl.load(residual + row * OUTPUTS + column, mask=row < count, other=0.0).to(tl.float32)
    put_out(found, hidden, gain, scaled, squares, row, column, count, tl.program_id(0), PROGRAMS, OUTPUTS)


@triton.jit
def gate_up(
    rows,  # (R, INPUTS), times the weights of their norm
    squares,  # (R, PROGRAMS): of what the norm is of
    gate, up,  # (OUTPUTS, INPUTS): weights
    shift,  # (R, OUTPUTS): added to what `up` gives, if SHIFTED
    out,  # (R, OUTPUTS)
    count,  # R
    INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, EPSILON: tl.constexpr, SHIFTED: tl.constexpr,
    PROGRAMS: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, OUT: tl.constexpr, IN: tl.constexpr,
):  # fmt: skip
    """An MLP behind a norm, but for its last linear layer; OUT outputs a program."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * OUT + tl.arange(0, OUT)[None, :]
    gated = tl.zeros((ROWS, OUT), tl.float32)
    found = tl.zeros((ROWS, OUT), tl.float32)
    for at in range(0, INPUTS, IN):
        k = at + tl.arange(0, IN)
        read = tl.load(rows + row * INPUTS + k[None, :], mask=row < count, other=0.0)
        place = column * INPUTS + k[:, None]
        gated = tl.dot(read, tl.load(gate + place), gated, input_precision="ieee")
        found = tl.dot(read, tl.load(up + place), found, input_precision="ieee")
    size = size_of(squares, count, INPUTS, EPSILON, PROGRAMS, LANES, ROWS)[:, None]
    gated, found = gated * size, found * size
    place, inside = row * OUTPUTS + column, row < count
    if SHIFTED:
        found += tl.load(shift + place, mask=inside, other=0.0).to(tl.float32)
    found *= gated * tl.sigmoid(gated)
    tl.store(out + place, found.to(out.dtype.element_ty), mask=inside)


@triton.jit
def rotated(
    rows, gain, cosine, sine,  # first entries of (_, SIZE), (SIZE,), (_, SIZE) and (_, SIZE)
    offset, place, inside,  # of the rows, (M, 1): where they and their angles are, and whether they are
    SIZE: tl.constexpr, EPSILON: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """Both halves of heads, shape (M, SIZE / 2) each, normed if they have a norm, turned by angles of their rows."""
    low = tl.arange(0, SIZE // 2)[None, :]
    high = low + SIZE // 2
    a = tl.load(rows + offset + low, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(rows + offset + high, mask=inside, other=0.0).to(tl.float32)
    if NORMED:
        scale = tl.rsqrt((tl.sum(a * a, axis=1) + tl.sum(b * b, axis=1)) / SIZE + EPSILON)[:, None]
        a *= scale * tl.load(gain + low).to(tl.float32)
        b *= scale * tl.load(gain + high).to(tl.float32)
    turned_a = a * tl.load(cosine + place + low, mask=inside, other=0.0).to(tl.float32)
    turned_a += b * tl.load(sine + place + low, mask=inside, other=0.0).to(tl.float32)
    turned_b = b * tl.load(cosine + place + high, mask=inside, other=0.0).to(tl.float32)
    turned_b += a * tl.load(sine + place + high, mask=inside, other=0.0).to(tl.float32)
    dtype = rows.dtype.element_ty
    return turned_a.to(dtype), turned_b.to(dtype)


@triton.jit
def attend(
    projected,  # (R, (HEADS + 2 KEY_HEADS) SIZE): queries, keys and values
    gain_q, gain_k,  # (SIZE,): weights of the norms of heads, if NORMED
    cosine, sine,  # (R, SIZE): sines signed
    keys, values,  # (B, KEY_HEADS, columns, SIZE): the cache, finite everywhere
    of_text, of_head,  # its strides
    columns,  # (N,), int64, one after the other: where the new ones go
    mask, mask_of_text, mask_of_row,  # (B, N, columns), and its strides: added to scores
    out,  # (R, HEADS SIZE)
    COUNT: tl.constexpr,  # N
    HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, SIZE: tl.constexpr,
    EPSILON: tl.constexpr, NORMED: tl.constexpr,
    NEW: tl.constexpr, QUERIES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A head of keys of a text: its new keys and values are written, and all queries of its group attend.

    BLOCK divides the columns of the cache.
    """
    text, head = tl.program_id(0) // KEY_HEADS, tl.program_id(0) % KEY_HEADS
    GROUP: tl.constexpr = HEADS // KEY_HEADS
    WIDTH: tl.constexpr = (HEADS + 2 * KEY_HEADS) * SIZE
    half = tl.arange(0, SIZE // 2)
    whole = tl.arange(0, SIZE)
    mine = text * of_text + head * of_head
    keys += mine
    values += mine
    start = tl.load(columns)

    new = tl.arange(0, NEW)[:, None]
    is_new = new < COUNT
    at = text * COUNT + new
    offset = at * WIDTH + (HEADS + head) * SIZE
    own_a, own_b = rotated(projected, gain_k, cosine, sine, offset, at * SIZE, is_new, SIZE, EPSILON, NORMED)
    own_value = tl.load(projected + offset + KEY_HEADS * SIZE + whole[None, :], mask=is_new, other=0.0)

    query = tl.arange(0, QUERIES)[:, None]
    row = query % COUNT
    is_query = query < GROUP * COUNT
    at = text * COUNT + row
    offset = at * WIDTH + (head * GROUP + query // COUNT) * SIZE
    a, b = rotated(projected, gain_q, cosine, sine, offset, at * SIZE, is_query, SIZE, EPSILON, NORMED)
    shown = mask + text * mask_of_text + row * mask_of_row

    # The new columns first, from registers: nobody waits for what is written.
    ahead = tl.arange(0, NEW)[None, :]
    own_score = tl.dot(b, tl.trans(own_b), tl.dot(a, tl.trans(own_a), input_precision="ieee"), input_precision="ieee")
    own_seen = tl.load(shown + start + ahead, mask=ahead < COUNT, other=0.0).to(tl.float32)
    own_score = tl.where(ahead < COUNT, own_score * (SIZE**-0.5) + own_seen, -float("inf"))
    most = tl.max(own_score, axis=1)
    own_weight = tl.exp(own_score - most[:, None])
    total = tl.sum(own_weight, axis=1)
    found = tl.dot(own_weight.to(own_value.dtype), own_value, input_precision="ieee")
    into = (start + new) * SIZE
    tl.store(keys + into + half[None, :], own_a, mask=is_new)
    tl.store(keys + into + SIZE // 2 + half[None, :], own_b, mask=is_new)
    tl.store(values + into + whole[None, :], own_value, mask=is_new)
    for before in range(0, start, BLOCK):
        column = before + tl.arange(0, BLOCK)
        place = keys + column[None, :] * SIZE + half[:, None]
        key_a = tl.load(place)
        key_b = tl.load(place + SIZE // 2)
        seen = tl.load(shown + column[None, :]).to(tl.float32)
        value = tl.load(values + column[:, None] * SIZE + whole[None, :])
        score = tl.dot(b, key_b, tl.dot(a, key_a, input_precision="ieee"), input_precision="ieee")
        score = tl.where(column[None, :] < start, score * (SIZE**-0.5) + seen, -float("inf"))
        high = tl.maximum(most, tl.max(score, axis=1))
        weight = tl.exp(score - high[:, None])
        scale = tl.exp(most - high)
        found = tl.dot(weight.to(value.dtype), value, found * scale[:, None], input_precision="ieee")
        total = total * scale + tl.sum(weight, axis=1)
        most = high
    found /= total[:, None]
    offset = at * HEADS * SIZE + (head * GROUP + query // COUNT) * SIZE
    tl.store(out + offset + whole[None, :], found.to(out.dtype.element_ty), mask=is_query)
