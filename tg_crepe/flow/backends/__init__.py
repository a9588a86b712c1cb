from tg_crepe.flow.backends.choice import BACKENDS, make_backend
from tg_crepe.flow.backends.reference import ReferenceBackend
from tg_crepe.flow.backends.torch_csr import TorchBackend

__all__ = ["BACKENDS", "ReferenceBackend", "TorchBackend", "make_backend"]
