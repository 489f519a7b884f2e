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
# In a recorder (__aish_ring) it marks where the output has ended, and PS0 marks where that of the next command begins.
__aish_after() {
  local __aish_status=$? __aish_entry __aish_number __aish_recorder=${__aish_ring-}
  __aish_prompts=$((${__aish_prompts-0} + 1))
  if [[ $__aish_recorder == *:* ]]; then
    printf '\e]133;D;%s;aish=%s;%s\a' "$__aish_status" "${__aish_recorder#*:}" "$__aish_prompts" >&2
    printf -v __aish_begins '\e]133;C;aish=%s;%s\a' "${__aish_recorder#*:}" "$__aish_prompts"
    __aish_recorder+=:$__aish_prompts
  fi
  __aish_entry=$(HISTTIMEFORMAT='' builtin history 1)
  __aish_entry=${__aish_entry#"${__aish_entry%%[![:space:]]*}"}
  __aish_number=${__aish_entry%%[!0-9]*}
  __aish_entry=${__aish_entry#"$__aish_number"}
  __aish_entry=${__aish_entry#\*}
  __aish_entry=${__aish_entry#"${__aish_entry%%[![:space:]]*}"}
  if [[ -n ${__aish_seen+x} && $__aish_number != "$__aish_seen" && $__aish_entry == '#?'* ]]; then
    printf '%s\0' "${__aish_entry#'#?'}" "${__aish_command-}" "${__aish_directory-}" "${__aish_ended-}" \
      "$__aish_recorder" | command aishctl shell-ask
  elif [[ -n ${__aish_ran-} || ( -n ${__aish_seen+x} && $__aish_number != "$__aish_seen" && $__aish_entry != '#'* ) ]]; then
    # The history keeps no second entry of the same line, nor one of a line that begins with a space.
    if [[ $__aish_number == "${__aish_seen-}" && :${HISTCONTROL-}: == *:ignore@(space|both):* ]]; then
      __aish_entry+=" (or a line that the history does not keep)"
    fi
    __aish_command=$__aish_entry
    __aish_directory=${__aish_here:-$PWD}
    __aish_ended=$__aish_status
  fi
  __aish_ran=
  __aish_seen=$__aish_number
  __aish_here=$PWD
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
  if [[ ${PS0-} != *__aish_ran* ]]; then
    PS0='${__aish_begins-}${PS1:$((__aish_ran=1,0)):0}'${PS0-}
  fi
fi
