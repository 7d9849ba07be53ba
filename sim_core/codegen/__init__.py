"""Equations to machine code: CasADi graphs emitted as C, compiled and cached."""

from sim_core.codegen.compiler import CompileError
from sim_core.codegen.emitter import count_operations, emit
from sim_core.codegen.graph import UnsupportedOperation
from sim_core.codegen.library import Library, NoCompilerWarning, compile_library

__all__ = [
    "compile_library",
    "Library",
    "emit",
    "count_operations",
    "CompileError",
    "UnsupportedOperation",
    "NoCompilerWarning",
]
