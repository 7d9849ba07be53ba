"""Directories of installed ROS packages."""

from ament_index_python.packages import get_package_prefix, get_package_share_directory
from launch.substitution import Substitution
from launch.utilities import normalize_to_list_of_substitutions, perform_substitutions


class FindPackage(Substitution):
    """Base class; PackageNotFoundError names the prefixes searched."""

    def __init__(self, package):
        self.__package = normalize_to_list_of_substitutions(package)

    @property
    def package(self):
        return self.__package

    def find(self, package_name):
        raise NotImplementedError

    def describe(self):
        package = " + ".join(s.describe() for s in self.__package)
        return f"{type(self).__name__}(pkg={package})"

    def perform(self, context):
        return self.find(perform_substitutions(context, self.__package))


class FindPackagePrefix(FindPackage):
    """The install prefix."""

    def find(self, package_name):
        return get_package_prefix(package_name)


class FindPackageShare(FindPackage):
    """The directory share/<package>."""

    def find(self, package_name):
        return get_package_share_directory(package_name)
