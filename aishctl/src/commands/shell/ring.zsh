# The shell begins anew in a recorder, once on each terminal. Where that cannot be, it goes on as it is. A shell that is long at work is
# not begun anew: that is for ~/.zshrc.
if [[ -o interactive && -z ${ZSH_EXECUTION_STRING-} && $ZSH_EVAL_CONTEXT == *file* && -t 0 && -t 1 && -z $(jobs -p) ]]; then
  if [[ -r /proc/$$/cmdline ]] && command aishctl record --check 2>/dev/null; then
    exec aishctl record --program ${${:-/proc/$$/exe}:A} -- "${(@0)${$(</proc/$$/cmdline)%$'\0'}}"
  fi
fi
# Programs are not to know the word for the recorder.
typeset -g __aish_ring=${AISH_RING-${__aish_ring-none}}
unset AISH_RING
