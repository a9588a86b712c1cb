"""Loops over the edges of a node as explicit vector code.

Written as plain loops these would not vectorise: the compiler cannot know that the dual, the functions and the
accumulator are different arrays, and the inner loop over a handful of classes is too short to test for it at run time.
Here the row of a node is a fixed number of vector registers, which is what makes the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_INT = ir.IntType(64)

#: Bytes of a vector register (AVX2), and the most classes that are held in registers at a time.
_REGISTER, _BLOCK = 32, 64


def row_type(num_classes: int, dtype: np.dtype) -> np.ndarray:
    """An empty array whose *type* carries the number of classes, so that the compiler sees a constant."""
    return np.empty(0, dtype=np.dtype([("row", dtype, (num_classes,))]))


def _num_classes(row: Any) -> int:
    return int(row.dtype.fields["row"].type.shape[0])


def _lanes(width: int, widest: int) -> list[tuple[int, int]]:
    """Splits ``width`` numbers into (offset, length) pieces of falling powers of two, the registers of a row."""
    pieces, offset, length = [], 0, widest
    while offset < width:
        while length > width - offset:
            length //= 2
        pieces.append((offset, length))
        offset += length
    return pieces


def _blocks(num_classes: int, bits: int) -> list[list[tuple[int, int]]]:
    """The registers of a row, in blocks that fit the machine."""
    starts = range(0, num_classes, _BLOCK)
    widest = 8 * _REGISTER // bits
    return [[(s + o, n) for o, n in _lanes(min(_BLOCK, num_classes - s), widest)] for s in starts]


class _Code:
    """Emits loads, stores and arithmetic on the registers of a row."""

    def __init__(self, context: Any, builder: Any, number: Any) -> None:
        self.builder = builder
        self.type = context.get_value_type(number)
        self.bits = number.bitwidth

    def constant(self, value: int) -> Any:
        return ir.Constant(_INT, value)

    def scalar(self, pointer: Any, position: Any) -> Any:
        return self.builder.load(self.builder.gep(pointer, [position]))

    def _address(self, pointer: Any, position: Any, length: int) -> Any:
        address = self.builder.gep(pointer, [position])
        return self.builder.bitcast(address, ir.VectorType(self.type, length).as_pointer())

    def load(self, pointer: Any, position: Any, length: int) -> Any:
        value = self.builder.load(self._address(pointer, position, length))
        value.align = self.bits // 8
        return value

    def store(self, value: Any, pointer: Any, position: Any, length: int) -> None:
        self.builder.store(value, self._address(pointer, position, length)).align = self.bits // 8

    def fill(self, value: float, length: int) -> Any:
        return ir.Constant(ir.VectorType(self.type, length), [value] * length)

    def spread(self, value: Any, length: int) -> Any:
        empty = ir.Constant(ir.VectorType(self.type, length), ir.Undefined)
        first = self.builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(
            first, empty, ir.Constant(ir.VectorType(ir.IntType(32), length), [0] * length)
        )

    def multiply_add(self, a: Any, b: Any, c: Any, length: int) -> Any:
        vector = ir.VectorType(self.type, length)
        name = f"llvm.fma.v{length}f{self.bits}"
        function = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(vector, [vector] * 3), name)
        return self.builder.call(function, [a, b, c])

    def absolute(self, value: Any, length: int) -> Any:
        vector = ir.VectorType(self.type, length)
        name = f"llvm.fabs.v{length}f{self.bits}"
        function = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(vector, [vector]), name)
        return self.builder.call(function, [value])

    def clip(self, value: Any, length: int) -> Any:
        one, minus_one = self.fill(1.0, length), self.fill(-1.0, length)
        value = self.builder.select(self.builder.fcmp_ordered("<", value, one), value, one)
        return self.builder.select(self.builder.fcmp_ordered(">", value, minus_one), value, minus_one)


def _sum_over_edges(
    code: _Code,
    lanes: list[tuple[int, int]],
    start: Any,
    end: Any,
    prepare: Callable[[Any], Any],
    term: Callable[[Any, Any, int, int, Any], Any],
) -> list[Any]:
    """The loop ``for e in range(start, end)`` with one accumulator a register; returns the sums.

    ``prepare(e)`` emits what is common to the registers, ``term(common, e, offset, length, sum)`` the new sum of one.
    """
    builder = code.builder
    entry = builder.block
    head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    edge = builder.phi(_INT)
    edge.add_incoming(start, entry)
    sums = [builder.phi(ir.VectorType(code.type, length)) for _, length in lanes]
    for total, (_, length) in zip(sums, lanes, strict=True):
        total.add_incoming(code.fill(0.0, length), entry)
    builder.cbranch(builder.icmp_signed("<", edge, end), body, done)

    builder.position_at_end(body)
    common = prepare(edge)
    new = [term(common, edge, offset, length, total) for total, (offset, length) in zip(sums, lanes, strict=True)]
    edge.add_incoming(builder.add(edge, code.constant(1)), builder.block)
    for total, value in zip(sums, new, strict=True):
        total.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(done)
    return sums


def _unpack(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Data pointers of the arrays, and the scalars as they are."""
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, args, strict=True)
    ]


