"""The path of a package's executable."""

import os

from launch.substitutions import SubstitutionFailure
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions

from .find_package import FindPackagePrefix


class ExecutableInPackage(FindPackagePrefix):
    """The file lib/<package>/<executable> below the package's prefix.

    Raises:
        SubstitutionFailure: there is no such executable file; the message lists those there are.
    """

    def __init__(self, executable, package):
        super().__init__(package)
        self.__executable = normalize_to_list_of_substitutions(executable)

    @property
    def executable(self):
        return self.__executable

    def describe(self):
        package, executable = (" + ".join(s.describe() for s in subs) for subs in (self.package, self.__executable))
        return f"ExecInPkg(pkg={package}, exec={executable})"

    def perform(self, context):
        package = perform_substitutions(context, self.package)
        executable = perform_substitutions(context, self.__executable)
        directory = os.path.join(self.find(package), "lib", package)
        path = os.path.join(directory, executable)
        if not (os.path.isfile(path) and os.access(path, os.X_OK)):
            present = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
            raise SubstitutionFailure(
                f"executable '{executable}' not found on the libexec directory '{directory}'; "
                f"present: {', '.join(present) or 'none'}"
            )
        return path
