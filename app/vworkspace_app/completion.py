"""The scripts by which bash, zsh and fish complete commands and options.

They have every word in them, so that completing starts no process. They are made from `completion.json`, a table of all
commands, so that `completion` imports neither the commands nor any package.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from os.path import dirname, join
from typing import Any, Final, NamedTuple

_PROGRAM: Final = "vworkspace-operator"
TABLE: Final = join(dirname(__file__), "completion.json")
"""The file with the commands, one in a line, from the signatures that the parser reads (`tools.generate`)."""


class Option(NamedTuple):
    """An option by its names. `values` are the known ones; a flag takes none, others take any text or file."""

    names: tuple[str, ...]
    about: str
    flag: bool = True
    values: tuple[str, ...] = ()


class CommandWords(NamedTuple):
    """A command, given by its words, with its subcommands, its options, and the known values of its positional
    argument.
    """

    words: tuple[str, ...]
    below: Mapping[str, str]
    options: tuple[Option, ...]
    values: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The words as the scripts add them up, each after a space."""
        return "".join(f" {word}" for word in self.words)


def completion_script(shell: str) -> str:
    """Return the script for the completion of commands and options in bash, zsh or fish."""
    known = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    with open(TABLE, encoding="utf-8") as file:
        commands = tuple(_command(**row) for row in json.load(file))
    return "\n".join(known[shell](commands))


def _command(words: list[str], below: dict[str, str], options: list[list[Any]], values: list[str]) -> CommandWords:
    known = (Option(tuple(names), about, flag, tuple(choices)) for names, about, flag, choices in options)
    return CommandWords(tuple(words), below, tuple(known), tuple(values))


def _head(shell: str) -> str:
    return f"# Completion of {_PROGRAM} in {shell}."


def _keys(commands: Iterable[CommandWords]) -> str:
    return " | ".join(f'"{command.key}"' for command in commands if command.words)


def _bash(commands: tuple[CommandWords, ...]) -> Iterator[str]:
    yield _head("bash")
    yield _BASH_WORDS.replace("KEYS", _keys(commands))
    for command in commands:
        known = {option.names: option.values for option in command.options if option.values}
        others = [option.names for option in command.options if not option.flag and not option.values]
        for names, values in {**known, **({sum(others, ()): ()} if others else {})}.items():
            previous = " | ".join(f'"{command.key} {name}"' for name in names)
            yield f'    {previous}) words="{" ".join(values)}"; value=1 ;;'
    yield "  esac"
    yield '  if [[ -z "$value" ]]; then\n    case "$at" in'
    for command in commands:
        options = " ".join(name for option in command.options for name in option.names)
        yield f'      "{command.key}") words="{" ".join((*command.below, *command.values))}"; options="{options}" ;;'
    yield _BASH_END


_BASH_WORDS: Final = r"""_vworkspace_operator() {
  local word at="" words="" options="" value=""
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
  for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    case "$at $word" in
      KEYS) at="$at $word" ;;
    esac
  done
  # bash divides --output=yaml into three words
  if [[ "$current" == "=" ]]; then
    current=""
  elif [[ "$previous" == "=" ]]; then
    previous="${COMP_WORDS[COMP_CWORD - 2]}"
  fi
  case "$at $previous" in"""
_BASH_END: Final = r"""    esac
    [[ "$current" == -* ]] && words="$options"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _vworkspace_operator vworkspace-operator"""


def _zsh(commands: tuple[CommandWords, ...]) -> Iterator[str]:
    yield f"#compdef {_PROGRAM}\n{_head('zsh')}"
    yield _ZSH_WORDS.replace("KEYS", _keys(commands))
    for command in commands:
        yield f'    "{command.key}")'
        if command.below:
            entries = (f"{name}:{about}" for name, about in command.below.items())
            yield f"      commands=({' '.join(map(_quoted, entries))})"
        yield f"      options=({' '.join(_quoted(spec) for spec in _zsh_specs(command))}) ;;"
    yield _ZSH_END


def _zsh_specs(command: CommandWords) -> Iterator[str]:
    """Yield the specifications of `_arguments`; each option may be repeated."""
    for option in command.options:
        about = option.about.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
        for name in option.names:
            if option.flag:
                yield f"*{name}[{about}]"
            else:
                values = f"({' '.join(option.values)})" if option.values else "_files"
                yield f"*{name}{'=' if name.startswith('--') else '+'}[{about}]:value:{values}"
    if not command.below:
        yield f"*:argument:({' '.join(command.values)})" if command.values else "*:file:_files"


_ZSH_WORDS: Final = r"""_vworkspace-operator() {
  local word at=""
  local -i depth=1
  local -a commands options
  for word in "${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
      KEYS) at="$at $word"; (( depth += 1 )) ;;
    esac
  done
  case "$at" in"""
_ZSH_END: Final = r"""  esac
  (( $#commands )) && [[ "$PREFIX" != -* ]] && _describe command commands
  words=("${(@)words[depth,-1]}")
  (( CURRENT -= depth - 1 ))
  _arguments : "${options[@]}"
}
if [[ "$funcstack[1]" == "_vworkspace-operator" ]]; then
  _vworkspace-operator "$@"
else
  compdef _vworkspace-operator vworkspace-operator
fi"""


def _fish(commands: tuple[CommandWords, ...]) -> Iterator[str]:
    yield _head("fish")
    keys = " ".join(_fish_quoted(command.key) for command in commands if command.words)
    yield f"set -g __vworkspace_operator_commands {keys}"
    yield _FISH_AT
    for command in commands:
        where = f"complete -c {_PROGRAM} -n '__vworkspace_operator_at \"{command.key}\"'"
        for name, about in command.below.items():
            yield f"{where} -f -a {name} -d {_fish_quoted(about)}"
        if command.values:
            yield f"{where} -f -a '{' '.join(command.values)}'"
        for option in command.options:
            takes = "" if option.flag else f" -x -a '{' '.join(option.values)}'" if option.values else " -r"
            names = "".join(f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names)
            yield f"{where}{names}{takes} -d {_fish_quoted(option.about)}"


_FISH_AT: Final = r"""function __vworkspace_operator_at
    set -l at ''
    for word in (commandline -opc)
        contains -- "$at $word" $__vworkspace_operator_commands; and set at "$at $word"
    end
    test "$at" = "$argv[1]"
end"""


def _quoted(text: str) -> str:
    """Return the text for bash and zsh in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
