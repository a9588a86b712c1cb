"""Products of a sparse matrix with rows of any number of columns, as explicit vector code.

Libraries take the columns of a row in a loop of unknown length; here up to 32 of them stay in registers while the
entries of a matrix row go by, so that ten columns take four fifths of the time and forty half of it. The last register
of a row may overlap the one before it: what both hold is computed twice, with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_INT = ir.IntType(64)

#: Numbers in a register (of single precision; LLVM takes two for double), and the columns that stay in registers.
_LANES, _BLOCK = 8, 32

#: The arrays among the arguments of a row's sum.
_NAMES = ("x", "col", "weight", "", "", "", "", "", "add", "", "", "out", "")


def _row_sum(lanes: int, registers: int) -> Any:
    """An intrinsic for ``out[begin:stop] ← β add[begin:stop] + α Σ_e w_e x[col_e, begin:stop]`` with that many
    registers of that length; ``add`` and ``out`` are flat, ``place`` is where their row begins."""

    @intrinsic
    def row_sum(  # type: ignore[no-untyped-def]
        typingctx, x, col, weight, first, last, width, begin, stop, add, beta, alpha, out, place
    ):
        signature = types.void(x, col, weight, first, last, width, begin, stop, add, beta, alpha, out, place)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = {
                name: context.make_array(kind)(context, builder, value).data
                for name, kind, value in zip(_NAMES, signature.args, args, strict=True)
                if name
            }
            number, bits = context.get_value_type(x.dtype), x.dtype.bitwidth
            vector = ir.VectorType(number, lanes)
            first, last, width, begin, stop = args[3:8]
            beta, alpha, place = args[9], args[10], args[12]

            def address(array: Any, position: Any) -> Any:
                return builder.bitcast(builder.gep(array, [position]), vector.as_pointer())

            def repeat(value: Any) -> Any:
                empty = ir.Constant(vector, ir.Undefined)
                one = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
                return builder.shuffle_vector(one, empty, spread)

            offsets = [builder.add(begin, ir.Constant(_INT, lanes * k)) for k in range(registers - 1)]
            offsets.append(builder.sub(stop, ir.Constant(_INT, lanes)))
            spread = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f{bits}"
            )
            entry = builder.block
            head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
            builder.branch(head)
            builder.position_at_end(head)
            edge = builder.phi(_INT)
            edge.add_incoming(first, entry)
            held = [builder.phi(vector) for _ in offsets]
            for value in held:
                value.add_incoming(ir.Constant(vector, [0.0] * lanes), entry)
            builder.cbranch(builder.icmp_signed("<", edge, last), body, done)

            builder.position_at_end(body)
            other = builder.load(builder.gep(pointer["col"], [edge]))
            if other.type != _INT:
                other = builder.sext(other, _INT)
            start = builder.mul(other, width)
            entry_weight = builder.load(builder.gep(pointer["weight"], [edge]))
            w = repeat(entry_weight)
            for value, offset in zip(held, offsets, strict=True):
                here = builder.load(address(pointer["x"], builder.add(start, offset)), align=bits // 8)
                value.add_incoming(builder.call(fma, [w, here, value]), body)
            edge.add_incoming(builder.add(edge, ir.Constant(_INT, 1)), body)
            builder.branch(head)

            builder.position_at_end(done)
            factor = repeat(alpha)
            found = [builder.fmul(factor, value) for value in held]
            plain, plus, end = (builder.append_basic_block(name) for name in ("plain", "plus", "end"))
            builder.cbranch(builder.fcmp_ordered("==", beta, ir.Constant(number, 0.0)), plain, plus)

            def write(values: list[Any]) -> None:
                for value, offset in zip(values, offsets, strict=True):
                    builder.store(value, address(pointer["out"], builder.add(place, offset)), align=bits // 8)
                builder.branch(end)

            builder.position_at_end(plain)
            write(found)
            builder.position_at_end(plus)
            share = repeat(beta)
            there = (builder.load(address(pointer["add"], builder.add(place, o)), align=bits // 8) for o in offsets)
            write([builder.call(fma, [share, value, sum_]) for value, sum_ in zip(there, found, strict=True)])
            builder.position_at_end(end)
            return context.get_dummy_value()

        return signature, codegen

    return row_sum


_ONE, _TWO, _THREE, _FOUR = (_row_sum(_LANES, registers) for registers in (1, 2, 3, 4))
_HALF, _TWO_HALVES, _QUARTER, _TWO_QUARTERS, _SINGLE = (
    _row_sum(lanes, registers) for lanes, registers in ((4, 1), (4, 2), (2, 1), (2, 2), (1, 1))
)


@njit(nogil=True, cache=True, fastmath={"nsz", "contract"}, error_model="numpy")
def product_rows(first, last, ptr, col, weight, x, add, beta, alpha, out, width):  # type: ignore[no-untyped-def]
    """Writes β M + α A X to the rows ``first`` to ``last`` of ``out``; ``x``, ``add`` (M) and ``out`` are flat, of rows
    of ``width`` numbers and one type. ``add`` is not read where β is zero, and is not ``out`` otherwise: registers
    overlap."""
    for i in range(first, last):
        start, end, at = np.int64(ptr[i]), np.int64(ptr[i + 1]), i * width
        for begin in range(0, width, _BLOCK):
            stop = min(begin + _BLOCK, width)
            if stop - begin > 3 * _LANES:
                _FOUR(x, col, weight, start, end, width, begin, stop, add, beta, alpha, out, at)
            elif stop - begin > 2 * _LANES:
                _THREE(x, col, weight, start, end, width, begin, stop, add, beta, alpha, out, at)
            elif stop - begin > _LANES:
                _TWO(x, col, weight, start, end, width, begin, stop, add, beta, alpha, out, at)
            elif stop >= _LANES:  # the last columns of a long row, with some before them
                _ONE(x, col, weight, start, end, width, begin, stop, add, beta, alpha, out, at)
            elif stop > 4:
                _TWO_HALVES(x, col, weight, start, end, width, begin, stop, add, beta, alpha, out, at)
            elif stop == 4:
                _HALF(x, col, weight, start, end, width, begin, stop, add, beta, alpha, out, at)
            elif stop == 3:
                _TWO_QUARTERS(x, col, weight, start, end, width, begin, stop, add, beta, alpha, out, at)
            elif stop == 2:
                _QUARTER(x, col, weight, start, end, width, begin, stop, add, beta, alpha, out, at)
            else:
                _SINGLE(x, col, weight, start, end, width, begin, stop, add, beta, alpha, out, at)
