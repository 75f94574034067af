"""Renders templates with jinja2 in the environment of transformers' chat templates, at a fixed date.

Needs: pip install jinja2==3.1.6 transformers==5.23.0 (no torch).
"""

import copy
import datetime
import re

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

assert jinja2.__version__ == "3.1.6" and transformers.__version__ == "5.23.0"

NOW = datetime.datetime(2024, 7, 26)  # the default of text/jinja/date_time.h


def render(source, variables):
    """The text, or None if jinja2 refuses the template or the rendering fails."""
    try:
        template = _compile_jinja_template(source)
        template.environment.globals["strftime_now"] = NOW.strftime
        text = template.render(**copy.deepcopy(variables))  # a copy, because `indent` changes a list
        text.encode()  # fails for a lone surrogate
        return text
    except Exception:  # of jinja2, of Python, or raised by the template
        return None


def is_repeatable(text):
    """Whether a text contains no memory address and no integer that needs more than 64 bits."""
    return text is None or not (" at 0x" in text or re.search(r"\d{19}", text))
