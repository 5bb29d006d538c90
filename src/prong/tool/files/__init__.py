"""The tools that read, write and find files."""

from prong.tool.files.edit import Edit
from prong.tool.files.glob import Glob
from prong.tool.files.grep import Grep
from prong.tool.files.notebook import NotebookEdit
from prong.tool.files.read import Read
from prong.tool.files.write import Write

__all__ = ["Edit", "Glob", "Grep", "NotebookEdit", "Read", "Write"]
