"""Run a command."""

from ..descriptions.executable import Executable
from .execute_local import ExecuteLocal


class ExecuteProcess(ExecuteLocal):
    """ExecuteLocal whose executable is given in place; see both for the arguments."""

    def __init__(self, *, cmd, prefix=None, name=None, cwd=None, env=None, additional_env=None, **kwargs):
        executable = Executable(cmd=cmd, prefix=prefix, name=name, cwd=cwd, env=env, additional_env=additional_env)
        super().__init__(process_description=executable, **kwargs)

    @property
    def name(self):
        """The name with its number once prepared, before that substitutions or None."""
        return self.process_description.name

    @property
    def cmd(self):
        """The final command once prepared, before that lists of substitutions."""
        if self.process_description.final_cmd is not None:
            return self.process_description.final_cmd
        return self.process_description.cmd

    @property
    def cwd(self):
        if self.process_description.final_cwd is not None:
            return self.process_description.final_cwd
        return self.process_description.cwd

    @property
    def env(self):
        if self.process_description.final_env is not None:
            return self.process_description.final_env
        return self.process_description.env

    @property
    def additional_env(self):
        return self.process_description.additional_env
