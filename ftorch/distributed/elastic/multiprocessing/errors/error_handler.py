"""Exceptions of workers as files that their launcher reads."""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import time
import traceback
import warnings
from typing import Any

__all__ = ["ErrorHandler"]

logger = logging.getLogger(__name__)


class ErrorHandler:
    """Writes an exception to the file that the launcher named (``TORCHELASTIC_ERROR_FILE``)."""

    def _get_error_file_path(self) -> str | None:
        return os.environ.get("TORCHELASTIC_ERROR_FILE")

    def initialize(self) -> None:
        """Lets Python print where it was when a signal ends it."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:
            warnings.warn(f"Unable to enable fault handler. {type(error).__name__}: {error}", stacklevel=2)

    def _write_error_file(self, file_path: str, error_msg: str) -> None:
        try:
            with open(file_path, "w") as file:
                file.write(error_msg)
        except Exception as error:
            warnings.warn(f"Unable to write error to file. {type(error).__name__}: {error}", stacklevel=2)

    def record_exception(self, e: BaseException) -> None:
        """Writes an exception, with its traceback and the time."""
        path = self._get_error_file_path()
        if not path:
            return
        extra = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        with open(path, "w") as file:
            json.dump({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": extra}}, file)

    def override_error_code_in_rootcause_data(self, rootcause_error_file: str, rootcause_error: dict[str, Any],
                                              error_code: int = 0) -> None:
        """Puts an exit code into what a worker wrote."""
        message = rootcause_error.get("message")
        if isinstance(message, dict):
            message["errorCode"] = error_code
        else:
            logger.warning("%s has no place for the error code %s", rootcause_error_file, error_code)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copies a worker's file to this process' own: it becomes the error of the launcher."""
        with open(rootcause_error_file) as file:
            data = json.load(file)
        if error_code:
            self.override_error_code_in_rootcause_data(rootcause_error_file, data, error_code)
        own = self._get_error_file_path()
        if own:
            self._rm(own)
            self._write_error_file(own, json.dumps(data))
        else:
            logger.error("no error file defined for parent, to copy child error file (%s)", rootcause_error_file)

    def _rm(self, my_error_file: str) -> None:
        if os.path.isfile(my_error_file):
            logger.warning("%s already exists and will be overwritten.", my_error_file)
            os.remove(my_error_file)
