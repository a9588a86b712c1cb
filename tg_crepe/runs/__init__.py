from tg_crepe.runs.folder import Cell, RunFolder, RunResult, check_free, stage_run

__all__ = ["Cell", "RunFolder", "RunResult", "check_free", "stage_run"]
