from tg_crepe.flow.backends.reference import ReferenceBackend

__all__ = ["ReferenceBackend"]
