"""What jinja2 renders in the environment that transformers gives chat templates, at a fixed date.

Needs: pip install jinja2==3.1.6 transformers==5.23.0 (no torch).
"""

import copy
import datetime
import re

import jinja2
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

assert jinja2.__version__ == "3.1.6" and transformers.__version__ == "5.23.0"

NOW = datetime.datetime(2024, 7, 26)  # the default of inference/jinja/date_time.h


def render(source, variables):
    """The text, or None where jinja2 refuses the template or the rendering fails."""
    try:
        template = _compile_jinja_template(source)
        template.environment.globals["strftime_now"] = NOW.strftime
        text = template.render(**copy.deepcopy(variables))  # `indent` of a list changes it
        text.encode()  # which a lone surrogate fails
        return text
    except Exception:  # of any type: of jinja2, of Python, or of the template's own
        return None


def is_repeatable(text):
    """Whether a text has neither an address in memory nor an integer beyond 64 bits."""
    return text is None or not (" at 0x" in text or re.search(r"\d{19}", text))
