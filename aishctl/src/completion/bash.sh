# Tab for aishctl and aish in bash. A line of the answer that begins with a tab says what else to do.
__aish_complete() {
  local __aish_line
  COMPREPLY=()
  while IFS= read -r __aish_line; do
    case $__aish_line in
      '') ;;
      $'\tfiles') compopt -o default 2>/dev/null ;;
      $'\tnospace') compopt -o nospace 2>/dev/null ;;
      *) COMPREPLY+=("$__aish_line") ;;
    esac
  done <<<"$(command aishctl complete bash -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null </dev/null)"
}

complete -o nosort -F __aish_complete aishctl aish 2>/dev/null || complete -F __aish_complete aishctl aish
