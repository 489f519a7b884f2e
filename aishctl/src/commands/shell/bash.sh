# aish for bash. Alt-a makes a command of what is typed, `#? TEXT` asks. Neither runs a command.
__aish_propose() {
  local __aish_line
  [[ -n ${READLINE_LINE//[[:space:]]/} ]] || return 0
  __aish_line=$(printf '%s\n' "$READLINE_LINE" | command aishctl propose --quiet --shell bash) || return 0
  [[ -n $__aish_line && $__aish_line != *[[:cntrl:]]* ]] || return 0
  READLINE_LINE=$__aish_line
  READLINE_POINT=${#READLINE_LINE}
}

# Sees each new entry of the history before the next prompt. One that it has seen, or that was there before, is not asked.
__aish_after() {
  local __aish_status=$? __aish_entry __aish_number
  __aish_entry=$(HISTTIMEFORMAT='' builtin history 1)
  __aish_entry=${__aish_entry#"${__aish_entry%%[![:space:]]*}"}
  __aish_number=${__aish_entry%%[!0-9]*}
  __aish_entry=${__aish_entry#"$__aish_number"}
  __aish_entry=${__aish_entry#\*}
  __aish_entry=${__aish_entry#"${__aish_entry%%[![:space:]]*}"}
  if [[ -n ${__aish_seen+x} && $__aish_number != "$__aish_seen" && $__aish_entry == '#?'* ]]; then
    printf '%s\n\n(The last command ended with status %s.)\n' "${__aish_entry#'#?'}" "$__aish_status" |
      command aishctl ask -
  fi
  __aish_seen=$__aish_number
  return "$__aish_status"
}

if [[ $- == *i* ]]; then
  bind -m emacs -x '"\ea": __aish_propose'
  bind -m vi-insert -x '"\ea": __aish_propose'
  if [[ " ${PROMPT_COMMAND[*]-} " != *__aish_after* ]]; then
    if [[ $(declare -p PROMPT_COMMAND 2>/dev/null) == 'declare -a'* ]]; then
      PROMPT_COMMAND=(__aish_after "${PROMPT_COMMAND[@]}")
    else
      PROMPT_COMMAND="__aish_after${PROMPT_COMMAND:+; $PROMPT_COMMAND}"
    fi
  fi
fi
