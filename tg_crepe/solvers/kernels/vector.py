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
        return self.builder.load(self._address(pointer, position, length), align=self.bits // 8)

    def store(self, value: Any, pointer: Any, position: Any, length: int) -> None:
        self.builder.store(value, self._address(pointer, position, length), align=self.bits // 8)

    def fill(self, value: float, length: int) -> Any:
        return ir.Constant(ir.VectorType(self.type, length), [value] * length)

    def spread(self, value: Any, length: int) -> Any:
        empty = ir.Constant(ir.VectorType(self.type, length), ir.Undefined)
        first = self.builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(
            first, empty, ir.Constant(ir.VectorType(ir.IntType(32), length), [0] * length)
        )

    def call(self, name: str, *values: Any) -> Any:
        """LLVM's function of a name (fma, fabs) on vectors of one type."""
        vector = values[0].type
        full_name = f"llvm.{name}.v{vector.count}f{self.bits}"
        kind = ir.FunctionType(vector, [vector] * len(values))
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, full_name), values)

    def clip(self, value: Any, length: int) -> Any:
        one, minus_one = self.fill(1.0, length), self.fill(-1.0, length)
        value = self.builder.select(self.builder.fcmp_ordered("<", value, one), value, one)
        return self.builder.select(self.builder.fcmp_ordered(">", value, minus_one), value, minus_one)


def _write_sums(
    code: _Code,
    row: Any,
    arrays: dict[str, Any],
    prepare: Callable[[Any], Any],
    term: Callable[..., Any],
) -> None:
    """Emits ``total ← Σ_e term(v_i − v_j)`` over the edges ``start`` to ``end`` of a node, block by block of registers.

    ``prepare(edge)`` emits what is common to the registers of an edge, ``term(common, position, difference, sum)`` the
    new sum of one of them; ``position`` is where its numbers stand in an array with a row per edge.
    """
    builder, width = code.builder, code.constant(row.dtype.fields["row"].type.shape[0])
    v, col, total = arrays["v"], arrays["col"], arrays["total"]
    here = builder.mul(arrays["node"], width)
    for lanes in _blocks(width.constant, code.bits):
        mine = [code.load(v, builder.add(here, code.constant(offset)), length) for offset, length in lanes]
        entry = builder.block
        head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        edge = builder.phi(_INT)
        edge.add_incoming(arrays["start"], entry)
        sums = [builder.phi(ir.VectorType(code.type, length)) for _, length in lanes]
        for value, (_, length) in zip(sums, lanes, strict=True):
            value.add_incoming(code.fill(0.0, length), entry)
        builder.cbranch(builder.icmp_signed("<", edge, arrays["end"]), body, done)

        builder.position_at_end(body)
        there = builder.mul(builder.sext(code.scalar(col, edge), _INT), width)
        common, first = prepare(edge), builder.mul(edge, width)
        for own, value, (offset, length) in zip(mine, sums, lanes, strict=True):
            place = code.constant(offset)
            difference = builder.fsub(own, code.load(v, builder.add(there, place), length))
            value.add_incoming(term(common, builder.add(first, place), difference, value), body)
        edge.add_incoming(builder.add(edge, code.constant(1)), body)
        builder.branch(head)
        builder.position_at_end(done)
        for value, (offset, length) in zip(sums, lanes, strict=True):
            code.store(value, total, code.constant(offset), length)


def _unpack(context: Any, builder: Any, signature: Any, args: Any, names: str) -> dict[str, Any]:
    """Data pointers of the arrays, and the scalars as they are, by name."""
    values = (
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, args, strict=True)
    )
    return dict(zip(names.split(), values, strict=True))


@intrinsic
def dual_step(typingctx, row, dual, v, col, weight, reach, start, end, node, step, total):  # type: ignore[no-untyped-def]
    """Updates and clips the dual on the edges ``start`` to ``end`` of a node, and writes Σ w z to ``total``.

    For every edge: ``z ← clip(z + step · reach · (v_i − v_j), −1, 1)``. The two copies of an edge stay exact negatives
    of each other: ``v_i − v_j`` and ``fma`` are odd functions in floating point.
    """
    signature = types.void(row, dual, v, col, weight, reach, start, end, node, step, total)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = _unpack(context, builder, signature, args, "row dual v col weight reach start end node step total")
        code = _Code(context, builder, dual.dtype)

        def prepare(edge: Any) -> Any:
            return builder.fmul(given["step"], code.scalar(given["reach"], edge)), code.scalar(given["weight"], edge)

        def term(common: Any, position: Any, difference: Any, total: Any) -> Any:
            (size, w), length = common, difference.type.count
            z = code.load(given["dual"], position, length)
            z = code.clip(code.call("fma", code.spread(size, length), difference, z), length)
            code.store(z, given["dual"], position, length)
            return code.call("fma", code.spread(w, length), z, total)

        _write_sums(code, row, given, prepare, term)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def variation(typingctx, row, v, col, weight, start, end, node, total):  # type: ignore[no-untyped-def]
    """Writes Σ_e w_e |v_i − v_j| over the edges ``start`` to ``end`` of a node to ``total``."""
    signature = types.void(row, v, col, weight, start, end, node, total)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = _unpack(context, builder, signature, args, "row v col weight start end node total")
        code = _Code(context, builder, v.dtype)

        def prepare(edge: Any) -> Any:
            w = code.scalar(given["weight"], edge)
            return builder.fpext(w, code.type) if w.type != code.type else w

        def term(w: Any, position: Any, difference: Any, total: Any) -> Any:
            return code.call("fma", code.spread(w, difference.type.count), code.call("fabs", difference), total)

        _write_sums(code, row, given, prepare, term)
        return context.get_dummy_value()

    return signature, codegen
