# aish for zsh. Alt-a makes a command of what is typed, `#? TEXT` asks. Neither runs a command.
__aish_propose() {
  emulate -L zsh
  local line
  [[ -n ${BUFFER//[[:space:]]/} ]] || return 0
  zle -I
  line=$(print -r -- "$BUFFER" | command aishctl propose --quiet --shell zsh)
  if [[ $? -eq 0 && -n $line && $line != *[[:cntrl:]]* ]]; then
    BUFFER=$line
    CURSOR=${#BUFFER}
  fi
  zle redisplay
}

# The question is kept when the line is entered, and asked before the next prompt.
__aish_heard() {
  emulate -L zsh
  local line=${1%$'\n'}
  [[ $line == '#?'* && $line != *$'\n'* ]] && typeset -g __aish_question=$line
  return 0
}

# In a recorder (__aish_ring) marks say where the output of a command begins and where it has ended.
__aish_before() {
  emulate -L zsh
  [[ -n ${__aish_question-} ]] && return 0
  typeset -g __aish_running=${1:-$3} __aish_directory=$PWD
  [[ ${__aish_ring-} == *:* ]] && printf '\e]133;C;aish=%s;%s\a' "${__aish_ring#*:}" "${__aish_prompts-0}" >&2
  return 0
}

__aish_after() {
  local __aish_status=$?
  emulate -L zsh
  local recorder=${__aish_ring-}
  typeset -g __aish_prompts=$((${__aish_prompts-0} + 1))
  if [[ $recorder == *:* ]]; then
    printf '\e]133;D;%s;aish=%s;%s\a' "$__aish_status" "${recorder#*:}" "$__aish_prompts" >&2
    recorder+=:$__aish_prompts
  fi
  if [[ -n ${__aish_running+x} ]]; then
    typeset -g __aish_command=$__aish_running __aish_ended=$__aish_status
    unset __aish_running
  fi
  if [[ -n ${__aish_question-} ]]; then
    local question=${__aish_question#'#?'}
    unset __aish_question
    printf '%s\0' "$question" "${__aish_command-}" "${__aish_directory-}" "${__aish_ended-}" "$recorder" |
      command aishctl shell-ask
  fi
  return 0
}

if [[ -o interactive ]]; then
  setopt interactive_comments
  zle -N __aish_propose
  bindkey -M emacs '^[a' __aish_propose
  bindkey -M viins '^[a' __aish_propose
  autoload -Uz add-zsh-hook
  add-zsh-hook zshaddhistory __aish_heard
  add-zsh-hook preexec __aish_before
  add-zsh-hook precmd __aish_after
fi
