# The shell begins anew in a recorder, once on each terminal. Where that cannot be, it goes on as it is. A shell that is long at work is
# not begun anew: that is for ~/.bashrc.
if [[ $- == *i* && -z ${BASH_EXECUTION_STRING-} && -n ${BASH_SOURCE-} && -t 0 && -t 1 && -z $(jobs -p) ]]; then
  if [[ -r /proc/$$/cmdline ]] && command aishctl record --check 2>/dev/null; then
    mapfile -d '' -t __aish_words </proc/$$/cmdline
    exec aishctl record --program "$BASH" -- "${__aish_words[@]}"
  fi
fi
# Programs are not to know the word for the recorder.
__aish_ring=${AISH_RING-${__aish_ring-none}}
unset AISH_RING __aish_words
