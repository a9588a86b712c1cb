from tg_crepe.solvers.backends.choice import BACKENDS, make_backend
from tg_crepe.solvers.backends.reference import ReferenceBackend
from tg_crepe.solvers.backends.torch_csr import TorchBackend

__all__ = ["BACKENDS", "ReferenceBackend", "TorchBackend", "make_backend"]
