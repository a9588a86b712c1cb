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

from tg_crepe.solvers.kernels import COUNTS

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

    def __init__(self, builder: Any, kind: Any, bits: int) -> None:
        self.builder = builder
        self.type = kind
        self.bits = bits

    @classmethod
    def of(cls, context: Any, builder: Any, number: Any) -> _Code:
        """For numbers of one of numba's types."""
        return cls(builder, context.get_value_type(number), number.bitwidth)

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

    def total(self, value: Any) -> Any:
        """The sum of a vector's numbers, halves first: one order, whatever the compiler likes."""
        length, zero = value.type.count, ir.Constant(ir.IntType(32), 0)
        while length > 1:
            length //= 2
            halves = (
                self.builder.shuffle_vector(
                    value, value, ir.Constant(ir.VectorType(ir.IntType(32), length), [*range(first, first + length)])
                )
                for first in (0, length)
            )
            value = self.builder.fadd(*halves)
        return self.builder.extract_element(value, zero)


class _Kept:
    """How the dual is kept: as numbers, or in 16 bits as whole multiples of 1/:data:`COUNTS`."""

    def __init__(self, code: _Code, kept: Any) -> None:
        self.code, self.counted = code, isinstance(kept, types.Integer)
        number = {32: ir.FloatType(), 64: ir.DoubleType()}.get(kept.bitwidth)
        self.stored = _Code(code.builder, ir.IntType(16) if self.counted else number, kept.bitwidth)

    def load(self, pointer: Any, position: Any, length: int) -> Any:
        value, wide = self.stored.load(pointer, position, length), ir.VectorType(self.code.type, length)
        if self.counted:
            return self.code.builder.sitofp(value, wide)
        return value if value.type == wide else self.code.builder.fpext(value, wide)

    def clip(self, value: Any, length: int) -> Any:
        builder, largest = self.code.builder, float(COUNTS) if self.counted else 1.0
        one, minus_one = self.code.fill(largest, length), self.code.fill(-largest, length)
        value = builder.select(builder.fcmp_ordered("<", value, one), value, one)
        return builder.select(builder.fcmp_ordered(">", value, minus_one), value, minus_one)

    def store(self, value: Any, pointer: Any, position: Any, length: int) -> Any:
        """Returns what is kept."""
        if self.counted:
            # Beside a number this large there is room for whole ones alone, in the lowest bits.
            builder, large = self.code.builder, self.code.fill(1.5 * 2**23, length)
            moved = builder.fadd(value, large)
            value = builder.fsub(moved, large)
            whole = builder.bitcast(moved, ir.VectorType(ir.IntType(32), length))
            short = builder.trunc(whole, ir.VectorType(self.stored.type, length))
            self.stored.store(short, pointer, position, length)
        else:
            self.stored.store(value, pointer, position, length)
        return value


