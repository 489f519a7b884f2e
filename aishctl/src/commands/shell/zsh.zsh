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

__aish_after() {
  local __aish_status=$?
  emulate -L zsh
  if [[ -n ${__aish_question-} ]]; then
    local question=${__aish_question#'#?'}
    unset __aish_question
    print -r -- "$question

(The last command ended with status $__aish_status.)" | command aishctl ask -
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
  add-zsh-hook precmd __aish_after
fi
