# Tab for aishctl and aish in fish. A line of the answer that begins with a tab says what else to do.
function __aish_complete
    set -l word (commandline -ct | string collect --allow-empty)
    set -l found (command aishctl complete fish -- (commandline -opc) $word 2>/dev/null </dev/null)
    if test "$found[1]" = \tfiles
        set -l option (string match -r -- '^--?[^=]*=' $word)
        for path in (__fish_complete_path (string replace -r -- '^--?[^=]*=' '' $word))
            printf '%s%s\n' "$option" $path
        end
        return
    end
    string match -v -- \t'*' $found
end

for program in aishctl aish
    complete -c $program -e
    complete -c $program -f -k -a '(__aish_complete)'
end