def _write_sums(
    code: _Code,
    row: Any,
    arrays: dict[str, Any],
    prepare: Callable[[Any], Any],
    term: Callable[..., Any],
    load: Callable[[Any, Any, int], Any] | None = None,
) -> None:
    """Emits ``total ← Σ_e term(v_i − v_j)`` over the edges ``start`` to ``end`` of a node, block by block of registers.

    ``prepare(edge)`` emits what is common to the registers of an edge, ``term(common, position, difference, sum)`` the
    new sum of one of them; ``position`` is where its numbers stand in an array with a row per edge. Without ``v`` there
    is no difference, but a vector of zeros. ``load(node, position, length)`` emits what is taken for the numbers of
    ``v`` from a position on, those themselves if it is not given.
    """
    builder, width = code.builder, code.constant(row.dtype.fields["row"].type.shape[0])
    v, total = arrays.get("v"), arrays["total"]
    here = None if v is None else builder.mul(arrays["node"], width)
    read = load or (lambda node, position, length: code.load(v, position, length))
    for lanes in _blocks(width.constant, code.bits):
        mine = [
            code.fill(0.0, length)
            if v is None
            else read(arrays["node"], builder.add(here, code.constant(offset)), length)
            for offset, length in lanes
        ]
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
        other = None if v is None else builder.sext(code.scalar(arrays["col"], edge), _INT)
        there = None if v is None else builder.mul(other, width)
        common, first = prepare(edge), builder.mul(edge, width)
        for own, value, (offset, length) in zip(mine, sums, lanes, strict=True):
            place = code.constant(offset)
            difference = own if v is None else builder.fsub(own, read(other, builder.add(there, place), length))
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
    of each other: ``v_i − v_j`` and ``fma`` are odd functions in floating point, and so is rounding to the nearest.
    A dual in 16 bits is kept in units of 1/:data:`COUNTS`; ``step`` and ``total`` are in these units then.
    """
    signature = types.void(row, dual, v, col, weight, reach, start, end, node, step, total)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = _unpack(context, builder, signature, args, "row dual v col weight reach start end node step total")
        code = _Code.of(context, builder, v.dtype)
        kept = _Kept(code, dual.dtype)

        def prepare(edge: Any) -> Any:
            return builder.fmul(given["step"], code.scalar(given["reach"], edge)), code.scalar(given["weight"], edge)

        def term(common: Any, position: Any, difference: Any, total: Any) -> Any:
            (size, w), length = common, difference.type.count
            z = kept.load(given["dual"], position, length)
            z = kept.clip(code.call("fma", code.spread(size, length), difference, z), length)
            z = kept.store(z, given["dual"], position, length)
            return code.call("fma", code.spread(w, length), z, total)

        _write_sums(code, row, given, prepare, term)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def variation(typingctx, row, v, scale, col, weight, start, end, node, total):  # type: ignore[no-untyped-def]
    """Writes Σ_e w_e |s_i v_i − s_j v_j| over the edges ``start`` to ``end`` of a node to ``total``, in the precision
    of ``scale`` (s), whatever that of ``v``: no copy of it is made."""
    signature = types.void(row, v, scale, col, weight, start, end, node, total)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = _unpack(context, builder, signature, args, "row v scale col weight start end node total")
        code, stored = _Code.of(context, builder, scale.dtype), _Code.of(context, builder, v.dtype)

        def load(node: Any, position: Any, length: int) -> Any:
            value = stored.load(given["v"], position, length)
            if stored.type != code.type:
                value = builder.fpext(value, ir.VectorType(code.type, length))
            return builder.fmul(value, code.spread(code.scalar(given["scale"], node), length))

        def prepare(edge: Any) -> Any:
            w = code.scalar(given["weight"], edge)
            return builder.fpext(w, code.type) if w.type != code.type else w

        def term(w: Any, position: Any, difference: Any, total: Any) -> Any:
            return code.call("fma", code.spread(w, difference.type.count), code.call("fabs", difference), total)

        _write_sums(code, row, given, prepare, term, load)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def flux(typingctx, row, dual, weight, start, end, total):  # type: ignore[no-untyped-def]
    """Writes Σ_e w_e z_e over the edges ``start`` to ``end`` of a node to ``total``, in double precision, in the units
    that the dual is kept in."""
    signature = types.void(row, dual, weight, start, end, total)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = _unpack(context, builder, signature, args, "row dual weight start end total")
        code = _Code.of(context, builder, total.dtype)
        kept = _Kept(code, dual.dtype)

        def prepare(edge: Any) -> Any:
            w = code.scalar(given["weight"], edge)
            return builder.fpext(w, code.type) if w.type != code.type else w

        def term(w: Any, position: Any, none: Any, total: Any) -> Any:
            length = none.type.count
            return code.call("fma", code.spread(w, length), kept.load(given["dual"], position, length), total)

        _write_sums(code, row, given, prepare, term)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def proximal_row(typingctx, row, here, u, source, at, size, rho, shrink):  # type: ignore[no-untyped-def]
    """``here ← (u − size · here + rho · source) · shrink`` for the row of ``u`` and ``source`` that begins at ``at``;
    returns the sum of the new row."""
    signature = row.dtype.fields["row"].type.dtype(row, here, u, source, at, size, rho, shrink)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = _unpack(context, builder, signature, args, "row here u source at size rho shrink")
        code = _Code.of(context, builder, here.dtype)
        total = ir.Constant(code.type, 0.0)
        for offset, length in _pieces(row, code):
            place = code.constant(offset)
            there = builder.add(given["at"], place)
            value = code.load(given["u"], there, length)
            flux = builder.fneg(code.load(given["here"], place, length))
            value = code.call("fma", code.spread(given["size"], length), flux, value)
            value = code.call(
                "fma", code.spread(given["rho"], length), code.load(given["source"], there, length), value
            )
            value = builder.fmul(value, code.spread(given["shrink"], length))
            code.store(value, given["here"], place, length)
            total = builder.fadd(total, code.total(value))
        return total

    return signature, codegen


@intrinsic
def extrapolate_row(typingctx, row, here, u, u_new, v_new, at, shift, theta, scale):  # type: ignore[no-untyped-def]
    """``u_new ← here − shift``, ``v_new ← (u_new + theta · (u_new − u)) · scale`` for the row that begins at ``at``."""
    signature = types.void(row, here, u, u_new, v_new, at, shift, theta, scale)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        given = _unpack(context, builder, signature, args, "row here u u_new v_new at shift theta scale")
        code = _Code.of(context, builder, here.dtype)
        for offset, length in _pieces(row, code):
            there = builder.add(given["at"], code.constant(offset))
            value = code.load(given["here"], code.constant(offset), length)
            value = builder.fsub(value, code.spread(given["shift"], length))
            change = builder.fsub(value, code.load(given["u"], there, length))
            ahead = code.call("fma", code.spread(given["theta"], length), change, value)
            code.store(builder.fmul(ahead, code.spread(given["scale"], length)), given["v_new"], there, length)
            code.store(value, given["u_new"], there, length)
        return context.get_dummy_value()

    return signature, codegen


def _pieces(row: Any, code: _Code) -> list[tuple[int, int]]:
    """All registers of a row."""
    return [piece for block in _blocks(row.dtype.fields["row"].type.shape[0], code.bits) for piece in block]
