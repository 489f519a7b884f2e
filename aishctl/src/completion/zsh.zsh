#compdef aishctl aish
# Tab for aishctl and aish in zsh. A line of the answer that begins with a tab says what else to do.
__aish_complete() {
  local line value
  local -a found nospace
  for line in "${(@f)$(command aishctl complete zsh -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)}"; do
    case $line in
      '') ;;
      $'\tfiles')
        [[ $PREFIX == -*=* ]] && compset -P 1 '*='
        _files
        return
        ;;
      $'\tnospace') nospace=(-S '') ;;
      *)
        value=${line%%$'\t'*}
        value=${value//\\/\\\\}
        value=${value//:/\\:}
        [[ $line == *$'\t'* ]] && value+=:${line#*$'\t'}
        found+=("$value")
        ;;
    esac
  done
  (( $#found )) && _describe -V aish found "${nospace[@]}"
}

# As a file of the function path this is the function itself. Read by `init` it may come before the person's own compinit,
# and then waits for the first prompt.
if [[ ${funcstack[1]-} == _aishctl ]]; then
  __aish_complete "$@"
elif (( $+functions[compdef] )); then
  compdef __aish_complete aishctl aish
elif [[ -o interactive ]]; then
  __aish_compdef() {
    add-zsh-hook -d precmd __aish_compdef
    (( $+functions[compdef] )) && compdef __aish_complete aishctl aish
    return 0
  }
  autoload -Uz add-zsh-hook
  add-zsh-hook precmd __aish_compdef
fi