@intrinsic
def dual_step(typingctx, row, dual, v, col, weight, reach, start, end, node, step, total):  # type: ignore[no-untyped-def]
    """Updates and clips the dual on the edges ``start`` to ``end`` of a node, and writes Σ w z to ``total``.

    For every edge: ``z ← clip(z + step · reach · (v_i − v_j), −1, 1)``, with ``reach`` = 1/(1/d_i + 1/d_j). The two
    copies of an edge stay exact negatives of each other: ``v_i − v_j`` and ``fma`` are odd functions in floating point.
    """
    signature = types.void(row, dual, v, col, weight, reach, start, end, node, step, total)
    num_classes, number = _num_classes(row), dual.dtype

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, z, v, col, weight, reach, start, end, node, step, total = _unpack(context, builder, signature, args)
        code = _Code(context, builder, number)
        width = code.constant(num_classes)
        for lanes in _blocks(num_classes, code.bits):
            here = builder.mul(node, width)
            mine = {offset: code.load(v, builder.add(here, code.constant(offset)), length) for offset, length in lanes}

            def prepare(edge: Any) -> Any:
                other = builder.sext(code.scalar(col, edge), _INT)
                size = builder.fmul(step, code.scalar(reach, edge))
                return builder.mul(edge, width), builder.mul(other, width), size, code.scalar(weight, edge)

            def term(common: Any, edge: Any, offset: int, length: int, total: Any, mine: Any = mine) -> Any:
                z_row, v_row, size, w = common
                position = builder.add(z_row, code.constant(offset))
                difference = builder.fsub(mine[offset], code.load(v, builder.add(v_row, code.constant(offset)), length))
                value = code.multiply_add(code.spread(size, length), difference, code.load(z, position, length), length)
                value = code.clip(value, length)
                code.store(value, z, position, length)
                return code.multiply_add(code.spread(w, length), value, total, length)

            sums = _sum_over_edges(code, lanes, start, end, prepare, term)
            for value, (offset, length) in zip(sums, lanes, strict=True):
                code.store(value, total, code.constant(offset), length)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def variation(typingctx, row, v, col, weight, start, end, node, total):  # type: ignore[no-untyped-def]
    """Writes Σ_e w_e |v_i − v_j| over the edges ``start`` to ``end`` of a node to ``total``."""
    signature = types.void(row, v, col, weight, start, end, node, total)
    num_classes, number = _num_classes(row), v.dtype

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, v, col, weight, start, end, node, total = _unpack(context, builder, signature, args)
        code = _Code(context, builder, number)
        width = code.constant(num_classes)
        for lanes in _blocks(num_classes, code.bits):
            here = builder.mul(node, width)
            mine = {offset: code.load(v, builder.add(here, code.constant(offset)), length) for offset, length in lanes}

            def prepare(edge: Any) -> Any:
                w = code.scalar(weight, edge)
                return (
                    builder.mul(builder.sext(code.scalar(col, edge), _INT), width),
                    builder.fpext(w, code.type) if w.type != code.type else w,
                )

            def term(common: Any, edge: Any, offset: int, length: int, total: Any, mine: Any = mine) -> Any:
                v_row, w = common
                there = code.load(v, builder.add(v_row, code.constant(offset)), length)
                size = code.absolute(builder.fsub(mine[offset], there), length)
                return code.multiply_add(code.spread(w, length), size, total, length)

            sums = _sum_over_edges(code, lanes, start, end, prepare, term)
            for result, (offset, length) in zip(sums, lanes, strict=True):
                code.store(result, total, code.constant(offset), length)
        return context.get_dummy_value()

    return signature, codegen
