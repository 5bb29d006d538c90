"""The tools that read, write and find files."""

from prong.tools.files.glob import Glob
from prong.tools.files.grep import Grep
from prong.tools.files.notebook import NotebookEdit
from prong.tools.files.read import Read
from prong.tools.files.replace import Edit
from prong.tools.files.write import Write

__all__ = ["Edit", "Glob", "Grep", "NotebookEdit", "Read", "Write"]
