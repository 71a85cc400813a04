"""What lies in a package, as a tree (``torch.package.file_structure_representation``)."""

from __future__ import annotations

from .glob_group import GlobGroup, GlobPattern

__all__ = ["Directory"]


class Directory:
    """A folder with its files, or a file; printed as a tree.

    Args:
        name: its own name, without folders.
        is_dir: whether it is a folder.
    """

    def __init__(self, name: str, is_dir: bool):
        self.name, self.is_dir = name, is_dir
        self.children: dict[str, Directory] = {}

    def _add_file(self, file_path: str) -> None:
        *folders, file = file_path.split("/")
        place = self
        for folder in folders:
            place = place.children.setdefault(folder, Directory(folder, True))
        place.children[file] = Directory(file, False)

    def has_file(self, filename: str) -> bool:
        """Whether a path, ``"folder/file"``, is in the tree."""
        place: Directory | None = self
        for part in filename.split("/"):
            place = place and place.children.get(part)
        return place is not None

    def __str__(self):
        lines: list[str] = []
        self._add_lines(lines, "", "─── ", "    ")
        return "\n".join(lines) + "\n"

    def _add_lines(self, lines, before, own, below):
        lines.append(f"{before}{own}{self.name}")
        folders = sorted((c for c in self.children.values() if c.is_dir), key=lambda c: c.name)
        files = sorted((c for c in self.children.values() if not c.is_dir), key=lambda c: c.name)
        ordered = [*folders, *files]
        for child in ordered:
            is_last = child is ordered[-1]
            child._add_lines(
                lines, before + below, "└── " if is_last else "├── ", "    " if is_last else "│   "
            )


def _create_directory_from_file_list(
    filename: str, file_list: list[str], include: GlobPattern = "**", exclude: GlobPattern = ()
) -> Directory:
    """The tree of the files whose paths match."""
    group = GlobGroup(include, exclude=exclude, separator="/")
    top = Directory(filename, True)
    for path in file_list:
        if group.matches(path):
            top._add_file(path)
    return top
