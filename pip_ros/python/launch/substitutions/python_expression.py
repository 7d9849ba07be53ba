"""The text of a Python expression's value."""

import importlib

from ..substitution import Substitution
from ..utilities import normalize_to_list_of_substitutions, perform_substitutions
from .substitution_failure import SubstitutionFailure


class PythonExpression(Substitution):
    """eval() of the joined text, with the names of `python_modules` at hand.

    Names of the module `math` can be used bare; all modules by their own name.
    Launch configurations are text: quote them in the expression.
    """

    def __init__(self, expression, python_modules=("math",)):
        self.__expression = normalize_to_list_of_substitutions(expression)
        modules = [python_modules] if isinstance(python_modules, str) else python_modules
        self.__modules = [normalize_to_list_of_substitutions(m) for m in modules]

    @property
    def expression(self):
        return self.__expression

    @property
    def python_modules(self):
        return self.__modules

    def describe(self):
        return f"PythonExpr({' + '.join(s.describe() for s in self.__expression)})"

    def perform(self, context):
        names = {}
        for module in self.__modules:
            name = perform_substitutions(context, module)
            names[name] = importlib.import_module(name)
            if name == "math":
                names.update(vars(names[name]))
        expression = perform_substitutions(context, self.__expression)
        try:
            return str(eval(expression, {}, names))
        except Exception as error:
            raise SubstitutionFailure(f"Python expression '{expression}': {type(error).__name__}: {error}") from error
